"""Black-box minimisation under tens of thousands of ranking constraints: Thalweg's zeroth-order methods and general solvers.

Half of 1,000 rows of a9a, drawn with a fixed seed, train a linear score w (d = 123). The objective is the mean of
``1 - exp(-(y_i - x_i . w)^2)`` subject to ``x_j . w - x_i . w <= 0`` for every positive row i and negative row j, from w = 0.
Every entry has the same wall-clock time; one that does not stop is killed soon after, and measured at its last point. The
libraries get vectorised numpy functions.

The name of an entry states how the constraints are passed to it:

- all pairs: a vector with one value per constraint;
- largest: the largest of them, one value;
- threshold: an additional variable t with negatives at most t and positives at least t, one constraint per row. The feasible set
  is the same, but the formulation uses the fact that constraints are pairs of scores;
- penalty: the largest violation is added to the objective, for libraries without constraints;
- squared penalty: its square is added, as dszog does with its default beta.
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

from comparison._phrases import listed, nlopt_status
from comparison._runner import GRACE, TOLERANCE, Answer, Clock, Column, Entry, Goal, Row, Size, Task, by_name

#: Bounds on w for libraries that need them; w with constant scores of -1 lies well inside.
BOUND = 2.0
#: Initial step, or standard deviation of the initial draws, where a library needs one.
INITIAL_STEP = 0.1
#: Objectives that differ by less than this are considered equal: two runs of the same method do.
RESOLUTION = 2e-4
SEED = 0

#: Constraints in the syntax of specs.
PAIRS, COLLAPSED = "pairs <= 0", 'pairs(collapsed = "yes") <= 0'
#: Settings of dszog that spread the weights over all penalised pairs and penalise them before they are violated.
DSZOG = 'eta_w = { rule = "decay", c = 0.1, p = 0.7, after = 3000 }\nlambda = 1.0\nmargin = 0.05'

GIVEN_ROWS = "the constraints as linear inequalities, for projections"
GIVEN_END = "the constraints as linear inequalities, for one final projection"
GIVEN_THRESHOLD = "constraints as pairs of scores with a threshold between them"
GIVEN_LARGEST = "the largest constraint as the difference of two scores"


class BlackBox(Task):
    """Training rows, and the functions of a point."""

    key = "blackbox"
    title = "Black-box minimisation under ranking constraints"
    columns = (
        Column("objective", "objective"),
        Column("violation", "largest violation", ".1e"),
        Column("share", "violated", ".2%"),
        Column("best", "best feasible"),
        Column("losses", "losses", ",.0f"),
    )
    time_limits = (90.0, 0.5)
    uses_whole_budget = True
    advice = (
        "For exact and cheap functions of a hundred variables, with constraints that can all be evaluated or reformulated with "
        "fewer values, use SLSQP with finite differences; look for such a formulation first. For few variables and only box "
        "constraints, use cma. `dszog` is for the rest: sampled values, constraints that cannot all be evaluated at each step, "
        "or many more of them."
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
            "thread each. The name of an entry states how the constraints are passed: all pairs, one value each; their largest, "
            "one value; a threshold between the two classes, an additional variable and one constraint per row, with the same "
            "feasible set; or a penalty. Violated is the fraction of constraints violated by more than 1e-6, best feasible the "
            "smallest objective among the evaluated feasible points, losses the number of passes over the rows."
        )

    # Functions of scores: one row per point, or the scores of a single point.

    def objective(self, s: np.ndarray) -> np.ndarray:
        return (1.0 - np.exp(-((self.y - s) ** 2))).mean(axis=-1)

    def all_pairs(self, s: np.ndarray) -> np.ndarray:
        differences = s[..., None, self.negative] - s[..., self.positive, None]
        return differences.reshape(*s.shape[:-1], -1)

    def largest(self, s: np.ndarray) -> np.ndarray:
        return s[..., self.negative].max(axis=-1) - s[..., self.positive].min(axis=-1)

    def entries(self) -> List[Entry]:
        return [*BASELINES, *OURS, *OTHERS]

    def measure(self, entry: Entry, point: Any) -> Dict[str, Optional[float]]:
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

    def recover(self, folder: Path) -> Optional[Tuple[Any, str]]:
        if not (folder / "snapshot").exists():
            return None
        return _read_snapshot(_open_snapshot(folder, self.X.shape[1]))

    def shortfall(self, row: Row) -> str:
        return ""

    def _compared(self, rows: Sequence[Row]) -> Tuple[List[Row], List[Row], List[Row]]:
        """Return the rows of dszog, of entries given the constraints as they are, and of those given more structure."""
        ran = [row for row in rows if row.ran and not row.baseline]
        ours = [row for row in ran if "dszog" in row.name]
        others = [row for row in ran if row not in ours]
        plain = [row for row in others if row.structure in ("", GIVEN_ROWS)]
        return ours, plain, [row for row in others if row not in plain]

    def findings(self, rows: Sequence[Row]) -> List[str]:
        ours, plain, informed = self._compared(rows)
        feasible_own = min((row for row in ours if row.feasible), key=_objective, default=None)
        if not ours:
            return ["dszog has no result; nothing is compared."]
        lowest = min(ours, key=_objective)
        text = (
            f"Under {self.pairs:,} constraints the lowest objective of dszog is {lowest['objective']:.4f}, with "
            f"{lowest['share']:.1%} of them violated by at most {lowest.violation:.1g}"
        )
        if feasible_own is not None:
            text += f"; its best feasible objective is {feasible_own['objective']:.4f} ({feasible_own.name})"
        feasible = min((row for row in plain if row.feasible), key=_objective, default=None)
        if feasible is not None:
            text += ". The best feasible objective of an entry given the pairs as they are is "
            text += f"{feasible['objective']:.4f} ({feasible.name})"
        text += "."
        constant = by_name(rows, "the best constant score")
        stuck = [
            row.name
            for row in plain
            if constant is not None and row.feasible and _objective(row) >= _objective(constant) - RESOLUTION
        ]
        if stuck and constant is not None:
            text += f" Not below the best constant score, {constant['objective']:.4f}: {listed(stuck)}."
        outside = [row for row in plain if not row.feasible]
        if outside:
            text += f" Infeasible: {listed(_outside(row) for row in outside)}."
        untrue = [row.name for row in rows if row.false_success]
        if untrue:
            text += f" Claiming success at an infeasible point: {listed(untrue)}."
        paragraphs = [text]
        ahead = [
            row
            for row in informed
            if feasible_own is not None and row.feasible and _objective(row) < _objective(feasible_own) - RESOLUTION
        ]
        if ahead:
            words = listed(f"{row.name} at {row['objective']:.4f} in {row.seconds:.1f} seconds" for row in ahead)
            paragraphs.append(
                f"Given the constraint structure, general solvers do better than dszog here: {words}. They use another "
                "formulation of the same set. Where such a formulation is known, and values are exact and cheap, prefer it."
            )
        elif informed:
            paragraphs.append("No entry given the constraint structure reaches a lower feasible objective than dszog.")
        return paragraphs

    def goals(self, rows: Sequence[Row]) -> List[Goal]:
        ours, plain, informed = self._compared(rows)
        feasible_own = min((row for row in ours if row.feasible), key=_objective, default=None)
        best = f"dszog has {min(map(_objective, ours)):.4f}" if ours else "dszog has no result"
        if feasible_own is not None:
            best += f", and {_objective(feasible_own):.4f} with every constraint satisfied"
            best += (
                " after a final projection, which is given the constraints as linear inequalities"
                if feasible_own.structure
                else ""
            )
        ahead = f"dszog better than every entry given the {self.pairs:,} constraints as they are, at no larger violation"
        more = "dszog better than every entry given the constraint structure, at no larger violation"
        return [_compare(ahead, ours, plain, best), _compare(more, ours, informed, best)]


def _compare(statement: str, ours: Sequence[Row], others: Sequence[Row], best: str) -> Goal:
    """Return the goal that each of the others is worse than some row of ours."""
    if not ours or not others:
        return Goal(statement, None, "no results to compare")
    ahead = [row for row in others if not any(_beats(own, row) for own in ours)]
    evidence = f"better than {len(others) - len(ahead)} of {len(others)}"
    if ahead:
        state = lambda row: "feasible" if row.feasible else f"violated by {row.violation:.0e}"
        evidence += f", but not {listed(f'{row.name} ({_objective(row):.4f}, {state(row)})' for row in ahead)}"
    return Goal(statement, not ahead, f"{evidence}; {best}")


def _objective(row: Row) -> float:
    value = row["objective"]
    return float("inf") if value is None else value


def _outside(row: Row) -> str:
    return f"{row.name} ({row['share']:.0%} violated)"


def _beats(own: Row, other: Row) -> bool:
    """Return whether the objective is lower at no larger violation; all feasible points count as equal in violation."""
    return _objective(own) < _objective(other) and (own.feasible or (own.violation or 0.0) <= (other.violation or 0.0))


def _draw(X: Any, y: np.ndarray, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """Draw `count` rows and return half of them, with half of the positives."""
    rng = np.random.default_rng(SEED)
    rows = rng.choice(len(y), size=count, replace=False)
    positive, negative = rows[y[rows] > 0], rows[y[rows] < 0]
    half = (len(positive) + 1) // 2
    chosen = rng.permutation(np.concatenate([positive[:half], negative[: count // 2 - half]]))
    return X[chosen].toarray(), y[chosen]


# The state that survives when the process of an entry is killed.


class TimeLimitReached(BaseException):
    """The time limit is reached. Not an Exception, because libraries catch those."""


def _open_snapshot(folder: Path, d: int, mode: str = "r+") -> Any:
    """Open a memory-mapped file that outlives the process: the number of evaluated points, the best and the last of them, and
    the current answer."""
    numbers = ("points", "best_over", "best_objective", "has_best", "has_answer")
    fields = [(name, "f8") for name in numbers] + [(name, "f8", (d,)) for name in ("best", "last", "answer")]
    return np.memmap(folder / "snapshot", dtype=fields, mode=mode, shape=(1,))[0]  # type: ignore[call-overload]


def _read_snapshot(snapshot: Any) -> Tuple[Any, str]:
    """Return the answer in a snapshot; before the first answer the last evaluated point, and before that w = 0."""
    best = np.array(snapshot["best"]) if snapshot["has_best"] and snapshot["best_over"] == 0.0 else None
    point = np.array(snapshot["answer"] if snapshot["has_answer"] else snapshot["last"])
    remark = "" if snapshot["has_answer"] or not snapshot["points"] else "(last evaluated point)"
    return (point, best, float(snapshot["points"])), remark


class Recorder:
    """Score evaluator that records the best point and enforces the time limit."""

    def __init__(self, task: BlackBox, clock: Clock) -> None:
        self.task, self.d = task, task.X.shape[1]
        self.snapshot = _open_snapshot(clock.folder, self.d, "w+")
        self.cache: OrderedDict = OrderedDict()
        self.start = time.perf_counter()
        self.seconds = self.limit = clock.limit

    def delegate_limit(self) -> float:
        """Return the time limit for libraries that enforce it themselves; they are stopped only if they exceed it."""
        self.limit = self.seconds + GRACE / 2
        return self.seconds

    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores at a point, which may have variables after w. Recent scores are cached for finite differences."""
        w = np.array(x[: self.d], dtype=np.float64)
        key = w.tobytes()
        if key in self.cache:
            return self.cache[key]
        s = self.task.X @ w
        self._record(w[None], s[None])
        self.cache[key] = s
        if len(self.cache) > 4 * self.d:
            self.cache.popitem(last=False)
        return s

    def many(self, W: np.ndarray) -> np.ndarray:
        S = W @ self.task.X.T
        self._record(W, S)
        return S

    def _record(self, W: np.ndarray, S: np.ndarray) -> None:
        snapshot = self.snapshot
        over = np.maximum(self.task.largest(S), 0.0)
        over[over <= TOLERANCE] = 0.0
        objective = self.task.objective(S)
        k = np.lexsort((objective, over))[0]
        if not snapshot["has_best"] or (over[k], objective[k]) < (snapshot["best_over"], snapshot["best_objective"]):
            snapshot["best"][:] = W[k]
            snapshot["best_over"], snapshot["best_objective"], snapshot["has_best"] = over[k], objective[k], 1.0
        snapshot["last"][:] = W[-1]
        snapshot["points"] += len(W)
        if self.elapsed() > self.limit:
            raise TimeLimitReached

    def answer(self, x: np.ndarray, *_: object) -> None:
        """Record the current answer; used as callback by scipy."""
        self.snapshot["answer"][:] = x[: self.d]
        self.snapshot["has_answer"] = 1.0

    # Functions of a point.

    def objective(self, x: np.ndarray) -> float:
        return float(self.task.objective(self.scores(x)))

    def all_pairs(self, x: np.ndarray) -> np.ndarray:
        return self.task.all_pairs(self.scores(x))

    def largest(self, x: np.ndarray) -> float:
        return float(self.task.largest(self.scores(x)))

    def threshold(self, x: np.ndarray) -> np.ndarray:
        s, t = self.scores(x), x[self.d]
        return np.where(self.task.y > 0, t - s, s - t)

    def penalised(self, x: np.ndarray) -> float:
        return self.objective(x) + max(self.largest(x), 0.0)

    def squared(self, x: np.ndarray) -> float:
        return self.objective(x) + max(self.largest(x), 0.0) ** 2

    def constraint(self, form: str) -> tuple:
        """Return the constraint function of a form, its number of values and its number of variables."""
        return {
            "all pairs": (self.all_pairs, self.task.pairs, self.d),
            "largest": (lambda x: np.array([self.largest(x)]), 1, self.d),
            "threshold": (self.threshold, len(self.task.y), self.d + 1),
        }[form]


