"""``thalweg.callbacks``: logged metrics equal the measured values, as read back by TensorBoard and MLflow."""

import io
import json
import math
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import thalweg
from thalweg import callbacks
from thalweg._result import Result
from thalweg.callbacks import JsonLines, MLflow, TensorBoard, chain, every, metrics, write
from thalweg.learn import demographic_parity, fit, logistic

DISC = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x: 2 * x)
NAME = "constraint 1"


def solve(**more):
    return thalweg.minimize(
        lambda x: np.abs(x - 2).sum(), [0.0, 0.0], jac=lambda x: np.sign(x - 2), constraints=DISC, **{"rho": 0.0, **more}
    )


def rows_of(text):
    """Lines of JSON; NaN and Infinity, which Python would read too, are not JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def rows_data():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 400)
    X = np.c_[rng.normal(size=400) + group, rng.normal(size=400)]
    return X, X @ [1.0, 0.5] + 0.5 * rng.normal(size=400) > 0.5, group


def test_json_lines_equal_the_history(tmp_path):
    file, seen = tmp_path / "run.jsonl", []
    result = solve(callback=chain(JsonLines(file), seen.append))
    rows = rows_of(file.read_text())
    assert list(rows[0]) == [
        "step", "seconds", "train/objective", "train/max_violation", f"constraint/{NAME}", "passes/f", "passes/g",
    ]  # fmt: skip
    *iterates, last = rows
    assert [row["step"] for row in iterates] == result.history.nit.tolist() == [one.nit for one in seen]
    assert [row["train/objective"] for row in iterates] == result.history.fun.tolist()
    assert [row["train/max_violation"] for row in iterates] == np.maximum(result.history.maxcv, 0).tolist()
    assert [row[f"constraint/{NAME}"] for row in iterates] == result.history.constraints[:, 0].tolist()
    assert [row["passes/f"] for row in iterates] == result.history.passes_f.tolist()
    assert [row["passes/g"] for row in iterates] == result.history.passes_g.tolist()
    # The method has dual variables after its first evaluation, and a bound once it computes one.
    assert all(f"dual/{NAME}" in row for row in iterates[1:])
    bounds = [row["stationarity/upper"] for row in iterates if "stationarity/upper" in row]
    assert bounds and bounds[-1] < 1e-3 and iterates[-1]["stationarity/upper"] == bounds[-1]
    assert last["final"] is True and last["success"] is True and last["message"] == result.message
    assert last["step"] == result.nit and last["train/objective"] == result.fun and last["train/max_violation"] == result.maxcv
    assert last["stationarity/upper"] == result.certificate.upper
    assert last[f"dual/{NAME}"] == result.dual[NAME] == pytest.approx(result.multipliers[0][0])
    assert last[f"dual/{NAME}"] == pytest.approx(math.sqrt(0.5), abs=1e-3)
    assert (last["passes/f"], last["passes/g"]) == (result.passes_f, result.passes_g)


@pytest.mark.parametrize(
    "method, dual, options",
    [
        ("ssg", False, {"eta": 0.05}),
        ("conex", True, {}),
        ("threes-econ", True, {}),
    ],
)
def test_unavailable_metrics_are_omitted(method, dual, options):
    seen, lines = [], io.StringIO()
    result = solve(method=method, rho=None, options={"maxiter": 20, **options}, callback=chain(seen.append, JsonLines(lines)))
    assert all((one.dual is not None) == dual and one.stationarity is None for one in seen)
    rows = rows_of(lines.getvalue())
    assert len(rows) == 22 and all((f"dual/{NAME}" in row) == dual for row in rows[:-1])
    assert not any("stationarity/upper" in row for row in rows) and None not in rows[-1].values()
    assert result.nit == 20


def test_dual_variables_of_subproblems_appear_once_available():
    seen = []
    options = {"maxiter": 30, "inner": {"name": "conex"}, "inner_iterations": 10}
    solve(method="ipp", options=options, callback=lambda one: seen.append(one.dual))
    assert seen[0] is None and seen[-1] is not None and set(seen[-1]) == {NAME}


def test_non_finite_metrics_are_null():
    strange = {"fun": math.nan, "signed": {"a": math.inf}, "dual": {"a": -math.inf}, "stationarity": math.nan}
    lines = io.StringIO()
    JsonLines(lines)(Result(maxcv=0.0, nit=3, seconds=0.5, **strange))
    assert rows_of(lines.getvalue()) == [
        {
            "step": 3, "seconds": 0.5, "train/objective": None, "train/max_violation": 0.0, "constraint/a": None,
            "dual/a": None, "stationarity/upper": None,
        }
    ]  # fmt: skip
    assert list(metrics(Result(fun=1, maxcv=0, nit=0))) == ["train/objective", "train/max_violation"]


def test_a_file_is_appended_to(tmp_path):
    file = tmp_path / "run.jsonl"
    file.write_bytes(b'{"step": 0, "half a li')
    callback = JsonLines(str(file))
    for _ in range(2):
        solve(method="ssg", options={"maxiter": 2}, callback=callback)
    half, *lines = file.read_text().splitlines(keepends=True)
    assert half == '{"step": 0, "half a li\n'
    assert [row["step"] for row in rows_of("".join(lines))] == [0, 1, 2, 2, 0, 1, 2, 2]
    with open(file, "w") as opened:
        solve(method="ssg", options={"maxiter": 2}, callback=JsonLines(opened))
        # Each line can be read while the file is open, and the file stays open.
        assert len(rows_of(file.read_text())) == 4 and not opened.closed
    with pytest.raises(TypeError, match="path_or_file must be a path or an open text file, got int"):
        JsonLines(3)


def test_json_lines_of_a_fit():
    X, y, group = rows_data()
    lines, seen = io.StringIO(), []
    model = fit(logistic(), demographic_parity(group) <= 0.05, X=X, y=y, callback=chain(seen.append, JsonLines(lines)))
    *iterates, last = rows_of(lines.getvalue())
    name = model.constraints[0]["name"]
    assert [row["step"] for row in iterates] == [one.nit for one in seen]
    assert all(a["step"] <= b["step"] and a["passes/f"] <= b["passes/f"] for a, b in zip(iterates, iterates[1:]))
    assert any(row.get(f"dual/{name}", 0) > 0 for row in iterates) and any("stationarity/upper" in row for row in iterates)
    # The metrics of the result are the enforced values: measured rates.
    assert last["final"] and last["step"] == model.nit and last["train/objective"] == model.fun
    assert last[f"constraint/{name}"] == model.constraints[0]["measured"] - 0.05 == model.signed[name] <= 1e-6
    assert last["train/max_violation"] == model.maxcv and last["stationarity/upper"] == model.stationary["upper"]
    assert last[f"dual/{name}"] == model.multipliers[0] and last["passes/f"] == model.passes_f == model.passes["objective"]


def test_write_replays_a_history():
    X, y, group = rows_data()
    model = thalweg.FairClassifier(bound=0.05).fit(X, y, sensitive_features=group)
    lines = io.StringIO()
    write(model.history_, JsonLines(lines))
    rows, history = rows_of(lines.getvalue()), model.history_
    assert [row["step"] for row in rows] == history.nit.tolist()
    assert [row["train/objective"] for row in rows] == history.fun.tolist()
    assert [row[f"constraint/{history.names[0]}"] for row in rows] == history.constraints[:, 0].tolist()
    result, again, told = solve(), io.StringIO(), []
    write(result.history, JsonLines(again), result)
    assert len(rows_of(again.getvalue())) == len(result.history) + 1 and rows_of(again.getvalue())[-1]["final"]

    def twice(seen):
        told.append(seen.nit)
        if len(told) == 2:
            raise StopIteration

    write(result.history, twice)
    assert told == result.history.nit[:2].tolist()
    with pytest.raises(
        TypeError, match=r"history must be a History such as result\.history or model\.history_, got MinimizeResult"
    ):
        write(result, print)


def test_every_and_chain():
    seen, told = [], []

    class Kept:
        def __call__(self, one):
            seen.append(one.nit)

        def finish(self, result):
            told.append(result.nit)

    seldom = every(4, Kept())
    solve(method="ssg", options={"maxiter": 10}, callback=seldom)
    assert (seen, told) == ([0, 4, 8], [10])
    # Another run starts a new count.
    solve(method="ssg", options={"maxiter": 6}, callback=seldom)
    assert (seen, told) == ([0, 4, 8, 0, 4], [10, 6])

    def stop(one):
        if one.nit == 3:
            raise StopIteration

    seen.clear()
    result = solve(method="ssg", options={"maxiter": 10}, callback=chain(stop, every(2, Kept()), Kept()))
    # All are called, then the run stops.
    assert result.status == 3 and seen == [0, 0, 1, 2, 2, 3] and told == [10, 6, 4, 4]
    for n in (0, 1.5, True):
        with pytest.raises(ValueError, match=f"n must be a positive integer, got {n}"):
            every(n, print)
    with pytest.raises(TypeError, match="a callback must be callable, got int"):
        chain(print, 3)


def test_exceptions_of_callbacks_carry_the_result():
    class Full:
        def __init__(self, call, end):
            self.call, self.end = call, end

        def __call__(self, one):
            if self.call:
                raise OSError("no space left")

        def finish(self, result):
            assert self.end
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left") as at_the_end:
        solve(callback=Full(False, True))
    assert at_the_end.value.result.success
    # finish is not called after an exception.
    with pytest.raises(OSError, match="no space left") as during:
        solve(callback=Full(True, False))
    assert during.value.result is not None
    X, y, group = rows_data()
    with pytest.raises(OSError, match="no space left") as of_fit:
        fit(logistic(), demographic_parity(group) <= 0.05, X=X, y=y, callback=Full(False, True))
    assert of_fit.value.result.success


def test_tensorboard_round_trip(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    callback = TensorBoard(tmp_path / "events")

    def read():
        events = accumulators.EventAccumulator(str(tmp_path / "events"), size_guidance={"scalars": 0})
        return events.Reload()

    seen = []
    result = solve(callback=chain(callback, lambda one: seen.append(len(read().Scalars("train/objective")))))
    # Readable during the run.
    assert seen == list(range(1, len(result.history) + 1))
    events = read()
    assert set(events.Tags()["scalars"]) == {
        "train/objective", "train/max_violation", f"constraint/{NAME}", f"dual/{NAME}", "stationarity/upper", "passes/f",
        "passes/g",
    }  # fmt: skip
    objective = events.Scalars("train/objective")
    assert [one.step for one in objective] == [*result.history.nit, result.nit]
    np.testing.assert_array_equal([one.value for one in objective], np.float32([*result.history.fun, result.fun]))
    assert events.Scalars("stationarity/upper")[-1].value == np.float32(result.certificate.upper)
    # Another run creates another file; non-finite metrics are omitted.
    callback(Result(fun=math.nan, maxcv=1.0, nit=0))
    callback.finish(None)
    assert len(list((tmp_path / "events").iterdir())) == 2
    assert [one.value for one in read().Scalars("train/max_violation")].count(1.0) == 1


@pytest.mark.parametrize("clock", [time.time, lambda: 1.7e9], ids=["running clock", "standing clock"])
def test_mlflow_round_trip(tmp_path, monkeypatch, clock):
    # All records of a short run may fall into one millisecond.
    monkeypatch.setattr(callbacks, "time", SimpleNamespace(time=clock))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient()
    with pytest.raises(ValueError, match=r"no MLflow run is active; pass a run or its id, or call mlflow\.start_run\(\) first"):
        MLflow()
    with mlflow.start_run() as run:
        result = solve(callback=MLflow())
    history = lambda name: client.get_metric_history(run.info.run_id, name)
    assert [(m.step, m.value) for m in history("train/objective")] == [
        *zip(result.history.nit, result.history.fun),
        (result.nit, result.fun),
    ]
    latest = client.get_run(run.info.run_id).data.metrics
    assert latest == metrics(result)
    other = client.create_run(client.get_experiment_by_name("Default").experiment_id)
    callback = MLflow(other, tracking_uri=(tmp_path / "runs").as_uri())
    many = {f"term <= {j}": float(j) for j in range(1200)}
    callback(Result(fun=math.inf, maxcv=1.0, nit=5, signed=many))
    found = client.get_run(other.info.run_id).data.metrics
    assert len(found) == 1201 and found["constraint/term __ 7"] == 7.0 and "train/objective" not in found
    # Names that become equal stay apart.
    callback(Result(fun=1.0, maxcv=0.0, nit=6, signed={"x <= 1": 1.0, "x >= 1": 2.0}))
    found = client.get_run(other.info.run_id).data.metrics
    assert (found["constraint/x __ 1"], found["constraint/x __ 1_2"]) == (1.0, 2.0)
    assert MLflow(other.info.run_id).run_id == other.info.run_id
    with pytest.raises(TypeError, match="run must be an MLflow run or its id, got int"):
        MLflow(3)
    with pytest.raises(Exception, match="not found"):
        MLflow("0" * 32)


@pytest.mark.parametrize("name, what", [("TensorBoard", "TensorBoard"), ("MLflow", "MLflow")])
def test_missing_packages_are_named(name, what):
    package = name.lower()
    code = (
        f"import sys; sys.modules['{package}'] = None\n"
        f"import thalweg\ntry:\n    thalweg.callbacks.{name}('.')\nexcept ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"writing to {what} needs {package}; install it with pip install {package}"
