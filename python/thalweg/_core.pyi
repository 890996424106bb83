"""Types of the compiled part of the package."""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BilevelCallables",
    "BlackBox",
    "Callables",
    "Incremental",
    "Interrupt",
    "Learning",
    "__version__",
    "certify",
    "check",
    "check_constraint",
    "check_expression",
    "command",
    "complexity",
    "dataset",
    "dataset_table",
    "datasets",
    "gaussian_kernel",
    "lab_curves",
    "lab_lines",
    "lab_run",
    "minimize",
    "minimize_zeroth_order",
    "page_style",
    "plans",
    "regularization",
    "split_expression",
    "sweep_bounds",
    "write_file",
]

__version__: str

_Floats = NDArray[np.float64]
_Path = Union[str, os.PathLike[str]]
# A dense array, or the parts of a CSR matrix with the number of columns.
_Features = Union[NDArray[Any], Tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]]
# Fraction of the budget used, iterations, seconds.
_OnProgress = Optional[Callable[[float, int, float], Any]]
# A recorded iterate, its point, and optional dual variables and stationarity bound; returning True stops the run.
_OnRecord = Optional[Callable[[Dict[str, Any], _Floats, Optional[_Floats], Optional[float]], Any]]

# Why a run ended, and whether it met the stopping criterion of its solver: "finished", "planned", "unfinished" or "aborted".
_StopReason = Tuple[str, str]
# Reasons, name and changed settings of a chosen solver, and the name of the solver that continues if its run stalls.
_Choice = Tuple[List[str], str, Dict[str, Any], Optional[str]]
# The exception raised by a Python function during the run, or None.
_Raised = Any

@final
class Interrupt:
    def __new__(cls) -> Interrupt: ...
    def set(self) -> None: ...
    def is_set(self) -> bool: ...
    def clear(self) -> None: ...

@final
class Callables:
    def __new__(
        cls,
        dim: int,
        objective: Tuple[Callable[..., Any], Any],
        functions: Sequence[Tuple[Any, ...]],
        inequalities: Sequence[Tuple[str, int, int, float, float, float]],
        domain: Optional[Dict[str, Any]] = None,
        samples: Optional[int] = None,
        rho: Optional[Tuple[float, float]] = None,
        equalities: int = 0,
    ) -> Callables: ...
    def calls(self) -> Tuple[int, int]: ...
    def function_values(self, x: _Floats) -> List[_Floats]: ...

# A function, its gradient (a function, or True if the function returns both), and its second-derivative products.
_Level = Tuple[Callable[..., Any], Any, Optional[Callable[..., Any]]]

@final
class BilevelCallables:
    def __new__(
        cls,
        dims: Tuple[int, int],
        domains: Tuple[Dict[str, Any], Dict[str, Any]],
        outer: _Level,
        inner: _Level,
        constraints: Optional[Tuple[_Level, int]],
        rows: List[Tuple[List[float], List[float], float]],
        interrupt: Interrupt,
    ) -> BilevelCallables: ...
    def check(self, x: _Floats, seed: int) -> None: ...
    def solve(
        self,
        x: _Floats,
        form: Dict[str, Any],
        method: str,
        solver: Dict[str, Any],
        conduct: Dict[str, Any],
        certificate: Optional[Dict[str, Any]] = None,
        on_record: _OnRecord = None,
        on_progress: _OnProgress = None,
    ) -> Tuple[Optional[Dict[str, Any]], Optional[_StopReason], _Raised]: ...
    def extremes(self, x: _Floats, form: Dict[str, Any]) -> Tuple[Optional[Dict[str, Any]], str, _Raised]: ...
    def calls(self) -> Dict[str, Tuple[int, int, int]]: ...

