"""``thalweg.torch``: steps equal those of the library, on other tensors and, if installed, on PyTorch's."""

import importlib
import sys

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint

import thalweg


class Tensor:
    """Numpy array with a graph: just enough of a tensor for the optimiser."""

    def __init__(self, value, parents=()):
        self.value = np.array(value, dtype=float)
        self.parents, self.grad = parents, None

    ndim = property(lambda self: self.value.ndim)
    detach = lambda self: Tensor(self.value)
    clone = lambda self: Tensor(self.value.copy())
    tolist = lambda self: self.value.tolist()
    mul = lambda self, other: Tensor(self.value * getattr(other, "value", other))

    def copy_(self, other):
        self.value[...] = other.value

    def add_(self, other, alpha):
        self.value += alpha * other.value

    def backward(self, seed=1.0):
        seed = np.broadcast_to(seed, self.value.shape)
        if not self.parents:
            self.grad = Tensor(seed if self.grad is None else self.grad.value + seed)
        for parent, pull in self.parents:
            parent.backward(pull(seed))

    def __add__(self, other):
        return Tensor(self.value + other.value, [(self, lambda s: s), (other, lambda s: s)])

    def __mul__(self, factor):
        return Tensor(self.value * factor, [(self, lambda s: s * factor)])

    __rmul__ = __mul__

    def __sub__(self, number):
        return Tensor(self.value - number, [(self, lambda s: s)])

    def abs(self):
        return Tensor(np.abs(self.value), [(self, lambda s: s * np.sign(self.value))])

    def dot(self, weights):
        """Products with constant weights: a number, or with a matrix several."""
        weights = np.asarray(weights)
        return Tensor(weights @ self.value, [(self, lambda s: s @ weights if weights.ndim == 2 else s * weights)])

    def square(self):
        return Tensor(self.value**2, [(self, lambda s: 2 * s * self.value)])

    def sum(self):
        return Tensor(self.value.sum(), [(self, lambda s: np.full(self.value.shape, s))])

    def __getitem__(self, j):
        unit = np.eye(len(self.value))[j]
        return Tensor(self.value[j], [(self, lambda s: s * unit)])

    def __len__(self):
        return len(self.value)


