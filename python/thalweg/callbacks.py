"""Writing a run down while it goes on: callbacks of :func:`thalweg.minimize` and :func:`thalweg.learn.fit`.

A callback is anything that can be called with a measured iterate. One that also has ``finish`` is called as ``finish(result)``
once the run has ended, unless it ended by an exception. Those here write the same numbers under the same names, see
:func:`metrics`, to lines of JSON, to TensorBoard or to MLflow. Drawing belongs to ``result.plot()``.

>>> import io
>>> import numpy as np, thalweg
>>> from thalweg.callbacks import JsonLines
>>> lines = io.StringIO()
>>> result = thalweg.minimize(lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), rho=0.0, callback=JsonLines(lines))
>>> print(lines.getvalue().splitlines()[0])
{"step": 0, "seconds": ..., "train/objective": 1.0, "train/max_violation": 0.0, "passes/f": 0.0, "passes/g": 0.0}
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
    """The numbers of a measured iterate, or of a result, by the names under which they are written.

    Parameters
    ----------
    seen : Result
        What a callback is called with, or what :func:`thalweg.minimize` and :func:`thalweg.learn.fit` return.

    Returns
    -------
    dict
        ``train/objective``; ``train/max_violation``, 0 if every constraint is kept; ``constraint/<name>``, signed, above 0 is
        violated; ``dual/<name>``, its multiplier; ``stationarity/upper``, a bound on the distance to the proximal point, which is
        as true as the weak-convexity constants; ``passes/f`` and ``passes/g``, passes over the data. What the method does not
        have is left out.

    Examples
    --------
    A callback for a service that is not here is one line:

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
    # A certificate is about the point that is returned; what the method says of it, and of iterates, comes after it.
    upper = seen.get("stationarity")
    for proof in ("stationary", "certificate"):
        upper = upper if seen.get(proof) is None else seen[proof]["upper"]
    found.update({"stationarity/upper": upper, "passes/f": seen.get("passes_f"), "passes/g": seen.get("passes_g")})
    return {name: float(value) for name, value in found.items() if value is not None}


class JsonLines:
    """Writes each measured iterate as one line of JSON.

    Every line has ``step``, ``seconds`` and the numbers of :func:`metrics`. The last one is about the result: it has also
    ``"final": true``, ``success`` and ``message``. Numbers that are not finite are null.

    Parameters
    ----------
    path_or_file : str, path, or an open text file
        A file is appended to, a line at a time; it is made if it is not there. Each line is written and flushed at once, so that
        others can follow it and a killed run leaves what it had.

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
            raise TypeError(f"path_or_file is of type {kind}: wanted a path or an open text file")

    def __call__(self, intermediate: Result) -> None:
        self._write(intermediate, {})

    def finish(self, result: Optional[Result]) -> None:
        """Writes the numbers of the result; nothing for None."""
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
            # Half a line, left by a run that was killed, is not to spoil ours.
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = "\n" + line
            file.write(line.encode())


class TensorBoard:
    """Writes each measured iterate to an event file of TensorBoard.

    It needs the package tensorboard, and neither TensorFlow nor PyTorch. The numbers are those of :func:`metrics`, as scalars of
    step ``nit``; numbers that are not finite are left out. Those of the result follow at its last step.

    Parameters
    ----------
    directory : str or path
        Where event files are; each run makes one of its own there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, thalweg
    >>> from thalweg.callbacks import TensorBoard
    >>> directory = tempfile.mkdtemp()
    >>> result = thalweg.minimize(
    ...     lambda x: abs(x[0] - 1), [0.0], jac=lambda x: np.sign(x - 1), rho=0.0, callback=TensorBoard(directory)
    ... )

    ``tensorboard --logdir DIRECTORY`` shows it.
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
        """Writes the numbers of the result, none for None, and closes the file; another run makes another one."""
        if result is not None:
            self(result)
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow:
    """Writes each measured iterate to a run of MLflow.

    It needs mlflow, or mlflow-skinny. The numbers are those of :func:`metrics`, as metrics of step ``nit``; numbers that are not
    finite are left out, and characters that MLflow does not allow in names become ``_``. The latest value of each metric is that
    of the result. The run itself is yours: it is neither started nor ended here.

    Parameters
    ----------
    run : str or Run, optional
        The run, or its id; by default the active one.
    tracking_uri : str, optional
        Where runs are kept; by default where MLflow keeps them.

    Examples
    --------
    ::

        with mlflow.start_run():
            thalweg.minimize(fun, x0, jac=jac, callback=every(10, MLflow()))
    """

    #: What the server takes at once.
    _BATCH = 1000

    def __init__(self, run: Any = None, *, tracking_uri: Optional[str] = None):
        mlflow = need("mlflow", "writing to MLflow")
        run = mlflow.active_run() if run is None else run
        if run is None:
            raise ValueError("run = None, and no run of MLflow is active: wanted a run, its id, or mlflow.start_run() before")
        if not isinstance(run, str) and not hasattr(run, "info"):
            raise TypeError(f"run is of type {type(run).__name__}: wanted a run of MLflow or its id")
        self.run_id: str = run if isinstance(run, str) else run.info.run_id
        self._client = mlflow.MlflowClient(tracking_uri=tracking_uri)
        self._metric = need("mlflow.entities", "writing to MLflow").Metric
        self._timestamp, self._step = 0, 0
        # A run that is not there is found out now, not after the first iterate.
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


class _Several:
    """Callbacks that are called one after another, each every so many times."""

    def __init__(self, callbacks: tuple, period: int):
        for callback in callbacks:
            if not callable(callback):
                raise TypeError(f"a callback is of type {type(callback).__name__}: wanted something that can be called")
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
    """A callback that passes on the first iterate, every n-th after it, and the result.

    Every iterate is measured all the same; ``options={"record": {"every": n}}`` measures fewer.

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
        raise ValueError(f"n = {n!r}: wanted a whole number, 1 or larger")
    return _Several((callback,), int(n))


def chain(*callbacks: Callable) -> Callable:
    """A callback that calls all of these; the run ends if one of them raises ``StopIteration``, after all were called.

    Examples
    --------
    >>> import io
    >>> from thalweg.callbacks import JsonLines, chain, every
    >>> callback = chain(every(10, JsonLines(io.StringIO())), print)
    """
    return _Several(callbacks, 1)


def write(history: History, callback: Callable, result: Optional[Result] = None) -> None:
    """Tells a callback the measured iterates of a run that is over, in order: for estimators, which take no callback.

    The iterates have what a history keeps: no ``x`` and no multipliers. The ``finish`` of the callback, if it has one, is then
    called with `result`.

    Parameters
    ----------
    history : History
        Such as ``model.history_`` of an estimator, or ``result.history``.
    callback : callable
        As for :func:`thalweg.minimize`; ``StopIteration`` ends the telling.
    result : Result, optional
        What ``callback.finish`` is called with.

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
        raise TypeError(f"history is of type {kind}: wanted a History, such as result.history or model.history_")
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