def run_tool(task: BlackBox, clock: Clock, tool: str, form: str, **arguments: Any) -> Answer:
    """Run a solver under the time limit. Whatever stops it, its current answer is returned."""
    recorder = Recorder(task, clock)
    claimed, message = None, "stopped at the time limit"
    try:
        with clock:
            x, claimed, message = _RUNS[tool](recorder, form, **arguments)
        recorder.answer(np.asarray(x))
    except TimeLimitReached:
        pass
    except MemoryError:
        message = "failed: exceeded the memory limit"
    except Exception as error:
        message = f"failed: {type(error).__name__}: {error}"
    point, remark = _read_snapshot(recorder.snapshot)
    return Answer(point, claimed, f"{message} {remark}".strip())


# Solvers. Each returns its point, whether it claims success (None if it claims nothing), and its message.


def thalweg_minimize(recorder: Recorder, form: str) -> tuple:
    from thalweg import blackbox

    task = recorder.task

    def some_pairs(W: np.ndarray, which: np.ndarray) -> np.ndarray:
        i, j = np.divmod(which, len(task.negative))
        S = W @ task.X.T
        return S[:, task.negative[j]] - S[:, task.positive[i]]

    result = blackbox.minimize(
        lambda W: task.objective(recorder.many(W)),
        np.zeros(recorder.d),
        constraints=some_pairs,
        n_constraints=task.pairs,
        vectorized=True,
        method="dszog",
        options={
            "eta_w": {"rule": "decay", "c": 0.1, "p": 0.7, "after": 3000},
            "lambda": 1.0,
            "margin": 0.05,
            "maxiter": 10**7,
            "budget": {"seconds": recorder.delegate_limit()},
        },
        callback=lambda now: recorder.answer(now.x),
        seed=SEED,
    )
    return result.x, bool(result.success), result.message