@pytest.fixture
def plain(monkeypatch):
    """The class without PyTorch, whether it is installed or not."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "thalweg.torch", raising=False)
    module = importlib.import_module("thalweg.torch")
    yield module.ConstrainedOptimizer
    sys.modules.pop("thalweg.torch", None)


# A small problem with kinks: f = |A x - b|_1 / 3, g_1 = |x|_1 - 1.2, g_2 = |x|^2 - 0.6.
A = np.array([[1.0, -2.0], [0.5, 1.5], [-1.0, 0.25]])
B = np.array([1.0, 2.0, -0.5])
START = np.array([0.9, -0.4])


def objective(x):
    return (x.dot(A) - B).abs().sum() * (1 / 3)


def constraints(x):
    return [x.abs().sum() - 1.2, x.square().sum() - 0.6]


def by_the_library(method, steps, **settings):
    """The iterates of thalweg.minimize on the same problem."""
    points = []
    thalweg.minimize(
        lambda x: np.abs(A @ x - B).sum() * (1 / 3),
        START,
        jac=lambda x: (1 / 3) * np.sign(A @ x - B) @ A,
        constraints=[
            NonlinearConstraint(lambda x: np.abs(x).sum(), -np.inf, 1.2, jac=np.sign),
            NonlinearConstraint(lambda x: x @ x, -np.inf, 0.6, jac=lambda x: 2 * x),
        ],
        method=method,
        options={"maxiter": steps, **settings},
        callback=lambda seen: points.append(seen.x),
    )
    return np.array(points)


def walk(optimizer, params, closure, steps):
    """The iterates of an optimiser."""
    whole = lambda: np.concatenate([np.atleast_1d(p.detach().tolist()) for p in params])
    points = [whole()]
    for _ in range(steps):
        optimizer.step(closure)
        points.append(whole())
    return np.array(points)


SETTINGS = [
    ("ssg", {}),
    ("ssg", {"eta": 0.05, "tol": 1e-3}),
    # A Polyak step lands where the constraint is 0 up to rounding, which a tolerance of 0 would decide by.
    ("ssg", {"eta": 0.03, "tol": 1e-3, "infeasible_step": "polyak"}),
    ("threes-econ", {}),
    ("threes-econ", {"alpha": 0.02, "beta": 3.0, "nu": 0.05}),
]


@pytest.mark.parametrize("method, settings", SETTINGS)
def test_steps_equal_those_of_the_library(plain, method, settings):
    x = Tensor(START)
    # Where nu is small, what two machines round differently grows by a third in each step: after 200 the paths would be others.
    steps = 80
    points = walk(plain([x], method, **settings), [x], lambda: (objective(x), constraints(x)), steps)
    expected = by_the_library(method, steps, **settings)
    assert points.shape == expected.shape and np.abs(points[-1] - START).max() > 0.1
    np.testing.assert_allclose(points, expected, rtol=0, atol=1e-12)


def test_spider_with_equal_slopes_equals_the_library(plain):
    """Rows differ by constants, so that differences on any batch are exact; what is drawn then does not matter."""
    rng = np.random.default_rng(0)
    shifts = rng.normal(size=60)
    shifts -= shifts.mean()
    how = {"alpha": 0.01, "beta": 4.0, "nu": 0.2, "q": 7, "s2": 3}
    points = []
    thalweg.minimize(
        lambda x, rows: np.abs(A @ x - B).sum() * (1 / 3),
        START,
        jac=lambda x, rows: (1 / 3) * np.sign(A @ x - B) @ A,
        constraints=NonlinearConstraint(lambda x, rows: x @ x + shifts[rows].mean(), -np.inf, 0.6, jac=lambda x, rows: 2 * x),
        n_samples=60,
        method="threes-econ",
        options={"maxiter": 150, **how},
        callback=lambda seen: points.append(seen.x),
    )
    x = Tensor(START)
    optimizer, mine, sizes = plain([x], "threes-econ", **how), [START], []
    for _ in range(150):
        size = optimizer.batch_size
        rows = np.arange(60) if size is None else rng.integers(60, size=size)
        sizes.append(len(rows))
        optimizer.step(lambda rows=rows: (objective(x), [x.square().sum() - (0.6 - shifts[rows].mean())]))
        mine.append(x.value.copy())
    assert sizes[:9] == [60, 3, 3, 3, 3, 3, 3, 60, 3]
    np.testing.assert_allclose(mine, points, rtol=0, atol=1e-12)


def test_spider_with_any_batches_follows_its_recursion(plain):
    """Against the recursion written down once more, with slopes that differ between rows and two constraints."""
    rng = np.random.default_rng(1)
    slopes, bounds = rng.normal(size=(2, 40, 2)), np.array([0.1, 0.3])
    batches = [np.arange(40) if k % 5 == 0 else rng.integers(40, size=4) for k in range(60)]
    value = lambda x, rows: np.array([(slopes[j, rows] @ x).mean() - bounds[j] for j in range(2)])
    x, before, u, expected = START.copy(), None, None, [START]
    for k, rows in enumerate(batches):
        u = value(x, rows) if k % 5 == 0 else u + (value(x, rows) - value(before, rows))
        j = int(np.argmax(u))
        weight = 2.0 * min(max(u[j] / 0.1, 0.0), 1.0)
        step = (1 / 3) * np.sign(A @ x - B) @ A + weight * slopes[j, rows].mean(axis=0)
        before, x = x, x - 0.02 * step
        expected.append(x)
    # As two parameters, and the constraints as one tensor.
    y = Tensor(START)
    optimizer = plain([y], "threes-econ", alpha=0.02, beta=2.0, nu=0.1, q=5, s2=4)
    found = [START]
    for rows in batches:
        asked = lambda rows=rows: (objective(y), y.dot(slopes[:, rows].mean(axis=1)) - bounds)
        optimizer.step(asked)
        found.append(y.value.copy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_only_the_function_of_the_step_is_differentiated(plain):
    x = Tensor(START)

    class Untouched(Tensor):
        def backward(self, seed=1.0):
            raise AssertionError("differentiated in vain")

    optimizer = plain([x], "ssg", eta=0.1)
    told = optimizer.step(lambda: (Untouched(3.0), [Untouched(0.1), x.sum() - 0.0, Untouched(-1.0)]))
    assert told[0].value == 3.0 and len(told[1]) == 3
    np.testing.assert_allclose(x.value, START - 0.1)
    optimizer.step(lambda: (x.sum(), [Untouched(1e-6)]))
    np.testing.assert_allclose(x.value, START - 0.2)
    penalty = plain([x], "threes-econ", alpha=0.1)
    penalty.step(lambda: (x.sum(), [Untouched(-1e-9)]))
    np.testing.assert_allclose(x.value, START - 0.3)
    for none in ((), None):
        optimizer.step(lambda none=none: (x.sum(), none))
    np.testing.assert_allclose(x.value, START - 0.5)
    # The first of equals, as in the library.
    optimizer.step(lambda: (Untouched(0.0), [x.sum() * 0.0 - (-1.0), Untouched(1.0)]))
    np.testing.assert_allclose(x.value, START - 0.5)


def test_groups_have_their_own_step_sizes(plain):
    x, y = Tensor(START), Tensor([1.0])
    optimizer = plain([{"params": [x]}, {"params": [y], "lr": 0.5}], "ssg", eta=0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    optimizer.step(lambda: (x.sum() + y.sum(), []))
    np.testing.assert_allclose(x.value, START - 0.1)
    np.testing.assert_allclose(y.value, [0.5])
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step(lambda: (x.sum() + y.sum(), []))
    np.testing.assert_allclose(x.value, START - 0.1)
    # A Polyak step is one for all parameters: to where the linearised constraint is 0.
    polyak = plain([{"params": [x]}, {"params": [y], "lr": 0.5}], "ssg", infeasible_step="polyak")
    polyak.step(lambda: (x.sum(), x.sum() + y.sum()))
    assert abs(x.value.sum() + y.value.sum()) < 1e-12
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.value.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert x.grad is None


@pytest.mark.parametrize("stopped", [4, 7])
def test_a_saved_state_continues_bit_for_bit(plain, stopped):
    rng = np.random.default_rng(2)
    slopes = rng.normal(size=(30, 2))
    batches = [rng.integers(30, size=3) for _ in range(20)]

    def run(optimizer, x, batches):
        for rows in batches:
            optimizer.step(lambda rows=rows: (objective(x), [x.dot(slopes[rows].mean(axis=0)) - 0.1]))

    make = lambda x, **more: plain([x], "threes-econ", **{"alpha": 0.02, "nu": 0.1, "q": 6, "s1": 3, "s2": 3, **more})
    whole = Tensor(START)
    run(make(whole), whole, batches)
    first = Tensor(START)
    optimizer = make(first)
    run(optimizer, first, batches[:stopped])
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["params"] == [0] and saved["param_groups"][0]["nu"] == 0.1
    second = Tensor(first.value)
    # Other settings are replaced by those of the state.
    continued = make(second, alpha=1.0, beta=1.0)
    continued.load_state_dict(saved)
    run(optimizer, first, batches[stopped:])
    run(continued, second, batches[stopped:])
    assert first.value.tobytes() == whole.value.tobytes() == second.value.tobytes()


def test_a_new_group_resets_the_estimate(plain):
    x, y = Tensor(START), Tensor([1.0])
    optimizer = plain([x], "threes-econ", q=3, s1=9)
    assert optimizer.resets and optimizer.batch_size == 9
    optimizer.step(lambda: (objective(x), constraints(x)))
    assert not optimizer.resets and optimizer.batch_size == 3
    optimizer.add_param_group({"params": [y]})
    assert optimizer.resets
    asked = []
    for _ in range(4):
        asked.append(optimizer.resets)
        optimizer.step(lambda: (objective(x) + y.square().sum(), constraints(x)))
    assert asked == [True, False, False, True]


def test_parameters_are_unchanged_after_an_exception(plain):
    x = Tensor(START)
    optimizer = plain([x], "threes-econ", q=4)
    optimizer.step(lambda: (objective(x), constraints(x)))
    here, calls = x.value.copy(), []

    def failing():
        calls.append(x.value.copy())
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        optimizer.step(failing)
    # It was evaluated at the previous point.
    assert calls[0].tobytes() == START.tobytes() and x.value.tobytes() == here.tobytes()
    for bad, words in [
        (lambda: (x.sum() * np.nan, []), "the objective must be finite, got nan"),
        (lambda: (x.sum(), [x.sum() * 0.0, x.sum() * np.inf]), "constraint 2 must be finite, got inf"),
        (
            lambda: (x.sum(), constraints(x)[:1]),
            "the closure must return the same number of constraints each time, got 1 after 2",
        ),
        (
            lambda: (x.sum(), Tensor(np.zeros((2, 2)))),
            "the constraints must be a list of numbers or a tensor with one dimension, got 2 dimensions",
        ),
        (lambda: (x, []), "objective and constraints must be single numbers such as means, got a tensor with 2 entries"),
    ]:
        with pytest.raises(ValueError, match=words):
            optimizer.step(bad)
        assert x.value.tobytes() == here.tobytes()
    polyak = plain([x], "ssg", infeasible_step="polyak")
    with pytest.raises(
        ValueError,
        match=r"the gradient of the largest constraint is zero although its value is 1\.000e\+00; the Polyak step is undefined",
    ):
        polyak.step(lambda: (x.sum(), [x.sum() * 0.0 - (-1.0)]))
    steep = plain([x], "ssg")
    with pytest.raises(ValueError, match="the squared norm of the gradient must be finite, got inf"):
        steep.step(lambda: (Tensor(1.0, [(x, lambda s: s * np.full(2, np.inf))]), []))
    assert x.value.tobytes() == here.tobytes()


def test_invalid_arguments(plain):
    x = Tensor(START)
    for settings, words in [
        ({"method": "sgd"}, "method must be 'ssg' or 'threes-econ', got 'sgd'"),
        ({"eta": 0.0}, r"eta must be positive and finite, got 0\.0"),
        ({"eta": "small"}, "eta must be positive and finite, got 'small'"),
        ({"tol": -1.0}, r"tol must be finite and at least 0, got -1\.0"),
        ({"infeasible_step": "long"}, "infeasible_step must be 'fixed' or 'polyak', got 'long'"),
        ({"method": "threes-econ", "nu": 0}, "nu must be positive and finite, got 0"),
        ({"method": "threes-econ", "beta": "auto"}, "beta must be positive and finite, got 'auto'"),
        ({"method": "threes-econ", "q": 0}, "q must be a positive integer, got 0"),
        ({"method": "threes-econ", "s2": 1.5}, r"s2 must be a positive integer, got 1\.5"),
    ]:
        with pytest.raises(ValueError, match=words):
            plain([x], **settings)
    with pytest.raises(TypeError, match="'ssg' has no setting alpha; it has eta, tol, infeasible_step"):
        plain([x], alpha=0.1)
    with pytest.raises(
        TypeError, match="'threes-econ' has no setting lr; it has alpha, beta, nu, q, s1, s2, and its step size is alpha"
    ):
        plain([x], "threes-econ", lr=0.1)
    with pytest.raises(ValueError, match="params must have parameters or groups of them, got none"):
        plain([])
    optimizer = plain([x])
    with pytest.raises(ValueError, match=r"tol must be the same for all groups, got 0\.5 and 1e-05"):
        optimizer.add_param_group({"params": [Tensor(1.0)], "tol": 0.5})
    with pytest.raises(ValueError, match="lr must be positive and finite, got -1"):
        optimizer.add_param_group({"params": [Tensor(1.0)], "lr": -1})
    assert len(optimizer.param_groups) == 1 and optimizer.batch_size is None and not optimizer.resets
    with pytest.raises(TypeError, match=r"step\(\) needs a closure that returns objective and constraints"):
        optimizer.step()
    with pytest.raises(TypeError, match=r"the closure must return the pair \(objective, constraints\), got Tensor"):
        optimizer.step(lambda: x.sum())
    with pytest.raises(ValueError, match="state_dict must have the method 'ssg', got 'threes-econ'"):
        optimizer.load_state_dict(plain([x], "threes-econ").state_dict())
    with pytest.raises(ValueError, match=r"state_dict must have groups of \[1\] parameters, got \[2\]"):
        optimizer.load_state_dict(plain([x, Tensor(1.0)]).state_dict())


def of_torch(torch):
    """The problem above on PyTorch's tensors, with the vector as two parameters."""
    x, y = (torch.nn.Parameter(torch.tensor(START[i : i + 1], dtype=torch.float64)) for i in range(2))
    a, b = torch.tensor(A), torch.tensor(B)

    def closure():
        z = torch.cat([x, y])
        return (a @ z - b).abs().sum() * (1 / 3), torch.stack([z.abs().sum() - 1.2, (z * z).sum() - 0.6])

    return [x, y], closure


