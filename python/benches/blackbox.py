"""A black box under tens of thousands of ranking constraints: ``dszog`` and its four rivals beside general-purpose tools.

Of 1,000 rows of a9a, drawn by a seed, half train a linear score w (d = 123). Minimised is the mean of
``1 - exp(-(y_i - x_i . w)^2)`` subject to ``x_j . w - x_i . w <= 0`` for every positive row i and negative row j, from w = 0.
Every method has the same seconds of wall clock, one thread, and a process of its own; one that does not stop is ended soon after.
The tools get vectorised numpy functions. What they return is measured here, not by them: the objective, the largest violation,
and the share of the constraints that is violated by more than 1e-6.

How a tool sees the constraints is part of its name, because some are better served otherwise:

- all pairs: a vector with a number for every constraint;
- largest: the largest of them, one number;
- threshold: a further variable t, negatives at most t and positives at least t, one constraint for each row. The same set of
  points, for those who know that constraints are pairs of scores;
- penalty: the largest violation is added to the objective, for tools that know no constraints;
- squared penalty: its square is, which is what dszog minimises with its default beta.

Tools that are not installed are left out, and named. Beside numpy and scipy these are pymoo, nevergrad, cma and nlopt.

    python benches/blackbox.py                             # everything, about half an hour
    python benches/blackbox.py --quick                     # a few seconds each, 60 training rows
    python benches/blackbox.py --only dszog,cma --out FILE # some, by parts of their names, and a table in Markdown
"""

import argparse
import gzip
import importlib
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import OrderedDict
from pathlib import Path

# Before numpy is there: afterwards nobody looks.
os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np

COLUMNS = 123
TOLERANCE = 1e-6
#: What a tool that wants bounds gets; w with constant scores of -1 lies well inside.
BOUND = 2.0
#: First step, or standard deviation of the first draws, of tools that want one.
SPREAD = 0.1
#: Seconds beyond its own after which a process is ended.
GRACE = 5.0
#: Bytes that the process of a tool may ask for.
MEMORY = 8 << 30

#: What Thalweg's solvers are set to: name, settings, constraints, and the domain. What is repaired is projected onto the
#: constraints once, at the end. The Frank-Wolfe methods need a bounded set, a ball, whose radius is the scale of their steps too.
PAIRS, THRESHOLD = "pairs <= 0", 'pairs(collapsed = "yes") <= 0'
SPREAD_WEIGHTS = 'eta_w = { rule = "decay", c = 0.1, p = 0.7, after = 3000 }\nlambda = 1.0\nmargin = 0.05'
SOLVERS = [
    ("dszog", SPREAD_WEIGHTS, PAIRS, '"all"'),
    ("dszog, repaired", SPREAD_WEIGHTS, PAIRS, '"all"'),
    ("zopsgd", "eta = 0.1", PAIRS, '"all"'),
    ("acczomda", "gamma = 0.1", PAIRS, '"all"'),
    ("zoscgd", "iterations = 100", PAIRS, "{ ball = 10.0 }"),
    ("accszofw", "iterations = 100", PAIRS, "{ ball = 10.0 }"),
    ("zopsgd", "eta = 0.1", THRESHOLD, '"all"'),
]