@final
class BlackBox:
    def __new__(
        cls,
        dim: int,
        fun: Callable[..., Any],
        *,
        constraints: Optional[Tuple[Any, ...]] = None,
        name: Optional[Callable[[int], str]] = None,
        vectorized: bool = False,
        domain: Optional[Dict[str, Any]] = None,
        samples: Optional[int] = None,
    ) -> BlackBox: ...
    def calls(self) -> Tuple[int, int]: ...

@final
class Learning:
    def __new__(
        cls,
        features: _Features,
        labels: _Floats,
        minimize: str,
        subject_to: Sequence[str],
        *,
        groups: Optional[Tuple[NDArray[np.uint32], List[str]]] = None,
        weights: Optional[_Floats] = None,
        intercept: bool = True,
        merge: bool = False,
        like: Optional[Learning] = None,
        kernel: Optional[Tuple[_Features, float]] = None,
        radius: Optional[float] = None,
        column_scales: Optional[Sequence[float]] = None,
    ) -> Learning: ...
    def fit(
        self,
        solver: str,
        settings_of_solver: Dict[str, Any],
        training: Dict[str, Any],
        interrupt: Interrupt,
        start: Optional[_Floats] = None,
        on_record: _OnRecord = None,
        on_progress: _OnProgress = None,
        unseen: Optional[Tuple[Learning, Dict[str, Any]]] = None,
    ) -> Tuple[Dict[str, Any], _StopReason, _Raised]: ...
    def sweep(
        self,
        which: int,
        bounds: Sequence[float],
        solver: str,
        settings_of_solver: Dict[str, Any],
        training: Dict[str, Any],
        interrupt: Interrupt,
        held_out: Optional[Learning] = None,
        on_progress: _OnProgress = None,
    ) -> Tuple[List[Dict[str, Any]], List[Optional[_Floats]], List[Dict[str, Any]], bool, _Raised]: ...
    def quality(self, x: _Floats, by_column: Optional[Sequence[Tuple[str, List[str], List[int]]]] = None) -> Dict[str, Any]: ...
    def warnings(self, names: Optional[List[str]] = None) -> List[Dict[str, Any]]: ...
    def promise_warnings(self, confidence: float) -> List[Dict[str, Any]]: ...
    def chosen(self) -> str: ...
    def values(self, x: _Floats, expressions: Sequence[str]) -> List[float]: ...
    def scores(self, x: _Floats) -> _Floats: ...
    def certify(
        self,
        x: _Floats,
        bounds: Dict[str, Any],
        trained: Optional[Sequence[Tuple[float, float]]] = None,
        record: bool = False,
    ) -> Dict[str, Any]: ...
    def intervals(self, x: _Floats, confidence: float, together: bool) -> List[Dict[str, Any]]: ...
    def column_scales(self) -> Optional[List[float]]: ...
    def constraints(self) -> List[Dict[str, Any]]: ...
    def describe(self) -> Tuple[int, int, str, List[str]]: ...

@final
class Incremental:
    def __new__(cls, settings_of_solver: Dict[str, Any], seed: int, state: Optional[bytes] = None) -> Incremental: ...
    @staticmethod
    def solver() -> str: ...
    def learn(self, problem: Learning, start: Optional[_Floats] = None) -> Tuple[int, _Floats, List[Dict[str, Any]]]: ...