@pytest.mark.parametrize("method, settings", SETTINGS)
def test_with_pytorch_steps_equal_those_of_the_library(method, settings):
    torch = pytest.importorskip("torch")
    from thalweg.torch import ConstrainedOptimizer

    params, closure = of_torch(torch)
    optimizer = ConstrainedOptimizer(params, method, **settings)
    assert isinstance(optimizer, torch.optim.Optimizer)
    points = walk(optimizer, params, closure, 200)
    np.testing.assert_allclose(points, by_the_library(method, 200, **settings), rtol=0, atol=1e-12)


def test_with_pytorch_schedulers_and_saved_states(tmp_path):
    torch = pytest.importorskip("torch")
    from thalweg.torch import ConstrainedOptimizer

    how = {"alpha": 0.05, "nu": 0.1, "q": 4}

    def make():
        params, closure = of_torch(torch)
        optimizer = ConstrainedOptimizer(params, "threes-econ", **how)
        return params, closure, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)

    def run(closure, optimizer, scheduler, steps):
        for _ in range(steps):
            optimizer.step(closure)
            scheduler.step()

    params, closure, optimizer, scheduler = make()
    run(closure, optimizer, scheduler, 10)
    assert optimizer.param_groups[0]["lr"] == 0.05 / 4
    file = tmp_path / "state.pt"
    torch.save([[p.detach() for p in params], optimizer.state_dict(), scheduler.state_dict()], file)
    run(closure, optimizer, scheduler, 13)
    others, their_closure, theirs, their_scheduler = make()
    points, state, schedule = torch.load(file)
    with torch.no_grad():
        for param, value in zip(others, points):
            param.copy_(value)
    theirs.load_state_dict(state)
    their_scheduler.load_state_dict(schedule)
    run(their_closure, theirs, their_scheduler, 13)
    assert all(torch.equal(a, b) for a, b in zip(params, others))


def test_with_pytorch_a_network_is_trained_under_a_constraint():
    torch = pytest.importorskip("torch")
    from thalweg.torch import ConstrainedOptimizer

    # Small sums: threads would only wait for each other.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    group = torch.arange(400) % 2
    X = torch.randn(400, 2) + group[:, None]
    y = (X.sum(1) + 0.3 * torch.randn(400) > 1).float()

    def train(method, **settings):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        optimizer = ConstrainedOptimizer(model.parameters(), method, **settings)

        def gap():
            rates = torch.sigmoid(4 * model(X).squeeze(1))
            return rates[group == 1].mean() - rates[group == 0].mean()

        loss = lambda: torch.nn.functional.binary_cross_entropy_with_logits(model(X).squeeze(1), y)
        for _ in range(600):
            optimizer.step(lambda: (loss(), [gap() - 0.1, -gap() - 0.1]))
        return loss().item(), gap().item()

    for method, settings in (("ssg", {"eta": 0.1, "tol": 1e-3}), ("threes-econ", {"alpha": 0.05, "beta": 5.0, "nu": 1e-2})):
        lost, unfair = train(method, **settings)
        assert lost < 0.69 and abs(unfair) < 0.13, (method, lost, unfair)