def scipy_minimize(recorder: Recorder, form: str, method: str, options: dict) -> tuple:
    from scipy.optimize import NonlinearConstraint, minimize

    function, _, variables = recorder.constraint(form)
    constraints: Any = NonlinearConstraint(function, -np.inf, 0.0)
    if method == "SLSQP":
        constraints = {"type": "ineq", "fun": lambda x: -function(x)}
    more = {"jac": "2-point"} if method == "trust-constr" else {}
    result = minimize(
        recorder.objective,
        np.zeros(variables),
        method=method,
        constraints=constraints,
        callback=recorder.answer,
        options={"maxiter": 10**7, **options},
        **more,
    )
    return result.x, bool(result.success), str(result.message)


def nlopt_optimize(recorder: Recorder, form: str, algorithm: str) -> tuple:
    import nlopt

    function, numbers, variables = recorder.constraint(form)

    def constraint(result: np.ndarray, x: np.ndarray, _: np.ndarray) -> None:
        result[:] = function(x)

    nlopt.srand(SEED)
    tool = nlopt.opt(getattr(nlopt, algorithm), variables)
    tool.set_min_objective(lambda x, _: recorder.objective(x))
    tool.add_inequality_mconstraint(constraint, np.full(numbers, TOLERANCE))
    tool.set_lower_bounds(-BOUND)
    tool.set_upper_bounds(BOUND)
    tool.set_initial_step(INITIAL_STEP)
    tool.set_xtol_rel(1e-8)
    tool.set_maxtime(recorder.delegate_limit())
    x = tool.optimize(np.zeros(variables))
    return (x, *nlopt_status(tool.last_optimize_result()))