class Job:
    """The training rows, and everything that is asked about a point."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.X, self.y = X, y
        self.positive, self.negative = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        self.pairs = len(self.positive) * len(self.negative)

    def scores(self, w: np.ndarray) -> np.ndarray:
        return self.X @ w

    # Of scores from here on: a row for each point, or the scores of one point.

    def objective(self, s: np.ndarray) -> np.ndarray:
        return (1.0 - np.exp(-((self.y - s) ** 2))).mean(axis=-1)

    def all_pairs(self, s: np.ndarray) -> np.ndarray:
        differences = s[..., None, self.negative] - s[..., self.positive, None]
        return differences.reshape(*s.shape[:-1], -1)

    def largest(self, s: np.ndarray) -> np.ndarray:
        return s[..., self.negative].max(axis=-1) - s[..., self.positive].min(axis=-1)

    def measure(self, w: np.ndarray) -> dict:
        s = self.scores(w)
        values = self.all_pairs(s)
        return {
            "objective": float(self.objective(s)),
            "violation": max(float(values.max()), 0.0),
            "share": float((values > TOLERANCE).mean()),
        }


# The data.


def rows_of_a9a() -> tuple[np.ndarray, np.ndarray]:
    """The training part of a9a, from the package or else from the published file."""
    try:
        from thalweg.datasets import load
    except ImportError:
        return rows_of_file()
    a9a = load("a9a")
    return a9a.data[: a9a.n_train].toarray(), np.asarray(a9a.target[: a9a.n_train])


def rows_of_file() -> tuple[np.ndarray, np.ndarray]:
    folder = Path(os.environ.get("THALWEG_DATA", "data"))
    found = [folder / name for name in ("a9a.gz", "a9a") if (folder / name).exists()]
    if not found:
        sys.exit(f"{folder} has no a9a.gz: wanted the package thalweg, or the directory of the file in THALWEG_DATA")
    opened = gzip.open if found[0].suffix == ".gz" else open
    with opened(found[0], "rt") as file:
        lines = [line.split() for line in file if line.strip()]
    X, y = np.zeros((len(lines), COLUMNS)), np.empty(len(lines))
    for i, (label, *entries) in enumerate(lines):
        y[i] = np.sign(float(label))
        for entry in entries:
            column, value = entry.split(":")
            X[i, int(column) - 1] = float(value)
    return X, y


def draw(X: np.ndarray, y: np.ndarray, count: int, seed: int) -> Job:
    """Half of `count` rows, with half of their positives."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(y), size=count, replace=False)
    positive, negative = rows[y[rows] > 0], rows[y[rows] < 0]
    half = (len(positive) + 1) // 2
    kept = rng.permutation(np.concatenate([positive[:half], negative[: count // 2 - half]]))
    return Job(X[kept], y[kept])


def write_libsvm(job: Job, file: Path) -> None:
    with file.open("w") as out:
        for x, label in zip(job.X, job.y):
            entries = " ".join(f"{k + 1}:{float(x[k])!r}" for k in np.flatnonzero(x))
            out.write(f"{'+1' if label > 0 else '-1'} {entries}\n")


# What a tool's process leaves behind, also if it is ended in the middle of something.


class TimeUp(BaseException):
    """Not an Exception, because tools catch those."""


def notes_in(file: Path, d: int, mode: str = "r+") -> np.void:
    """A few numbers and points in a mapped file, which outlives the process: when the tool began (seconds since 1970) and how
    long it ran, how many points it asked for, the best of them, the last one, and what the tool would answer."""
    numbers = ("began", "seconds", "points", "best_over", "best_objective", "has_best", "has_answer")
    fields = [(name, "f8") for name in numbers] + [(name, "f8", d) for name in ("best", "last", "answer")]
    return np.memmap(file, dtype=fields, mode=mode, shape=(1,))[0]


class Watch:
    """Scores, once for each point, with the clock and the best point in view."""

    def __init__(self, job: Job, notes: np.void, seconds: float) -> None:
        self.job, self.notes, self.d = job, notes, job.X.shape[1]
        self.known: OrderedDict = OrderedDict()
        self.notes["began"] = time.time()
        self.start = time.perf_counter()
        self.cap = self.limit = seconds

    def own_clock(self) -> float:
        """For tools that end in time by themselves: their seconds. They are stopped only if they do not."""
        self.limit = self.cap + GRACE / 2
        return self.cap

    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def scores(self, x: np.ndarray) -> np.ndarray:
        """At a point, which may have further variables behind w. Differences ask for the same points again: some are kept."""
        w = np.array(x[: self.d], dtype=np.float64)
        key = w.tobytes()
        if key in self.known:
            return self.known[key]
        s = self.job.scores(w)
        self._note(w[None], s[None])
        self.known[key] = s
        if len(self.known) > 4 * self.d:
            self.known.popitem(last=False)
        return s

    def many(self, W: np.ndarray) -> np.ndarray:
        S = W @ self.job.X.T
        self._note(W, S)
        return S

    def _note(self, W: np.ndarray, S: np.ndarray) -> None:
        notes = self.notes
        over = np.maximum(self.job.largest(S), 0.0)
        over[over <= TOLERANCE] = 0.0
        objective = self.job.objective(S)
        k = np.lexsort((objective, over))[0]
        if not notes["has_best"] or (over[k], objective[k]) < (notes["best_over"], notes["best_objective"]):
            notes["best"][:] = W[k]
            notes["best_over"], notes["best_objective"], notes["has_best"] = over[k], objective[k], 1.0
        notes["last"][:] = W[-1]
        notes["points"] += len(W)
        notes["seconds"] = self.elapsed()
        if notes["seconds"] > self.limit:
            raise TimeUp

    def answer(self, x: np.ndarray, *_: object) -> None:
        """What the tool would return now; scipy calls it with an iterate."""
        self.notes["answer"][:] = x[: self.d]
        self.notes["has_answer"] = 1.0

    # As functions of a point.

    def objective(self, x: np.ndarray) -> float:
        return float(self.job.objective(self.scores(x)))

    def all_pairs(self, x: np.ndarray) -> np.ndarray:
        return self.job.all_pairs(self.scores(x))

    def largest(self, x: np.ndarray) -> float:
        return float(self.job.largest(self.scores(x)))

    def threshold(self, x: np.ndarray) -> np.ndarray:
        s, t = self.scores(x), x[self.d]
        return np.where(self.job.y > 0, t - s, s - t)

    def penalised(self, x: np.ndarray) -> float:
        return self.objective(x) + max(self.largest(x), 0.0)

    def squared(self, x: np.ndarray) -> float:
        return self.objective(x) + max(self.largest(x), 0.0) ** 2

    def constraint(self, form: str) -> tuple:
        """The function of a form, how many numbers it gives, and how many variables it takes."""
        return {
            "all pairs": (self.all_pairs, self.job.pairs, self.d),
            "largest": (lambda x: np.array([self.largest(x)]), 1, self.d),
            "threshold": (self.threshold, len(self.job.y), self.d + 1),
        }[form]


# The tools. Each gives its answer, whether it claims success (None if it claims nothing), and what it says.


def scipy_minimize(watch: Watch, form: str, seed: int, method: str, options: dict) -> tuple:
    from scipy.optimize import NonlinearConstraint, minimize

    function, _, variables = watch.constraint(form)
    if method == "SLSQP":
        constraints = {"type": "ineq", "fun": lambda x: -function(x)}
    else:
        constraints = NonlinearConstraint(function, -np.inf, 0.0)
    more = {"jac": "2-point"} if method == "trust-constr" else {}
    result = minimize(
        watch.objective,
        np.zeros(variables),
        method=method,
        constraints=constraints,
        callback=watch.answer,
        options={"maxiter": 10**7, **options},
        **more,
    )
    return result.x, bool(result.success), str(result.message)


def nlopt_optimize(watch: Watch, form: str, seed: int, algorithm: str) -> tuple:
    import nlopt

    function, numbers, variables = watch.constraint(form)

    def constraint(result: np.ndarray, x: np.ndarray, _: np.ndarray) -> None:
        result[:] = function(x)

    nlopt.srand(seed)
    tool = nlopt.opt(getattr(nlopt, algorithm), variables)
    tool.set_min_objective(lambda x, _: watch.objective(x))
    tool.add_inequality_mconstraint(constraint, np.full(numbers, TOLERANCE))
    tool.set_lower_bounds(-BOUND)
    tool.set_upper_bounds(BOUND)
    tool.set_initial_step(SPREAD)
    tool.set_xtol_rel(1e-8)
    tool.set_maxtime(watch.own_clock())
    x = tool.optimize(np.zeros(variables))
    code = tool.last_optimize_result()
    words = {1: "success", 2: "stopval reached", 3: "ftol reached", 4: "xtol reached", 5: "maxeval reached", 6: "maxtime reached"}
    return x, 0 < code < 5, words.get(code, f"code {code}")


def pymoo_ga(watch: Watch, form: str, seed: int, adaptive: bool) -> tuple:
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.constraints.eps import AdaptiveEpsilonConstraintHandling
    from pymoo.core.callback import Callback
    from pymoo.core.problem import Problem
    from pymoo.optimize import minimize
    from pymoo.termination import get_termination

    job = watch.job

    class Ranking(Problem):
        def __init__(self) -> None:
            numbers = job.pairs if form == "all pairs" else 1
            super().__init__(n_var=watch.d, n_obj=1, n_ieq_constr=numbers, xl=-BOUND, xu=BOUND)

        def _evaluate(self, W: np.ndarray, out: dict, *_: object, **__: object) -> None:
            S = watch.many(W)
            out["F"] = job.objective(S)[:, None]
            out["G"] = job.all_pairs(S) if form == "all pairs" else job.largest(S)[:, None]

    class Best(Callback):
        def notify(self, algorithm: object) -> None:
            if algorithm.opt is not None and len(algorithm.opt):
                watch.answer(algorithm.opt[0].X)

    first = SPREAD * np.random.default_rng(seed).normal(size=(100, watch.d))
    first[0] = 0.0
    algorithm = GA(pop_size=100, sampling=first)
    if adaptive:
        algorithm = AdaptiveEpsilonConstraintHandling(algorithm, perc_eps_until=0.5)
    result = minimize(Ranking(), algorithm, get_termination("time", watch.own_clock()), seed=seed, callback=Best())
    if result.X is None:
        return result.pop[np.argmin(result.pop.get("CV")[:, 0])].X, False, "no feasible point"
    return result.X, True, "a feasible point"


def nevergrad_ngopt(watch: Watch, form: str, seed: int) -> tuple:
    import nevergrad

    space = nevergrad.p.Array(init=np.zeros(watch.d)).set_mutation(sigma=SPREAD)
    space.random_state.seed(seed)

    def ranked(x: np.ndarray) -> float:
        return TOLERANCE - watch.largest(x)

    if form == "largest":
        space.register_cheap_constraint(ranked)
    asked_for = watch.objective if form == "largest" else watch.squared
    # NGOpt chooses its method by the budget, which is counted in points: about what the seconds are good for.
    tool = nevergrad.optimizers.NGOpt(parametrization=space, budget=max(int(700 * watch.cap), 100), num_workers=1)
    told = -1.0
    while tool.num_tell < tool.budget and watch.elapsed() < watch.cap:
        asked = tool.ask()
        tool.tell(asked, asked_for(asked.value))
        if watch.elapsed() > told + 0.5:
            told = watch.elapsed()
            watch.answer(tool.provide_recommendation().value)
    return tool.provide_recommendation().value, None, f"{tool.num_tell:,} of {tool.budget:,} points told"


def cma_al(watch: Watch, form: str, seed: int) -> tuple:
    import cma

    function, _, variables = watch.constraint(form)
    x, es = cma.fmin_con2(
        watch.objective,
        np.zeros(variables),
        SPREAD,
        constraints=lambda x: list(function(x)),
        options={"timeout": watch.own_clock(), "verbose": -9, "seed": seed + 1},
        callback=lambda es: watch.answer(es.result.xfavorite),
    )
    return x, None, ", ".join(es.stop())


def cma_penalty(watch: Watch, form: str, seed: int) -> tuple:
    import cma

    options = {"timeout": watch.own_clock(), "verbose": -9, "seed": seed + 1}
    x, es = cma.fmin2(watch.penalised, np.zeros(watch.d), SPREAD, options, callback=lambda es: watch.answer(es.result.xfavorite))
    return x, None, ", ".join(es.stop())


COBYLA = {"rhobeg": SPREAD, "tol": 1e-8, "catol": TOLERANCE}
COBYQA = {"initial_tr_radius": SPREAD, "final_tr_radius": 1e-8, "feasibility_tol": TOLERANCE}
# From its own first barrier, 0.1, it runs to scores so large that the objective is flat.
TRUST = {"initial_tr_radius": SPREAD, "gtol": 1e-8, "initial_barrier_parameter": 1e-5, "initial_barrier_tolerance": 1e-5}
SLSQP = {"ftol": 1e-9}

#: Name, package, what runs it, how it sees the constraints, and what else it is told.
TOOLS = [
    ("scipy COBYLA", "scipy", scipy_minimize, "all pairs", {"method": "COBYLA", "options": COBYLA}),
    ("scipy COBYLA", "scipy", scipy_minimize, "largest", {"method": "COBYLA", "options": COBYLA}),
    ("scipy COBYQA", "scipy", scipy_minimize, "largest", {"method": "COBYQA", "options": COBYQA}),
    ("scipy SLSQP", "scipy", scipy_minimize, "all pairs", {"method": "SLSQP", "options": SLSQP}),
    ("scipy SLSQP", "scipy", scipy_minimize, "largest", {"method": "SLSQP", "options": SLSQP}),
    ("scipy SLSQP", "scipy", scipy_minimize, "threshold", {"method": "SLSQP", "options": SLSQP}),
    (
        "scipy trust-constr",
        "scipy",
        scipy_minimize,
        "all pairs",
        # Dense, it would begin with a matrix of pairs times pairs.
        {"method": "trust-constr", "options": {"sparse_jacobian": True, **TRUST}},
    ),
    ("scipy trust-constr", "scipy", scipy_minimize, "threshold", {"method": "trust-constr", "options": TRUST}),
    ("nlopt COBYLA", "nlopt", nlopt_optimize, "largest", {"algorithm": "LN_COBYLA"}),
    ("nlopt COBYLA", "nlopt", nlopt_optimize, "threshold", {"algorithm": "LN_COBYLA"}),
    ("nlopt ISRES", "nlopt", nlopt_optimize, "largest", {"algorithm": "GN_ISRES"}),
    ("pymoo GA", "pymoo", pymoo_ga, "all pairs", {"adaptive": False}),
    ("pymoo GA, adaptive epsilon", "pymoo", pymoo_ga, "largest", {"adaptive": True}),
    ("nevergrad NGOpt, cheap constraint", "nevergrad", nevergrad_ngopt, "largest", {}),
    ("nevergrad NGOpt", "nevergrad", nevergrad_ngopt, "squared penalty", {}),
    ("cma, augmented Lagrangian", "cma", cma_al, "largest", {}),
    ("cma", "cma", cma_penalty, "penalty", {}),
]


def full_name(tool: tuple) -> str:
    return f"{tool[0]}, {tool[3]}"


def be_a_tool(number: int, folder: Path, seconds: float, seed: int) -> None:
    """In a process of its own."""
    warnings.simplefilter("ignore")
    _, package, run, form, more = TOOLS[number]
    kept = np.load(folder / "rows.npz")
    job = Job(kept["X"], kept["y"])
    importlib.import_module(package)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    watch = Watch(job, notes_in(folder / "notes", job.X.shape[1]), seconds)
    said: dict = {}
    try:
        x, success, message = run(watch, form, seed, **more)
        watch.answer(np.asarray(x))
        said = {"success": success, "message": message}
    except TimeUp:
        said = {"success": None, "message": "stopped at its time"}
    except MemoryError:
        said = {"success": None, "message": f"not done: more than {MEMORY >> 30} GB of memory wanted"}
    except Exception as error:
        said = {"success": None, "message": f"not done: {type(error).__name__}: {error}"}
    said["seconds"] = watch.elapsed()
    (folder / "said.json").write_text(json.dumps(said))


# Running them, from outside.


def run_tool(number: int, job: Job, folder: Path, seconds: float, seed: int) -> dict:
    d = job.X.shape[1]
    notes = notes_in(folder / "notes", d, "w+")
    said_file = folder / "said.json"
    said_file.unlink(missing_ok=True)
    words = [sys.executable, __file__, "--be", str(number), "--folder", str(folder)]
    words += ["--seconds", str(seconds), "--seed", str(seed)]
    with (folder / "errors").open("w+") as errors:
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)
        ended, started = False, time.time()
        try:
            while child.poll() is None:
                # Imports are not on the clock, and have a minute.
                late = notes["began"] + seconds + GRACE if notes["began"] else started + 60.0
                if time.time() > late:
                    child.kill()
                    ended = True
                time.sleep(0.05)
        finally:
            child.kill()
            child.wait()
        errors.seek(0)
        complaint = errors.read().strip().splitlines()[-1:]
    if said_file.exists():
        said = json.loads(said_file.read_text())
    elif ended:
        said = {"success": None, "message": "not done: ended from outside", "seconds": seconds + GRACE}
    else:
        message = f"not done: exit code {child.returncode} {' '.join(complaint)}"
        said = {"success": None, "message": message, "seconds": notes["seconds"]}
    # Before a first answer there is the last point that was asked for, and before that w = 0.
    point = np.array(notes["answer"] if notes["has_answer"] else notes["last"])
    if not notes["has_answer"] and notes["points"]:
        said["message"] += " (its last point)"
    best = job.measure(np.array(notes["best"]))["objective"] if notes["has_best"] and notes["best_over"] == 0.0 else None
    return {
        **job.measure(point),
        "best": best,
        "losses": notes["points"],
        "constraints": notes["points"],
        "seconds": said["seconds"],
        "said": claim(said["success"], said["message"]),
    }


def run_thalweg(command: str, solver: tuple, job: Job, folder: Path, seconds: float, seed: int) -> dict:
    (name, *how), (settings, constraints, domain) = solver[0].split(", "), solver[1:]
    spec = (
        f"seed = {seed}\nrepair = {json.dumps('repaired' in how)}\n"
        f'[data]\nfile = "rows.svm"\ncolumns = {COLUMNS}\nsplit = "shared"\n'
        f'[problem]\nminimize = "welsch"\nsubject_to = [{json.dumps(constraints)}]\ndomain = {domain}\n'
        f'[solver]\nname = "{name}"\n{settings}\n[budget]\nseconds = {seconds}\n'
    )
    (folder / "spec.toml").write_text(spec)
    try:
        done = subprocess.run(
            [command, "solve", str(folder / "spec.toml"), "--json", "--quiet"],
            capture_output=True,
            text=True,
            timeout=seconds + 60.0,
        )
    except subprocess.TimeoutExpired:
        return nothing("not done: ended from outside", seconds + 60.0)
    if not done.stdout.strip():
        return nothing(f"not done: {done.stderr.strip() or f'exit code {done.returncode}'}", 0.0)
    outcome = json.loads(done.stdout)
    found = outcome.get("best_feasible")
    return {
        **job.measure(np.array(outcome["point"]["x"])),
        "best": job.measure(np.array(found["x"]))["objective"] if found else None,
        "losses": outcome["passes"]["objective"],
        "constraints": outcome["passes"]["constraints"],
        "seconds": outcome["seconds"],
        "said": claim(outcome["success"], outcome["message"]),
    }


def nothing(said: str, seconds: float) -> dict:
    none = dict.fromkeys(("objective", "violation", "share", "best", "losses", "constraints"))
    return {**none, "seconds": seconds, "said": said}


def claim(success: object, message: str) -> str:
    message = " ".join(message.split()).rstrip(".")
    return message if success is None else f"{'success' if success else 'no success'}: {message}"


def trivial_points(job: Job) -> list:
    """w = 0, and the best of those w that give every row the same score, if there are any."""
    d = job.X.shape[1]
    rows = [("w = 0", {**nothing("", 0.0), **job.measure(np.zeros(d))})]
    one = np.linalg.lstsq(job.X, np.ones(len(job.y)), rcond=None)[0]
    off = float(np.abs(job.scores(one) - 1.0).max())
    grid = np.linspace(-2.0, 2.0, 40_001)
    values = [job.objective(np.full(len(job.y), c)) for c in grid]
    c = grid[int(np.argmin(values))]
    words = f"every score is {c:.3f}" + (f" up to {off:.0e}" if off > 1e-9 else "")
    rows.append(("the best constant score", {**nothing(words, 0.0), **job.measure(c * one)}))
    return rows


# Telling.

HEADS = ["", "objective", "largest violation", "violated", "best feasible", "losses", "constraints", "seconds", "says"]


def cells(name: str, row: dict) -> list:
    def number(key: str, form: str) -> str:
        return "-" if row[key] is None else format(row[key], form)

    return [
        name,
        number("objective", ".4f"),
        "0" if row["violation"] == 0.0 else number("violation", ".1e"),
        number("share", ".2%"),
        number("best", ".4f"),
        number("losses", ",.0f"),
        number("constraints", ",.0f"),
        number("seconds", ".1f"),
        row["said"],
    ]


WIDTHS = [44, 10, 18, 9, 14, 12, 12, 8]


def line(texts: list) -> str:
    first, *middle = texts[:-1]
    return f"{first:{WIDTHS[0]}}" + "".join(f"{text:>{width}}" for text, width in zip(middle, WIDTHS[1:])) + f"  {texts[-1]}"


def sizes(job: Job) -> str:
    return f"{len(job.positive)} positive and {len(job.negative)} negative rows, {job.pairs:,} constraints"


def notes(versions: list, missing: list) -> list:
    return [
        "Violated is the share of the constraints that are violated by more than 1e-6. Best feasible is the smallest objective",
        "of the points with none of those, among all that a tool asked for, or that a run of Thalweg recorded. Losses and",
        "constraints are passes over all rows and all pairs; a point that a tool asks for is one of each. Thalweg's solvers but",
        "dszog know the constraints as rows, and project; everything else only asks for values. A method that was ended from",
        "outside, or stopped at its time, is measured where it stood.",
        "",
        f"Python {platform.python_version()}, {', '.join(versions)}.",
        *([f"Missing: {', '.join(dict.fromkeys(missing))}."] if missing else []),
    ]


def markdown(arguments: argparse.Namespace, job: Job, rows: list, below: list) -> str:
    words = "".join(f" --{key} {value:g}" for key, value in (("seconds", arguments.seconds), ("rows", arguments.rows)))
    words += f' --only "{arguments.only}"' if arguments.only else ""
    text = "## A black box under ranking constraints, beside general-purpose tools\n\n"
    text += f"```sh\npython python/benches/blackbox.py{words}\n```\n\n"
    text += (
        f"Half of {arguments.rows:,} rows of a9a (seed {arguments.seed}), {sizes(job)}, {job.X.shape[1]} variables, from w = 0,\n"
        f"{arguments.seconds:g} seconds and one thread for each method, one after the other:\n\n"
    )
    text += f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}\n"
    for name, row in rows:
        text += "| " + " | ".join(cell.replace("|", "\\|") for cell in cells(name, row)) + " |\n"
    text += "\n" + "\n".join(below) + "\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, help="wall clock of each method; 90, or 3 with --quick")
    parser.add_argument("--rows", type=int, help="rows that are drawn, of which half train; 1000, or 120 with --quick")
    parser.add_argument("--quick", action="store_true", help="few rows and seconds, to see that everything runs")
    parser.add_argument("--seed", type=int, default=0, help="of the rows and of every method")
    parser.add_argument("--command", default="thalweg", help="the command, if it is not on the path as thalweg")
    parser.add_argument("--only", help="parts of names, separated by commas: only methods with one of them")
    parser.add_argument("--out", type=Path, help="a file for the table in Markdown")
    parser.add_argument("--be", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.be is not None:
        be_a_tool(arguments.be, arguments.folder, arguments.seconds, arguments.seed)
        return
    arguments.seconds = arguments.seconds or (3.0 if arguments.quick else 90.0)
    arguments.rows = arguments.rows or (120 if arguments.quick else 1000)
    parts = [part.strip().lower() for part in (arguments.only or "").split(",")]

    def wanted(name: str) -> bool:
        return any(part in name.lower() for part in parts)

    job = draw(*rows_of_a9a(), arguments.rows, arguments.seed)
    print(f"{sizes(job)}, {arguments.seconds:g} seconds each\n")
    rows, missing, versions = [], [], [f"numpy {np.__version__}"]

    def report(name: str, row: dict) -> None:
        rows.append((name, row))
        print(line(cells(name, row)), flush=True)
        # After every row: half an hour is long enough for something to come between.
        if arguments.out:
            arguments.out.write_text(markdown(arguments, job, rows, notes(versions, missing)))

    print(line(HEADS))
    for name, row in trivial_points(job):
        report(name, row)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_libsvm(job, folder / "rows.svm")
        np.savez(folder / "rows.npz", X=job.X, y=job.y)
        command = shutil.which(arguments.command)
        if command is None:
            missing.append(f"the command {arguments.command}")
        for solver in SOLVERS if command else ():
            name = f"thalweg {solver[0]}" + (", threshold" if solver[2] == THRESHOLD else "")
            if wanted(name):
                report(name, run_thalweg(command, solver, job, folder, arguments.seconds, arguments.seed))
        for number, tool in enumerate(TOOLS):
            package = tool[1]
            if not wanted(full_name(tool)):
                continue
            try:
                version = f"{package} {importlib.metadata.version(package)}"
            except importlib.metadata.PackageNotFoundError:
                missing.append(package)
                continue
            if version not in versions:
                versions.append(version)
            report(full_name(tool), run_tool(number, job, folder, arguments.seconds, arguments.seed))
    print("\n" + "\n".join(notes(versions, missing)))


if __name__ == "__main__":
    main()
