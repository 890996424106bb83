"""``thalweg.tradeoff``, compared with single fits and with the command."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import thalweg
from thalweg import _running, datasets
from thalweg.learn import demographic_parity, false_positive_rate, fit, hinge, logistic

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    X = np.c_[rng.normal(size=n) + group, rng.normal(size=n), rng.normal(size=n)]
    y = np.where(X @ [1.0, 0.5, -0.3] + 0.5 * rng.normal(size=n) > 0.5, "yes", "no")
    return X, y, np.array(["a", "b"])[group]


def gap(predicted, group):
    return abs(np.mean(predicted[group == "a"] == "yes") - np.mean(predicted[group == "b"] == "yes"))


def test_objective_grows_as_the_bound_falls_and_every_bound_is_satisfied():
    X, y, group = rows()
    swept = thalweg.tradeoff(logistic(), demographic_parity(group) <= 0.1, X=X, y=y, bounds=[0.05, 0.2, 0.01, 0.1])
    frame = swept.frame
    assert frame["bound"].tolist() == [0.2, 0.1, 0.05, 0.01]
    assert frame["feasible"].all() and not swept.interrupted
    assert np.all(np.diff(frame["objective"]) >= -1e-4 * frame["objective"].abs().to_numpy()[1:])
    for bound, measured, model in zip(frame["bound"], frame["measured"], swept.models):
        # The models are those that were measured.
        assert gap(model.predict(X), group) == pytest.approx(measured, abs=1e-12)
        assert measured <= bound + 1e-6
        assert np.mean(model.predict(X) == y) == pytest.approx(frame.loc[frame["bound"] == bound, "accuracy"].item())
    assert swept.coef.shape == (4, 3) and swept.intercept.shape == (4,)
    assert frame["held_out_accuracy"].isna().all() and frame["iterations"].dtype == np.int64


def test_a_sweep_of_one_bound_is_a_fit():
    X, y, group = rows()
    one = fit(logistic(), demographic_parity() <= 0.07, X=X, y=y, sensitive=group)
    swept = thalweg.tradeoff(logistic(), demographic_parity() <= 0.5, X=X, y=y, sensitive=group, bounds=0.07)
    assert len(swept) == 1
    assert np.array_equal(swept.coef[0], one.coef) and swept.intercept[0] == one.intercept
    assert swept.frame["objective"].item() == one.fun and swept.frame["iterations"].item() == one.nit
    assert swept.frame["accuracy"].item() == one.accuracy


def test_single_fits_reach_the_same_objectives():
    X, y, group = rows()
    bounds = [0.3, 0.1, 0.03]
    swept = thalweg.tradeoff(logistic(), demographic_parity(group) <= 1, X=X, y=y, bounds=bounds, enforce="surrogate")
    single = [fit(logistic(), demographic_parity(group) <= bound, X=X, y=y, enforce="surrogate") for bound in bounds]
    assert swept.frame["objective"].to_numpy() == pytest.approx([one.fun for one in single], rel=1e-3)


def test_held_out_rows_of_a9a():
    a9a = datasets.load("a9a")
    rng = np.random.default_rng(1)
    train = rng.choice(a9a.n_train, 1500, replace=False)
    test = a9a.n_train + rng.choice(16281, 1000, replace=False)
    swept = thalweg.tradeoff(
        "logistic + 0.001 * l2",
        ["demographic_parity <= 0.1"],
        X=a9a.data[train],
        y=a9a.target[train],
        sensitive=a9a.sensitive[train],
        X_test=a9a.data[test],
        y_test=a9a.target[test],
        sensitive_test=a9a.sensitive[test],
        bounds="0.02..0.15:3",
        max_iter=300,
    )
    frame = swept.frame
    assert len(frame) == 3 and frame["bound"].iloc[0] == 0.15 and frame["bound"].iloc[-1] == 0.02 and frame["feasible"].all()
    for i, model in enumerate(swept.models):
        predicted = model.predict(a9a.data[test])
        assert np.mean(predicted == a9a.target[test]) == pytest.approx(frame["held_out_accuracy"][i], abs=1e-12)
        rates = [np.mean(predicted[a9a.sensitive[test] == name] == 1.0) for name in a9a.group_names]
        assert abs(rates[0] - rates[1]) == pytest.approx(frame["held_out_measured"][i], abs=1e-12)
    axes = swept.plot()
    assert axes.get_ylabel() == "accuracy on the held-out set"
    matplotlib.pyplot.close("all")


def test_labels_in_a_column_are_labels():
    X, y, group = rows(300)
    how = {"X": X, "y": y[:, None], "sensitive": group, "bounds": [0.2], "max_iter": 50}
    held = thalweg.tradeoff("hinge", "demographic_parity <= 1", X_test=X, y_test=y[:, None], sensitive_test=group, **how)
    # Held-out rows that are the training rows give the numbers of the training rows.
    frame = held.frame.iloc[0]
    for name in ("objective", "value", "measured", "accuracy"):
        assert frame[f"held_out_{name}"] == frame[name]


def test_one_of_several_constraints_is_varied():
    X, y, group = rows()
    both = [demographic_parity(group) <= 0.1, false_positive_rate() <= 0.2]
    first = thalweg.tradeoff(hinge(), both, X=X, y=y, bounds=[0.15])
    assert first.constraint == "demographic_parity" and first.others == ["false_positive_rate <= 0.2"]
    assert first.notes[0] == "the bound of 'demographic_parity' is varied, the first of 2 constraints; of=… chooses another"
    for of in (1, np.int64(1), "false_positive_rate", "false", false_positive_rate()):
        second = thalweg.tradeoff(hinge(), both, X=X, y=y, bounds=[0.15], of=of, max_iter=50)
        assert second.constraint == "false_positive_rate" and second.others == ["demographic_parity <= 0.1"]
        assert not any("of=" in note for note in second.notes)


def test_infeasible_points_are_hollow_in_the_plot():
    X, y, group = rows(400)
    swept = thalweg.tradeoff(hinge(), demographic_parity(group) <= 1, X=X, y=y, bounds=[0.2, -0.1], max_iter=60)
    assert swept.frame["feasible"].tolist() == [True, False]
    _, ax = matplotlib.pyplot.subplots()
    assert swept.plot(ax) is ax
    filled, hollow = ax.get_lines()
    assert hollow.get_markerfacecolor() == "none" and filled.get_markerfacecolor() != "none"
    assert ax.get_ylabel() == "hinge" and "measured on the training rows" in ax.get_xlabel()
    assert "<table" in swept._repr_html_() and "infeasible" in repr(swept.models[1])
    assert repr(swept) == "<hinge subject to demographic_parity <= bound, 2 bounds, 1 feasible>"
    matplotlib.pyplot.close("all")


def test_seeds_and_threads_give_the_same_bits():
    X, y, group = rows(600)
    again = [
        thalweg.tradeoff(hinge(), demographic_parity(group) <= 1, X=X, y=y, bounds=[0.2, 0.05], seed=3, n_threads=n, max_iter=100)
        for n in (1, 2)
    ]
    assert np.array_equal(again[0].coef, again[1].coef)


def test_ctrl_c_returns_the_finished_points(monkeypatch):
    a9a = datasets.load("a9a")
    X, y, group = a9a.data[:8000], a9a.target[:8000], a9a.sensitive[:8000]
    bounds = [0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01]
    pressed = []

    def press_after_the_second(self, share, iterations, seconds):
        if share >= 2.0 / len(bounds) and not pressed:
            pressed.append(share)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_running._Bar, "update", press_after_the_second)
    # Each bound ends by its time limit, so that some are finished when Ctrl-C is pressed and some are not.
    swept = thalweg.tradeoff(
        "hinge",
        "demographic_parity <= 0.1",
        X=X,
        y=y,
        sensitive=group,
        bounds=bounds,
        solver="ssg",
        max_iter=10**9,
        max_time=0.5,
        verbose=1,
    )
    assert swept.interrupted and 1 <= len(swept) < len(bounds)
    assert swept.frame["bound"].tolist() == bounds[: len(swept)]
    assert len(swept.frame) == len(swept.models) == len(swept)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_before_any_point_gives_an_empty_sweep(ctrl_c):
    a9a = datasets.load("a9a")
    ctrl_c()
    swept = thalweg.tradeoff(
        "hinge",
        "demographic_parity <= 0.1",
        X=a9a.data,
        y=a9a.target,
        sensitive=a9a.sensitive,
        bounds=[0.2, 0.1],
        solver="ssg",
        max_iter=10_000_000,
        max_time=None,
    )
    assert swept.interrupted and len(swept) == 0 and swept.frame.empty and swept.coef.shape == (0, 123)
    assert "bound" in swept.frame.columns
    swept.plot()
    matplotlib.pyplot.close("all")


def test_other_threads_run_in_the_meantime(ctrl_c):
    X, y, group = rows(3000)
    # With the interpreter's lock held, the other thread could not interrupt the sweep before its time is over.
    other = ctrl_c(ticks=20)
    swept = thalweg.tradeoff(
        hinge(), demographic_parity(group) <= 1, X=X, y=y, bounds="0.02..0.3:4", solver="ssg", max_iter=10**9, max_time=10.0
    )
    assert swept.interrupted and other.ticked == 20


@pytest.mark.parametrize(
    "change, kind, sentence",
    [
        ({"bounds": []}, ValueError, "^bounds: there is no value; expected at least one bound$"),
        ({"bounds": [0.1, 0.1]}, ValueError, "^bounds: 0.1 is there twice; expected different values$"),
        ({"bounds": [0.1, np.nan]}, ValueError, "^bounds: NaN is not a finite number; expected finite bounds$"),
        ({"bounds": [0.1, "a"]}, TypeError, "^bounds must be numbers, got 'a'$"),
        ({"bounds": None}, TypeError, r"^bounds must be a list of numbers or text such as '0\.01\.\.0\.2:12', got NoneType$"),
        (
            {"bounds": "0.1..0.2"},
            ValueError,
            "^bounds = '0.1..0.2': has no number of values; expected A..B:N, for example 0.01..0.2:12$",
        ),
        ({"subject_to": ()}, ValueError, "^subject_to must have a constraint whose bound is varied, got none$"),
        ({"of": 1}, ValueError, r"^of must be one of 0 \(demographic_parity\), got 1$"),
        ({"of": -1}, ValueError, r"^of must be one of 0 \(demographic_parity\), got -1$"),
        ({"of": "odds"}, ValueError, r"^of must be one of 0 \(demographic_parity\), got 'odds'$"),
        ({"of": 1.5}, TypeError, r"^of must be the index or name of a constraint, one of 0 \(demographic_parity\), got float"),
        (
            {"solver": "adam"},
            ValueError,
            f"^unknown solver 'adam'; expected one of auto, {', '.join(thalweg.solvers('fit'))}$",
        ),
        (
            {"enforce": "both"},
            ValueError,
            r"^enforce must be 'measured' \(0/1 rates satisfy the bounds\) or 'surrogate' \(their surrogates do\), got 'both'",
        ),
        ({"y_test": ["no"]}, ValueError, "^y_test is given without X_test$"),
        ({"X_test": np.zeros((2, 3))}, ValueError, "^X_test is given without y_test$"),
        ({"X_test": np.zeros((2, 2)), "y_test": ["no", "yes"]}, ValueError, "^X_test must have 3 columns as in X, got 2$"),
        (
            {"X_test": np.zeros((2, 3)), "y_test": ["no"]},
            ValueError,
            r"^y_test must have 2 labels, one for each row of X_test, got shape \(1,\)$",
        ),
        (
            {"X_test": np.zeros((2, 3)), "y_test": ["no", "ja"]},
            ValueError,
            r"^y_test must have the labels of the training rows, \['no', 'yes'\], but has others$",
        ),
        (
            {"X_test": np.zeros((2, 3)), "y_test": ["no", "yes"]},
            ValueError,
            "^sensitive_test is required, because the training rows have groups",
        ),
        (
            {"X_test": np.zeros((2, 3)), "y_test": ["no", "yes"], "sensitive_test": ["a", "c"]},
            ValueError,
            "^sensitive_test must have the groups of the training rows, a, b, got a, c$",
        ),
        ({"seed": -1}, ValueError, r"^seed must be an integer from 0 to 2\^63 - 1, got -1"),
        ({"options": {"eta": 1}, "solver": "bundle"}, ValueError, "eta"),
    ],
)
def test_invalid_arguments(change, kind, sentence):
    X, y, group = rows(100)
    good = {"objective": "hinge", "subject_to": "demographic_parity <= 0.1", "X": X, "y": y, "sensitive": group, "bounds": [0.1]}
    with pytest.raises(kind, match=sentence) as refused:
        thalweg.tradeoff(**{**good, **change})
    assert "--" not in str(refused.value) and "\n" not in str(refused.value)