def pymoo_ga(recorder: Recorder, form: str, adaptive: bool) -> tuple:
    from pymoo.algorithms.soo.nonconvex.ga import GA
    from pymoo.constraints.eps import AdaptiveEpsilonConstraintHandling
    from pymoo.core.callback import Callback
    from pymoo.core.problem import Problem
    from pymoo.optimize import minimize
    from pymoo.termination import get_termination

    task = recorder.task

    class Ranking(Problem):
        def __init__(self) -> None:
            numbers = task.pairs if form == "all pairs" else 1
            super().__init__(n_var=recorder.d, n_obj=1, n_ieq_constr=numbers, xl=-BOUND, xu=BOUND)

        def _evaluate(self, W: np.ndarray, out: dict, *_: object, **__: object) -> None:
            S = recorder.many(W)
            out["F"] = task.objective(S)[:, None]
            out["G"] = task.all_pairs(S) if form == "all pairs" else task.largest(S)[:, None]

    class Best(Callback):
        def notify(self, algorithm: Any) -> None:
            if algorithm.opt is not None and len(algorithm.opt):
                recorder.answer(algorithm.opt[0].X)

    first = INITIAL_STEP * np.random.default_rng(SEED).normal(size=(100, recorder.d))
    first[0] = 0.0
    algorithm = GA(pop_size=100, sampling=first)
    if adaptive:
        algorithm = AdaptiveEpsilonConstraintHandling(algorithm, perc_eps_until=0.5)
    result = minimize(Ranking(), algorithm, get_termination("time", recorder.delegate_limit()), seed=SEED, callback=Best())
    if result.X is None:
        return result.pop[np.argmin(result.pop.get("CV")[:, 0])].X, False, "no feasible point"
    return result.X, True, "a feasible point"