def command(args: Sequence[str]) -> int: ...
def write_file(file: _Path, contents: bytes) -> None: ...
def minimize(
    problem: Callables,
    start: _Floats,
    solver: Dict[str, Any],
    conduct: Dict[str, Any],
    interrupt: Interrupt,
    on_record: _OnRecord = None,
    on_progress: _OnProgress = None,
) -> Tuple[Optional[Dict[str, Any]], Optional[_StopReason], Optional[_Choice], _Raised]: ...
def minimize_zeroth_order(
    problem: BlackBox,
    start: _Floats,
    solver: Dict[str, Any],
    conduct: Dict[str, Any],
    interrupt: Interrupt,
    on_record: _OnRecord = None,
    on_progress: _OnProgress = None,
) -> Tuple[Optional[Dict[str, Any]], Optional[_StopReason], _Raised]: ...
def certify(problem: Callables, x: _Floats, bounds: Dict[str, Any], record: bool = False) -> Dict[str, Any]: ...
def check(text: bytes) -> Dict[str, Any]: ...
def length_at(x: _Floats, start: _Floats) -> float: ...
def compare(solver: str, ended: Any, certificate: Dict[str, Any]) -> Optional[Tuple[Any, Tuple[str, str]]]: ...
def check_expression(text: str) -> str: ...
def regularization(
    objective: str, given: Optional[float], rows: int, weights: Optional[_Floats] = None
) -> Tuple[float, Optional[Dict[str, Any]]]: ...
def split_expression(text: str) -> List[Tuple[float, str]]: ...
def check_constraint(text: str) -> str: ...
def gaussian_kernel(features: _Features, centres: _Features, gamma: float) -> _Floats: ...
def split_off(
    labels: _Floats, codes: Optional[NDArray[np.uint32]], fraction: float, seed: int
) -> Tuple[NDArray[np.uintp], NDArray[np.uintp]]: ...
def score_threshold(rows: int, bound: float, confidence: float) -> Optional[Tuple[int, float]]: ...
def sweep_bounds(given: Union[str, Sequence[float]]) -> List[float]: ...
def dataset(name: str, data_dir: Optional[_Path] = None) -> Dict[str, Any]: ...
def dataset_table(name: str, data_dir: Optional[_Path] = None) -> Tuple[List[Tuple[str, Any]], List[Dict[str, Any]], str]: ...
def datasets(data_dir: Optional[_Path] = None) -> List[Dict[str, Any]]: ...
def plans(
    method: str,
    eps: float,
    theorem: Optional[str],
    inner: Optional[str],
    as_printed: bool,
    strict: bool,
    constants: Dict[str, float],
) -> List[Tuple[Dict[str, Any], str, List[List[str]], str, str]]: ...
def complexity(method: Optional[str] = None) -> List[Dict[str, Any]]: ...
def solvers(interface: str, constraints: Optional[bool] = None) -> List[str]: ...
def solver_needs(name: str) -> str: ...
def lab_run(
    spec: _Path,
    store: _Path,
    interrupt: Interrupt,
    *,
    quick: bool = False,
    jobs: int = 1,
    only: Optional[str] = None,
    fresh: bool = False,
    data_dir: Optional[_Path] = None,
    report: Optional[Callable[[int, float, List[str], List[Tuple[str, str]]], Any]] = None,
) -> Tuple[str, int, int, bool, _Raised]: ...
def lab_lines(store: _Path, experiment: Optional[str] = None) -> List[Dict[str, Any]]: ...
def lab_curves(
    store: _Path, experiment: Optional[str] = None, certified: bool = False
) -> Tuple[List[Dict[str, Any]], List[Tuple[int, List[Tuple[str, str, _Floats]]]]]: ...
def page_style() -> str: ...

@final
class Model:
    @staticmethod
    def read(path: str) -> Model: ...
    def __new__(cls, parts: Dict[str, Any], numbers: Optional[List[str]] = None) -> Model: ...
    def write(self, path: str) -> None: ...
    def parts(self) -> Dict[str, Any]: ...
    def has_probabilities(self) -> bool: ...
    def feature_names(self) -> List[str]: ...
    def scores(self, features: _Features) -> _Floats: ...
    def frame(
        self, columns: Sequence[Tuple[str, Any]]
    ) -> Tuple[_Floats, Optional[_Floats], Optional[Dict[str, Any]], List[Dict[str, Any]]]: ...

def missing_cells() -> List[str]: ...
def by_group(
    scores: _Floats, labels: _Floats, names: List[str], groups: NDArray[np.uint32], weights: Optional[_Floats] = None
) -> List[Dict[str, Any]]: ...
