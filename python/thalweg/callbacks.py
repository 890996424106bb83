"""Logging callbacks for :func:`thalweg.minimize` and :func:`thalweg.learn.fit`.

A callback is a callable that takes a recorded iterate. If it has a method ``finish``, ``finish(result)`` is called at the end of
the run, unless an exception stopped it. The callbacks here write the metrics of :func:`metrics` to JSON lines, TensorBoard or
MLflow.

>>> import io
>>> import numpy as np, thalweg
>>> from thalweg.callbacks import JsonLines
>>> lines = io.StringIO()
>>> result = thalweg.minimize(lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), rho=0.0, callback=JsonLines(lines))
>>> print(lines.getvalue().splitlines()[0])
{"step": 0, "seconds": ..., "train/objective": 1.0, "train/max_violation": 0.0, "passes/f": 7.0, "passes/g": 0.0}
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Callable, Dict, Iterable, List, Optional

import numpy as np

from thalweg._result import History, Result, finish, named, need

__all__ = ["JsonLines", "MLflow", "TensorBoard", "chain", "every", "metrics", "write"]


def metrics(seen: Result) -> Dict[str, float]:
    """Return the metrics of a recorded iterate or a result by name.

    Parameters
    ----------
    seen : Result
        Argument of a callback, or result of :func:`thalweg.minimize` or :func:`thalweg.learn.fit`.

    Returns
    -------
    dict
        ``train/objective``; ``train/max_violation``, 0 if every constraint is satisfied; ``constraint/<name>``, positive if
        violated; ``dual/<name>``, its dual variable; ``stationarity/upper``, a bound on the distance to the proximal point, valid
        if the weak-convexity constants are; ``passes/f`` and ``passes/g``, passes over the data. Metrics that the method does not
        provide are omitted.

    Examples
    --------
    A callback for another service takes one line:

    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import metrics
    >>> log = []
    >>> result = thalweg.minimize(
    ...     lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), method="ssg", options={"eta": 0.5, "maxiter": 2},
    ...     callback=lambda seen: log.append((seen.nit, metrics(seen)["train/objective"])),
    ... )
    >>> log
    [(0, 1.0), (1, 0.5), (2, 0.0)]
    """
    found = {"train/objective": seen.fun, "train/max_violation": seen.maxcv}
    for kind, numbers in (("constraint", seen.get("signed")), ("dual", seen.get("dual"))):
        found.update({f"{kind}/{name}": value for name, value in (numbers or {}).items()})
    # A certificate of the returned point takes precedence over the bounds of the method.
    upper = seen.get("stationarity")
    for proof in ("stationary", "certificate"):
        upper = upper if seen.get(proof) is None else seen[proof]["upper"]
    found.update({"stationarity/upper": upper, "passes/f": seen.get("passes_f"), "passes/g": seen.get("passes_g")})
    return {name: float(value) for name, value in found.items() if value is not None}


class JsonLines:
    """Callback that writes each recorded iterate as one line of JSON.

    Every line has ``step``, ``seconds`` and the metrics of :func:`metrics`. The last line belongs to the result and also has
    ``"final": true``, ``success`` and ``message``. Non-finite numbers are null.

    Parameters
    ----------
    path_or_file : str, path, or an open text file
        File to which lines are appended; it is created if it does not exist. Each line is flushed at once, so that other programs
        can follow it and a killed run leaves its lines.

    Examples
    --------
    >>> import io, json
    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import JsonLines
    >>> lines = io.StringIO()
    >>> result = thalweg.minimize(
    ...     lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), method="ssg", options={"eta": 0.25, "maxiter": 3},
    ...     callback=JsonLines(lines),
    ... )
    >>> [json.loads(line)["train/objective"] for line in lines.getvalue().splitlines()]
    [1.0, 0.75, 0.5, 0.25, 0.5]
    """

    def __init__(self, path_or_file: Any):
        self._path: Optional[str] = None
        self._file: Any = None
        if isinstance(path_or_file, (str, os.PathLike)):
            self._path = os.fspath(path_or_file)
        elif hasattr(path_or_file, "write"):
            self._file = path_or_file
        else:
            kind = type(path_or_file).__name__
            raise TypeError(f"path_or_file must be a path or an open text file, got {kind}")

    def __call__(self, intermediate: Result) -> None:
        self._write(intermediate, {})

    def finish(self, result: Optional[Result]) -> None:
        """Write the metrics of the result; do nothing for None."""
        if result is not None:
            ended = {"final": True, "success": bool(result.success), "message": str(result.message)}
            self._write(result, ended)

    def _write(self, seen: Result, more: dict) -> None:
        row = {"step": int(seen.nit), "seconds": seen.seconds, **more, **metrics(seen)}
        finite = {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}
        line = json.dumps(finite, allow_nan=False, ensure_ascii=False) + "\n"
        if self._path is None:
            self._file.write(line)
            getattr(self._file, "flush", lambda: None)()
            return
        with open(self._path, "ab+") as file:
            # Start a new line after an incomplete one that a killed run left.
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = "\n" + line
            file.write(line.encode())


class TensorBoard:
    """Callback that writes each recorded iterate to a TensorBoard event file.

    It needs the package tensorboard, but neither TensorFlow nor PyTorch. The metrics of :func:`metrics` become scalars at step
    ``nit``; non-finite ones are omitted. Those of the result follow at its last step.

    Parameters
    ----------
    directory : str or path
        Directory of the event files; each run creates one.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import TensorBoard
    >>> directory = tempfile.mkdtemp()
    >>> result = thalweg.minimize(
    ...     lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), rho=0.0, callback=TensorBoard(directory)
    ... )

    ``tensorboard --logdir DIRECTORY`` shows the run.
    """

    def __init__(self, directory: Any):
        self.directory = os.fspath(directory)
        what = "writing to TensorBoard"
        self._files = need("tensorboard.summary.writer.event_file_writer", what)
        self._events = need("tensorboard.compat.proto.event_pb2", what)
        self._summaries = need("tensorboard.compat.proto.summary_pb2", what)
        self._writer: Any = None

    def __call__(self, intermediate: Result) -> None:
        if self._writer is None:
            self._writer = self._files.EventFileWriter(self.directory)
        summary = self._summaries.Summary()
        for name, value in _finite(intermediate).items():
            summary.value.add(tag=name, simple_value=value)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=int(intermediate.nit), summary=summary))
        self._writer.flush()

    def finish(self, result: Optional[Result]) -> None:
        """Write the metrics of the result, if it is not None, and close the file; another run creates another one."""
        if result is not None:
            self(result)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow:
    """Callback that writes each recorded iterate to an MLflow run.

    It needs mlflow or mlflow-skinny. The metrics of :func:`metrics` are logged at step ``nit``; non-finite ones are omitted, and
    characters that MLflow rejects in names become ``_``. The latest value of each metric is that of the result. The MLflow run
    is neither started nor ended here.

    Parameters
    ----------
    run : str or Run, optional
        MLflow run or its id; by default the active run.
    tracking_uri : str, optional
        URI of the tracking server; by default that of MLflow.

    Examples
    --------
    ::

        with mlflow.start_run():
            thalweg.minimize(fun, x0, jac=jac, callback=every(10, MLflow()))
    """

    #: Largest number of metrics in one request.
    _BATCH = 1000

    def __init__(self, run: Any = None, *, tracking_uri: Optional[str] = None):
        mlflow = need("mlflow", "writing to MLflow")
        run = mlflow.active_run() if run is None else run
        if run is None:
            raise ValueError("no MLflow run is active; pass a run or its id, or call mlflow.start_run() first")
        if not isinstance(run, str) and not hasattr(run, "info"):
            raise TypeError(f"run must be an MLflow run or its id, got {type(run).__name__}")
        self.run_id: str = run if isinstance(run, str) else run.info.run_id
        self._client = mlflow.MlflowClient(tracking_uri=tracking_uri)
        self._metric = need("mlflow.entities", "writing to MLflow").Metric
        self._timestamp, self._step = 0, 0
        # Fail early if the run does not exist.
        self._client.get_run(self.run_id)

    def __call__(self, intermediate: Result) -> None:
        self._log(intermediate, int(intermediate.nit))

    def finish(self, result: Optional[Result]) -> None:
        """Write the metrics of the result; do nothing for None."""
        if result is not None:
            self._log(result, max(int(result.nit), self._step))
        self._step = 0

    def _log(self, seen: Result, step: int) -> None:
        # MLflow takes the largest value by (step, timestamp, value) as the latest, with timestamps in milliseconds. The result
        # has the step of the last iterate and may fall into the same millisecond, so every call gets a later timestamp.
        self._timestamp = max(int(time.time() * 1000), self._timestamp + 1)
        self._step = max(self._step, step)
        numbers = metrics(seen)
        logged = [
            self._metric(key, value, self._timestamp, step)
            for key, value in zip(_mlflow_keys(numbers), numbers.values())
            if np.isfinite(value)
        ]
        for i in range(0, len(logged), self._BATCH):
            self._client.log_batch(self.run_id, metrics=logged[i : i + self._BATCH])


def _mlflow_keys(names: Iterable[str]) -> List[str]:
    """Replace characters that MLflow rejects by ``_``, and number the names that become equal to another one.

    >>> _mlflow_keys(["dual/a <= 1", "dual/a >= 1", "passes/f"])
    ['dual/a __ 1', 'dual/a __ 1_2', 'passes/f']
    """
    keys: Dict[str, None] = {}
    for name in names:
        key = allowed = re.sub(r"[^\w\-. :/]", "_", name, flags=re.ASCII)
        count = 1
        while key in keys:
            count += 1
            key = f"{allowed}_{count}"
        keys[key] = None
    return list(keys)


def _finite(seen: Result) -> Dict[str, float]:
    return {name: value for name, value in metrics(seen).items() if np.isfinite(value)}


class _CallbackGroup:
    """Callback that calls several others on every `period`-th iterate."""

    def __init__(self, callbacks: tuple, period: int):
        for callback in callbacks:
            if not callable(callback):
                raise TypeError(f"a callback must be callable, got {type(callback).__name__}")
        self._callbacks, self._period, self._calls = callbacks, period, 0

    def __call__(self, intermediate: Result) -> None:
        due = self._calls % self._period == 0
        self._calls += 1
        stopped = False
        for callback in self._callbacks if due else ():
            try:
                callback(intermediate)
            except StopIteration:
                stopped = True
        if stopped:
            raise StopIteration

    def finish(self, result: Optional[Result]) -> None:
        self._calls = 0
        for callback in self._callbacks:
            finish(callback, result)


def every(n: int, callback: Callable) -> Callable:
    """Return a callback that passes on the first iterate, every n-th after it, and the result.

    All iterates are still recorded; ``options={"record": {"every": n}}`` records fewer.

    Examples
    --------
    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import every
    >>> seen = []
    >>> result = thalweg.minimize(
    ...     lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), method="ssg", options={"maxiter": 7},
    ...     callback=every(3, lambda intermediate: seen.append(intermediate.nit)),
    ... )
    >>> seen
    [0, 3, 6]
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    return _CallbackGroup((callback,), int(n))