def nevergrad_ngopt(recorder: Recorder, form: str) -> tuple:
    import nevergrad

    space = nevergrad.p.Array(init=np.zeros(recorder.d)).set_mutation(sigma=INITIAL_STEP)
    space.random_state.seed(SEED)

    def ranked(x: np.ndarray) -> float:
        return TOLERANCE - recorder.largest(x)

    if form == "largest":
        space.register_cheap_constraint(ranked)
    objective = recorder.objective if form == "largest" else recorder.squared
    # NGOpt chooses its method by the budget in points; this is about what fits into the time limit.
    tool = nevergrad.optimizers.NGOpt(parametrization=space, budget=max(int(700 * recorder.seconds), 100), num_workers=1)
    recorded = -1.0
    while tool.num_tell < tool.budget and recorder.elapsed() < recorder.seconds:
        asked = tool.ask()
        tool.tell(asked, objective(asked.value))
        if recorder.elapsed() > recorded + 0.5:
            recorded = recorder.elapsed()
            recorder.answer(tool.provide_recommendation().value)
    return tool.provide_recommendation().value, None, f"{tool.num_tell:,} of {tool.budget:,} points evaluated"


def cma_lagrangian(recorder: Recorder, form: str) -> tuple:
    import cma

    function, _, variables = recorder.constraint(form)
    x, es = cma.fmin_con2(
        recorder.objective,
        np.zeros(variables),
        INITIAL_STEP,
        constraints=lambda x: list(function(x)),
        options={"timeout": recorder.delegate_limit(), "verbose": -9, "seed": SEED + 1},
        callback=lambda es: recorder.answer(es.result.xfavorite),
    )
    return x, None, ", ".join(es.stop())


def cma_penalty(recorder: Recorder, form: str) -> tuple:
    import cma

    options = {"timeout": recorder.delegate_limit(), "verbose": -9, "seed": SEED + 1}
    x, es = cma.fmin2(
        recorder.penalised, np.zeros(recorder.d), INITIAL_STEP, options, callback=lambda es: recorder.answer(es.result.xfavorite)
    )
    return x, None, ", ".join(es.stop())


_RUNS = {
    run.__name__: run
    for run in (thalweg_minimize, scipy_minimize, nlopt_optimize, pymoo_ga, nevergrad_ngopt, cma_lagrangian, cma_penalty)
}


# Thalweg's solvers, through the command.


