"""A black box under tens of thousands of ranking constraints: ``dszog`` and its four rivals beside general-purpose tools.

Of 1,000 rows of a9a, drawn by a seed, half train a linear score w (d = 123). Minimised is the mean of
``1 - exp(-(y_i - x_i . w)^2)`` subject to ``x_j . w - x_i . w <= 0`` for every positive row i and negative row j, from w = 0.
Every method has the same seconds of wall clock; one that does not stop is ended soon after, and measured where it stood. The
tools get vectorised numpy functions.

How a tool sees the constraints is part of its name, because some are better served otherwise:

- all pairs: a vector with a number for every constraint;
- largest: the largest of them, one number;
- threshold: a further variable t, negatives at most t and positives at least t, one constraint for each row. The same set of
  points, for those who know that constraints are pairs of scores;
- penalty: the largest violation is added to the objective, for tools that know no constraints;
- squared penalty: its square is, which is what dszog minimises with its default beta.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from thalweg.rivals._contest import GRACE, TOLERANCE, Answer, Clock, Column, Contestant, Goal, Job, Row, Size, by_name
from thalweg.rivals._words import listed, nlopt_word

#: What a tool that wants bounds gets; w with constant scores of -1 lies well inside.
BOUND = 2.0
#: First step, or standard deviation of the first draws, of tools that want one.
SPREAD = 0.1
#: Objectives that differ by less than this are called even: two runs of the same method do.
EVEN = 2e-4
SEED = 0

#: Constraints in the words of specs.
PAIRS, COLLAPSED = "pairs <= 0", 'pairs(collapsed = "yes") <= 0'
#: Settings of dszog that spread the weight over all pairs that are charged, and charge them before they are violated.
WEIGHED = 'eta_w = { rule = "decay", c = 0.1, p = 0.7, after = 3000 }\nlambda = 1.0\nmargin = 0.05'

KNOWS_ROWS = "the constraints as rows, onto which it projects"
KNOWS_END = "the constraints as rows, for one projection at its end"
KNOWS_THRESHOLD = "that the constraints are pairs of scores, with a threshold between them"
KNOWS_LARGEST = "that the largest of all pairs is that of two scores"


class BlackBox(Job):
    """The training rows, and everything that is asked about a point."""

    key = "blackbox"
    title = "A black box under ranking constraints"
    columns = (
        Column("objective", "objective"),
        Column("violation", "largest violation", ".1e"),
        Column("share", "violated", ".2%"),
        Column("best", "best feasible"),
        Column("losses", "losses", ",.0f"),
    )
    cap = (90.0, 0.5)
    uses_all = True
    advice = (
        "Functions that are exact and cheap, a hundred variables, and constraints that can all be asked for or written in fewer "
        "numbers: take SLSQP with finite differences, and look for such a formulation first. Few variables and no constraints "
        "but a box: take cma. `dszog` is for what is left: values that are sampled, constraints that cannot all be asked for at "
        "each step, or many more of them."
    )

    def __init__(self, size: Size) -> None:
        from thalweg.datasets import load

        super().__init__(size)
        a9a = load("a9a")
        self.drawn = 120 if size.quick else 1000
        self.X, self.y = _draw(a9a.data[: a9a.n_train], np.asarray(a9a.target[: a9a.n_train]), self.drawn)
        self.positive, self.negative = np.flatnonzero(self.y > 0), np.flatnonzero(self.y < 0)
        self.pairs = len(self.positive) * len(self.negative)

    def problem(self) -> str:
        return (
            f"Half of {self.drawn:,} rows of a9a, {len(self.positive)} positive and {len(self.negative)} negative ones, "
            f"{self.X.shape[1]} variables, from w = 0: the mean of `1 - exp(-(y - x . w)^2)`, subject to every positive row "
            f"having at least the score of every negative one, **{self.pairs:,} constraints**. {self.seconds:g} seconds and one "
            "thread each. A tool's name says how it sees the constraints: all pairs, a number for each; their largest, one "
            "number; a threshold between the two kinds of rows, one more variable and a constraint for each row, the same set; "
            "or a penalty. Violated is the share of the constraints that are violated by more than 1e-6, best feasible the "
            "smallest objective of a point with none of those among all that were asked for, losses the passes over the rows."
        )

    # Of scores: a row for each point, or the scores of one point.

    def objective(self, s: np.ndarray) -> np.ndarray:
        return (1.0 - np.exp(-((self.y - s) ** 2))).mean(axis=-1)

    def all_pairs(self, s: np.ndarray) -> np.ndarray:
        differences = s[..., None, self.negative] - s[..., self.positive, None]
        return differences.reshape(*s.shape[:-1], -1)

    def largest(self, s: np.ndarray) -> np.ndarray:
        return s[..., self.negative].max(axis=-1) - s[..., self.positive].min(axis=-1)

    def contestants(self) -> List[Contestant]:
        return [*MARKS, *OURS, *TOOLS]

    def measure(self, contestant: Contestant, point: Any) -> Dict[str, Optional[float]]:
        w, best, losses = point
        s = self.X @ w
        values = self.all_pairs(s)
        return {
            "objective": float(self.objective(s)),
            "violation": max(float(values.max()), 0.0),
            "share": float((values > TOLERANCE).mean()),
            "best": None if best is None else float(self.objective(self.X @ best)),
            "losses": losses,
        }

    def rescue(self, folder: Path) -> Optional[Tuple[Any, str]]:
        if not (folder / "notes").exists():
            return None
        return _noted(_notes_in(folder, self.X.shape[1]))

    def shortfall(self, row: Row) -> str:
        return ""

    def _compared(self, rows: Sequence[Row]) -> Tuple[List[Row], List[Row], List[Row]]:
        """Rows of dszog, the rivals that see the constraints as they are, and those that are told more or ask otherwise."""
        ran = [row for row in rows if row.ran and not row.mark]
        ours = [row for row in ran if "dszog" in row.name]
        others = [row for row in ran if row not in ours]
        plain = [row for row in others if row.knows in ("", KNOWS_ROWS)]
        return ours, plain, [row for row in others if row not in plain]

    def shows(self, rows: Sequence[Row]) -> List[str]:
        ours, plain, told = self._compared(rows)
        kept = min((row for row in ours if row.kept), key=_objective, default=None)
        if not ours:
            return ["dszog has no row here: nothing is compared."]
        lowest = min(ours, key=_objective)
        text = (
            f"Under {self.pairs:,} constraints the lowest objective of dszog is {lowest['objective']:.4f}, with "
            f"{lowest['share']:.1%} of them violated by at most {lowest.violation:.1g}"
        )
        if kept is not None:
            text += f"; all of them are kept at {kept['objective']:.4f} ({kept.name})"
        feasible = min((row for row in plain if row.kept), key=_objective, default=None)
        if feasible is not None:
            text += ". The best feasible end of a rival that sees the pairs as they are is "
            text += f"{feasible['objective']:.4f} ({feasible.name})"
        text += "."
        constant = by_name(rows, "the best constant score")
        stuck = [
            row.name for row in plain if constant is not None and row.kept and _objective(row) >= _objective(constant) - EVEN
        ]
        if stuck and constant is not None:
            text += f" No lower than the best constant score, {constant['objective']:.4f}, end {listed(stuck)}."
        outside = [row for row in plain if not row.kept]
        if outside:
            text += f" Not feasible end {listed(_outside(row) for row in outside)}."
        untrue = [row.name for row in rows if row.untrue]
        if untrue:
            text += f" Success at a point that is not feasible is claimed by {listed(untrue)}."
        paragraphs = [text]
        ahead = [row for row in told if kept is not None and row.kept and _objective(row) < _objective(kept) - EVEN]
        if ahead:
            words = listed(f"{row.name} at {row['objective']:.4f} in {row.seconds:.1f} seconds" for row in ahead)
            paragraphs.append(
                f"Told more about the structure, general tools do better than dszog here: {words}. Theirs is another "
                "formulation of the same set, which somebody has to find; where it is there, and values are exact and cheap, it "
                "is the way to go."
            )
        elif told:
            paragraphs.append("No formulation that knows more about the structure ends feasible at a lower objective than dszog.")
        return paragraphs

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        ours, plain, told = self._compared(rows)
        kept = min((row for row in ours if row.kept), key=_objective, default=None)
        best = f"dszog has {min(map(_objective, ours)):.4f}" if ours else "dszog has no row"
        if kept is not None:
            best += f", and {_objective(kept):.4f} with every constraint kept"
            best += ", by a projection at its end, which knows them as rows" if kept.knows else ""
        ahead = f"dszog ahead of every rival that sees the {self.pairs:,} constraints as they are, at a violation no larger"
        more = "dszog ahead of those, too, that are told more about the constraints"
        return [_beaten(ahead, ours, plain, best), _beaten(more, ours, told, best)]


def _beaten(words: str, ours: Sequence[Row], others: Sequence[Row], best: str) -> Goal:
    """Whether every one of the others is behind some row of ours."""
    if not ours or not others:
        return Goal(words, None, "no rows to compare")
    ahead = [row for row in others if not any(_beats(own, row) for own in ours)]
    because = f"{len(others) - len(ahead)} of {len(others)} are beaten"
    if ahead:
        state = lambda row: "feasible" if row.kept else f"violated by {row.violation:.0e}"
        because += f", not {listed(f'{row.name} ({_objective(row):.4f}, {state(row)})' for row in ahead)}"
    return Goal(words, not ahead, f"{because}; {best}")


def _objective(row: Row) -> float:
    value = row["objective"]
    return float("inf") if value is None else value


def _outside(row: Row) -> str:
    return f"{row.name} ({row['share']:.0%} violated)"


def _beats(own: Row, other: Row) -> bool:
    """A lower objective at a violation that is no larger: feasible points are all alike."""
    return _objective(own) < _objective(other) and (own.kept or (own.violation or 0.0) <= (other.violation or 0.0))


def _draw(X: Any, y: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """Half of `count` rows, with half of their positives."""
    rng = np.random.default_rng(SEED)
    rows = rng.choice(len(y), size=count, replace=False)
    positive, negative = rows[y[rows] > 0], rows[y[rows] < 0]
    half = (len(positive) + 1) // 2
    kept = rng.permutation(np.concatenate([positive[:half], negative[: count // 2 - half]]))
    return X[kept].toarray(), y[kept]


# What a tool's process leaves behind, also if it is ended in the middle of something.


class TimeUp(BaseException):
    """Not an Exception, because tools catch those."""


def _notes_in(folder: Path, d: int, mode: str = "r+") -> Any:
    """A few numbers and points in a mapped file, which outlives the process: how many points the tool asked for, the best of
    them, the last one, and what the tool would answer."""
    numbers = ("points", "best_over", "best_objective", "has_best", "has_answer")
    fields = [(name, "f8") for name in numbers] + [(name, "f8", (d,)) for name in ("best", "last", "answer")]
    return np.memmap(folder / "notes", dtype=fields, mode=mode, shape=(1,))[0]  # type: ignore[call-overload]


def _noted(notes: Any) -> Tuple[Any, str]:
    """The point of these notes: before a first answer the last one that was asked for, and before that w = 0."""
    best = np.array(notes["best"]) if notes["has_best"] and notes["best_over"] == 0.0 else None
    point = np.array(notes["answer"] if notes["has_answer"] else notes["last"])
    words = "" if notes["has_answer"] or not notes["points"] else "(its last point)"
    return (point, best, float(notes["points"])), words


class Watch:
    """Scores, once for each point, with the clock and the best point in view."""

    def __init__(self, job: BlackBox, clock: Clock) -> None:
        self.job, self.d = job, job.X.shape[1]
        self.notes = _notes_in(clock.folder, self.d, "w+")
        self.known: OrderedDict = OrderedDict()
        self.start = time.perf_counter()
        self.cap = self.limit = clock.cap

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
        s = self.job.X @ w
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
        if self.elapsed() > self.limit:
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


def watched(job: BlackBox, clock: Clock, tool: str, form: str, **told: Any) -> Answer:
    """A tool with its eye on the clock. Whatever stops it, it has the point that it would have answered with."""
    watch = Watch(job, clock)
    claimed, says = None, "stopped at its time"
    try:
        with clock:
            x, claimed, says = _RUNS[tool](watch, form, **told)
        watch.answer(np.asarray(x))
    except TimeUp:
        pass
    except MemoryError:
        says = "not done: too much memory wanted"
    except Exception as error:
        says = f"not done: {type(error).__name__}: {error}"
    point, words = _noted(watch.notes)
    return Answer(point, claimed, f"{says} {words}".strip())


# The tools. Each gives its answer, whether it claims success (None if it claims nothing), and what it says.


def thalweg_minimize(watch: Watch, form: str) -> tuple:
    from thalweg import blackbox

    job = watch.job

    def some_pairs(W: np.ndarray, which: np.ndarray) -> np.ndarray:
        i, j = np.divmod(which, len(job.negative))
        S = W @ job.X.T
        return S[:, job.negative[j]] - S[:, job.positive[i]]

    result = blackbox.minimize(
        lambda W: job.objective(watch.many(W)),
        np.zeros(watch.d),
        constraints=some_pairs,
        n_constraints=job.pairs,
        vectorized=True,
        options={
            "eta_w": {"rule": "decay", "c": 0.1, "p": 0.7, "after": 3000},
            "lambda": 1.0,
            "margin": 0.05,
            "maxiter": 10**7,
            "budget": {"seconds": watch.own_clock()},
        },
        callback=lambda now: watch.answer(now.x),
        seed=SEED,
    )
    return result.x, bool(result.success), result.message


def scipy_minimize(watch: Watch, form: str, method: str, options: dict) -> tuple:
    from scipy.optimize import NonlinearConstraint, minimize

    function, _, variables = watch.constraint(form)
    constraints: Any = NonlinearConstraint(function, -np.inf, 0.0)
    if method == "SLSQP":
        constraints = {"type": "ineq", "fun": lambda x: -function(x)}
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


def nlopt_optimize(watch: Watch, form: str, algorithm: str) -> tuple:
    import nlopt

    function, numbers, variables = watch.constraint(form)

    def constraint(result: np.ndarray, x: np.ndarray, _: np.ndarray) -> None:
        result[:] = function(x)

    nlopt.srand(SEED)
    tool = nlopt.opt(getattr(nlopt, algorithm), variables)
    tool.set_min_objective(lambda x, _: watch.objective(x))
    tool.add_inequality_mconstraint(constraint, np.full(numbers, TOLERANCE))
    tool.set_lower_bounds(-BOUND)
    tool.set_upper_bounds(BOUND)
    tool.set_initial_step(SPREAD)
    tool.set_xtol_rel(1e-8)
    tool.set_maxtime(watch.own_clock())
    x = tool.optimize(np.zeros(variables))
    return (x, *nlopt_word(tool.last_optimize_result()))


def pymoo_ga(watch: Watch, form: str, adaptive: bool) -> tuple:
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
        def notify(self, algorithm: Any) -> None:
            if algorithm.opt is not None and len(algorithm.opt):
                watch.answer(algorithm.opt[0].X)

    first = SPREAD * np.random.default_rng(SEED).normal(size=(100, watch.d))
    first[0] = 0.0
    algorithm = GA(pop_size=100, sampling=first)
    if adaptive:
        algorithm = AdaptiveEpsilonConstraintHandling(algorithm, perc_eps_until=0.5)
    result = minimize(Ranking(), algorithm, get_termination("time", watch.own_clock()), seed=SEED, callback=Best())
    if result.X is None:
        return result.pop[np.argmin(result.pop.get("CV")[:, 0])].X, False, "no feasible point"
    return result.X, True, "a feasible point"


def nevergrad_ngopt(watch: Watch, form: str) -> tuple:
    import nevergrad

    space = nevergrad.p.Array(init=np.zeros(watch.d)).set_mutation(sigma=SPREAD)
    space.random_state.seed(SEED)

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


def cma_lagrangian(watch: Watch, form: str) -> tuple:
    import cma

    function, _, variables = watch.constraint(form)
    x, es = cma.fmin_con2(
        watch.objective,
        np.zeros(variables),
        SPREAD,
        constraints=lambda x: list(function(x)),
        options={"timeout": watch.own_clock(), "verbose": -9, "seed": SEED + 1},
        callback=lambda es: watch.answer(es.result.xfavorite),
    )
    return x, None, ", ".join(es.stop())


def cma_penalty(watch: Watch, form: str) -> tuple:
    import cma

    options = {"timeout": watch.own_clock(), "verbose": -9, "seed": SEED + 1}
    x, es = cma.fmin2(watch.penalised, np.zeros(watch.d), SPREAD, options, callback=lambda es: watch.answer(es.result.xfavorite))
    return x, None, ", ".join(es.stop())


_RUNS = {
    run.__name__: run
    for run in (thalweg_minimize, scipy_minimize, nlopt_optimize, pymoo_ga, nevergrad_ngopt, cma_lagrangian, cma_penalty)
}


# Thalweg's solvers, by the command.


def by_command(job: BlackBox, clock: Clock, solver: str, settings: str, constraints: str, domain: str, repair: bool) -> Answer:
    """The rows and a spec go into files, as a user of the command has them."""
    with (clock.folder / "rows.svm").open("w") as out:
        for x, label in zip(job.X, job.y):
            entries = " ".join(f"{k + 1}:{float(x[k])!r}" for k in np.flatnonzero(x))
            out.write(f"{'+1' if label > 0 else '-1'} {entries}\n")
    spec = clock.folder / "spec.toml"
    spec.write_text(
        f"seed = {SEED}\nrepair = {json.dumps(repair)}\n"
        f'[data]\nfile = "rows.svm"\ncolumns = {job.X.shape[1]}\nsplit = "shared"\n'
        f'[problem]\nminimize = "welsch"\nsubject_to = [{json.dumps(constraints)}]\ndomain = {domain}\n'
        f'[solver]\nname = "{solver}"\n{settings}\n[budget]\nseconds = {clock.cap}\n'
    )
    words = [sys.executable, "-m", "thalweg", "solve", str(spec), "--json", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True)
    if not done.stdout.strip():
        return Answer(None, None, f"not done: {done.stderr.strip() or f'exit code {done.returncode}'}")
    outcome = json.loads(done.stdout)
    # As the tools are timed: without starting the program and reading the rows.
    clock.taken += outcome["seconds"]
    found = outcome.get("best_feasible")
    best = None if found is None else np.array(found["x"])
    point = (np.array(outcome["point"]["x"]), best, outcome["passes"]["objective"])
    return Answer(point, bool(outcome["success"]), outcome["message"])


def _solver(
    name: str, solver: str, settings: str, domain: str = '"all"', constraints: str = PAIRS, repair: bool = False, knows: str = ""
) -> Contestant:
    told = {"solver": solver, "settings": settings, "constraints": constraints, "domain": domain, "repair": repair}
    return Contestant(f"thalweg {name}", by_command, told, ours=True, knows=knows)


#: The Frank-Wolfe methods need a bounded set, a ball, whose radius is the scale of their steps too.
OURS = [
    _solver("dszog", "dszog", WEIGHED),
    _solver("dszog, repaired", "dszog", WEIGHED, repair=True, knows=KNOWS_END),
    Contestant("thalweg.blackbox.minimize, dszog", watched, {"tool": "thalweg_minimize", "form": "some pairs"}, ours=True),
    _solver("zopsgd", "zopsgd", "eta = 0.1", knows=KNOWS_ROWS),
    _solver("acczomda", "acczomda", "gamma = 0.1", knows=KNOWS_ROWS),
    _solver("zoscgd", "zoscgd", "iterations = 100", "{ ball = 10.0 }", knows=KNOWS_ROWS),
    _solver("accszofw", "accszofw", "iterations = 100", "{ ball = 10.0 }", knows=KNOWS_ROWS),
    _solver("zopsgd, threshold", "zopsgd", "eta = 0.1", constraints=COLLAPSED, knows=KNOWS_THRESHOLD),
]


def at_zero(job: BlackBox, clock: Clock) -> Answer:
    return Answer((np.zeros(job.X.shape[1]), None, None), None, "the start")


def at_constant(job: BlackBox, clock: Clock) -> Answer:
    """The best of those w that give every row the same score."""
    one = np.linalg.lstsq(job.X, np.ones(len(job.y)), rcond=None)[0]
    grid = np.linspace(-2.0, 2.0, 40_001)
    values = [job.objective(np.full(len(job.y), c)) for c in grid]
    c = grid[int(np.argmin(values))]
    return Answer((c * one, None, None), None, f"every score is {c:.3f}")


MARKS = [Contestant("w = 0", at_zero, mark=True), Contestant("the best constant score", at_constant, mark=True)]

COBYLA = {"rhobeg": SPREAD, "tol": 1e-8, "catol": TOLERANCE}
COBYQA = {"initial_tr_radius": SPREAD, "final_tr_radius": 1e-8, "feasibility_tol": TOLERANCE}
# From its own first barrier, 0.1, it runs to scores so large that the objective is flat.
TRUST = {"initial_tr_radius": SPREAD, "gtol": 1e-8, "initial_barrier_parameter": 1e-5, "initial_barrier_tolerance": 1e-5}
SLSQP = {"ftol": 1e-9}

_KNOWS = {"threshold": KNOWS_THRESHOLD, "largest": KNOWS_LARGEST}


def _tool(name: str, package: str, tool: str, form: str, **told: Any) -> Contestant:
    return Contestant(f"{name}, {form}", watched, {"tool": tool, "form": form, **told}, package, knows=_KNOWS.get(form, ""))


def _scipy(method: str, form: str, options: dict) -> Contestant:
    return _tool(f"scipy {method}", "scipy", "scipy_minimize", form, method=method, options=options)


TOOLS = [
    _scipy("COBYLA", "all pairs", COBYLA),
    _scipy("COBYLA", "largest", COBYLA),
    _scipy("COBYQA", "largest", COBYQA),
    _scipy("SLSQP", "all pairs", SLSQP),
    _scipy("SLSQP", "largest", SLSQP),
    _scipy("SLSQP", "threshold", SLSQP),
    # Dense, it would begin with a matrix of pairs times pairs.
    _scipy("trust-constr", "all pairs", {"sparse_jacobian": True, **TRUST}),
    _scipy("trust-constr", "threshold", TRUST),
    _tool("nlopt COBYLA", "nlopt", "nlopt_optimize", "largest", algorithm="LN_COBYLA"),
    _tool("nlopt COBYLA", "nlopt", "nlopt_optimize", "threshold", algorithm="LN_COBYLA"),
    _tool("nlopt ISRES", "nlopt", "nlopt_optimize", "largest", algorithm="GN_ISRES"),
    _tool("cma, augmented Lagrangian", "cma", "cma_lagrangian", "largest"),
    _tool("cma", "cma", "cma_penalty", "penalty"),
    _tool("pymoo GA", "pymoo", "pymoo_ga", "all pairs", adaptive=False),
    _tool("pymoo GA, adaptive epsilon", "pymoo", "pymoo_ga", "largest", adaptive=True),
    _tool("nevergrad NGOpt, cheap constraint", "nevergrad", "nevergrad_ngopt", "largest"),
    _tool("nevergrad NGOpt", "nevergrad", "nevergrad_ngopt", "squared penalty"),
]