def chain(*callbacks: Callable) -> Callable:
    """Return a callback that calls all of these. The run stops if one of them raises ``StopIteration``, after all were called.

    Examples
    --------
    >>> import io
    >>> from thalweg.callbacks import JsonLines, chain, every
    >>> callback = chain(every(10, JsonLines(io.StringIO())), print)
    """
    return _CallbackGroup(callbacks, 1)


def write(history: History, callback: Callable, result: Optional[Result] = None) -> None:
    """Call a callback with the recorded iterates of a finished run, for estimators, which take no callback.

    The iterates have the data of a history: no ``x`` and no dual variables. The callback's ``finish``, if it exists, is then
    called with `result`.

    Parameters
    ----------
    history : History
        History, such as ``model.history_`` of an estimator or ``result.history``.
    callback : callable
        As for :func:`thalweg.minimize`; ``StopIteration`` stops the replay.
    result : Result, optional
        Argument of ``callback.finish``.

    Examples
    --------
    >>> import io
    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import JsonLines, write
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = thalweg.ConstrainedClassifier("logistic + 0.1 * l2").fit(X, [0, 1, 0, 1])
    >>> lines = io.StringIO()
    >>> write(model.history_, JsonLines(lines))
    >>> len(lines.getvalue().splitlines()) == len(model.history_)
    True
    """
    if not isinstance(history, History):
        kind = type(history).__name__
        raise TypeError(f"history must be a History such as result.history or model.history_, got {kind}")
    for t in range(len(history)):
        seen = Result(
            fun=float(history.fun[t]),
            maxcv=max(float(history.maxcv[t]), 0.0),
            nit=int(history.nit[t]),
            seconds=float(history.seconds[t]),
            passes_f=float(history.passes_f[t]),
            passes_g=float(history.passes_g[t]),
            signed=named(history.names, history.constraints[t]),
        )
        try:
            callback(seen)
        except StopIteration:
            break
    finish(callback, result)