def by_command(task: BlackBox, clock: Clock, solver: str, settings: str, constraints: str, domain: str, repair: bool) -> Answer:
    """Write the rows and a spec to files and run the command on them."""
    with (clock.folder / "rows.svm").open("w") as out:
        for x, label in zip(task.X, task.y):
            entries = " ".join(f"{k + 1}:{float(x[k])!r}" for k in np.flatnonzero(x))
            out.write(f"{'+1' if label > 0 else '-1'} {entries}\n")
    spec = clock.folder / "spec.toml"
    spec.write_text(
        f"seed = {SEED}\nrepair = {json.dumps(repair)}\n"
        f'[data]\nfile = "rows.svm"\ncolumns = {task.X.shape[1]}\nsplit = "shared"\n'
        f'[problem]\nminimize = "welsch"\nsubject_to = [{json.dumps(constraints)}]\ndomain = {domain}\n'
        f'[solver]\nname = "{solver}"\n{settings}\n[budget]\nseconds = {clock.limit}\n'
    )
    command = [sys.executable, "-m", "thalweg", "solve", str(spec), "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout.strip():
        return Answer(None, None, f"failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    outcome = json.loads(done.stdout)
    # Like the other entries: without starting the program and reading the rows.
    clock.elapsed += outcome["seconds"]
    found = outcome.get("best_feasible")
    best = None if found is None else np.array(found["x"])
    point = (np.array(outcome["point"]["x"]), best, outcome["passes"]["objective"])
    return Answer(point, bool(outcome["success"]), outcome["message"])


def _solver(
    name: str,
    solver: str,
    settings: str,
    domain: str = '"all"',
    constraints: str = PAIRS,
    repair: bool = False,
    structure: str = "",
) -> Entry:
    arguments = {"solver": solver, "settings": settings, "constraints": constraints, "domain": domain, "repair": repair}
    return Entry(f"thalweg {name}", by_command, arguments, ours=True, structure=structure)


#: The Frank-Wolfe methods need a bounded set: a ball, whose radius also scales their steps.
OURS = [
    _solver("dszog", "dszog", DSZOG),
    _solver("dszog, repaired", "dszog", DSZOG, repair=True, structure=GIVEN_END),
    Entry("thalweg.blackbox.minimize, dszog", run_tool, {"tool": "thalweg_minimize", "form": "some pairs"}, ours=True),
    _solver("zopsgd", "zopsgd", "eta = 0.1", structure=GIVEN_ROWS),
    _solver("acczomda", "acczomda", "gamma = 0.1", structure=GIVEN_ROWS),
    _solver("zoscgd", "zoscgd", "iterations = 100", "{ ball = 10.0 }", structure=GIVEN_ROWS),
    _solver("accszofw", "accszofw", "iterations = 100", "{ ball = 10.0 }", structure=GIVEN_ROWS),
    _solver("zopsgd, threshold", "zopsgd", "eta = 0.1", constraints=COLLAPSED, structure=GIVEN_THRESHOLD),
]


def at_zero(task: BlackBox, clock: Clock) -> Answer:
    return Answer((np.zeros(task.X.shape[1]), None, None), None, "starting point")


def at_constant(task: BlackBox, clock: Clock) -> Answer:
    """Return the best w that gives every row the same score."""
    one = np.linalg.lstsq(task.X, np.ones(len(task.y)), rcond=None)[0]
    grid = np.linspace(-2.0, 2.0, 40_001)
    values = [task.objective(np.full(len(task.y), c)) for c in grid]
    c = grid[int(np.argmin(values))]
    return Answer((c * one, None, None), None, f"every score is {c:.3f}")


BASELINES = [Entry("w = 0", at_zero, baseline=True), Entry("the best constant score", at_constant, baseline=True)]

COBYLA = {"rhobeg": INITIAL_STEP, "tol": 1e-8, "catol": TOLERANCE}
COBYQA = {"initial_tr_radius": INITIAL_STEP, "final_tr_radius": 1e-8, "feasibility_tol": TOLERANCE}
# From the default barrier parameter, 0.1, it moves to scores so large that the objective is flat.
TRUST = {"initial_tr_radius": INITIAL_STEP, "gtol": 1e-8, "initial_barrier_parameter": 1e-5, "initial_barrier_tolerance": 1e-5}
SLSQP = {"ftol": 1e-9}

_STRUCTURE = {"threshold": GIVEN_THRESHOLD, "largest": GIVEN_LARGEST}


def _tool(name: str, package: str, tool: str, form: str, **arguments: Any) -> Entry:
    return Entry(
        f"{name}, {form}", run_tool, {"tool": tool, "form": form, **arguments}, package, structure=_STRUCTURE.get(form, "")
    )


def _scipy(method: str, form: str, options: dict) -> Entry:
    return _tool(f"scipy {method}", "scipy", "scipy_minimize", form, method=method, options=options)


OTHERS = [
    _scipy("COBYLA", "all pairs", COBYLA),
    _scipy("COBYLA", "largest", COBYLA),
    _scipy("COBYQA", "largest", COBYQA),
    _scipy("SLSQP", "all pairs", SLSQP),
    _scipy("SLSQP", "largest", SLSQP),
    _scipy("SLSQP", "threshold", SLSQP),
    # Dense, it would allocate a matrix of pairs times pairs.
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
