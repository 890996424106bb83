"""Plans, compared with the command and with the numbers of the theorems."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import thalweg

SSG = {"lipschitz": 1, "diameter": 1, "rho": 1, "rho_hat": 2, "slater": 1}
ECON = {
    "objective_lipschitz": 1,
    "constraint_lipschitz": 1,
    "mean_square_lipschitz": 1,
    "noise": 1,
    "objective_subgradient_noise": 0,
    "constraint_subgradient_noise": 0,
    "rho": 1,
    "rho_g": 0,
    "diameter": 1,
    "envelope_gap": 1,
}
DSZOG = {
    "smoothness": 4,
    "strong_concavity": 2,
    "weights_lipschitz": 2,
    "variables_noise": 1,
    "weights_noise": 0.5,
    "variables_scale_min": 0.5,
    "variables_scale_max": 2,
    "weights_scale_min": 0.25,
    "weights_scale_max": 1,
    "gap": 3,
    "dimension": 6,
    "constraints": 10,
}
ADAPROX = {
    "objective_smoothness": 1,
    "inner_smoothness": 1,
    "objective_hessian_lipschitz": 0.5,
    "inner_hessian_lipschitz": 0.25,
    "inner_hessian_bound": 1,
    "inner_gap_lipschitz": 2,
    "lipschitz": 1,
    "inner_curvature": 2,
    "inner_radius": 1,
    "objective_range": 1,
    "multiplier_bound": 2,
}
MSPG = {
    "convex_smoothness": 0,
    "mapping_smoothness": 0,
    "mapping_lipschitz": 1,
    "coupled_bound": 1,
    "objective_range": 1,
    "noise": 0,
}
BMD = {"lipschitz": 3, "loss_bound": 2, "start_distance": 2, "samples": 10, "rho": 2}
ST_SPG = {"noise": 1, "coupled_bound": 1, "objective_range": 4}
CASES = [
    ("ssg", {"theorem": "4.2-I", "eps": 0.1}, SSG),
    ("ssg", {"eps": 0.05}, {**SSG, "noise": 0.5, "confidence": 0.1}),
    ("ssg", {"theorem": "5.2-I", "eps": 0.1, "as_printed": True}, {**SSG, "noise": 0.5, "confidence": 0.1}),
    (
        "conex",
        {"eps": 0.01},
        {"objective_kink": 2, "constraint_lipschitz": 1, "constraint_kink": 2, "diameter": 1, "multiplier_bound": 3},
    ),
    (
        "ipp",
        {"eps": 0.1},
        {"lipschitz": 1, "diameter": 1, "rho": 1, "rho_hat": 2, "rho_g": 0, "rho_hat_g": 1, "multiplier_bound": 3},
    ),
    ("threes-econ", {"eps": 0.1, "theorem": "3.4"}, {**ECON, "beta": 10, "nu": 0.01}),
    ("threes-econ", {"eps": 0.1}, {**ECON, "slater": 0.5, "samples": 10000}),
    ("dszog", {"eps": 0.4}, {**DSZOG, "a": 0.5, "beta": 2}),
    ("dszog", {"eps": 0.4, "strict": True}, {**DSZOG, "m3": 6, "c": 1e-3}),
    ("adaprox", {"eps": 0.1}, {**ADAPROX, "alpha": 0.5, "xi": 0.5, "diameter": 3, "constraints": 9}),
    ("mspg", {"eps": 0.1}, {**MSPG, "uniform_convexity": 1, "growth": 2, "c": 0.4}),
    ("mspg", {"eps": 0.1}, {**MSPG, "holder_exponent": 0.5, "holder_constant": 1}),
    ("st-spg", {"eps": 2}, {**ST_SPG, "gamma": 2, "mu": 0.5, "weight": 1.5}),
    ("st-spg", {"eps": 2}, {**ST_SPG, "stages": 56}),
    ("bmd", {"eps": 0.7}, {**BMD, "delta": 0.25}),
    ("bmd", {"eps": 0.7}, {**BMD, "iterations": 1600}),
    ("adaprox", {"eps": 0.1, "inner": "sg", "as_printed": True}, {**ADAPROX, "value_error": 0.5, "outer_diameter": 1}),
]


def command(method, asked, constants):
    flags = []
    for key, value in {**asked, **constants}.items():
        flags.append(f"--{key.replace('_', '-')}")
        if value is not True:
            flags.append(str(value))
    call = [sys.executable, "-m", "thalweg", "plan", "--method", method, "--json", *flags]
    return subprocess.run(call, capture_output=True, text=True)


@pytest.mark.parametrize("method, asked, constants", CASES)
def test_plans_agree_with_the_command(method, asked, constants):
    done = command(method, asked, constants)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    found = thalweg.plan(method, **asked, **constants)
    assert [dict(plan) for plan in found] == told and found


def test_the_numbers_of_theorem_4_2():
    (plan,) = thalweg.plan(theorem="4.2-I", eps=0.1, **SSG)
    assert plan.theorem == "4.2-I" and plan["iterations"] == plan.iterations == 1e6
    assert plan.multiplier_bound == 3.0 and plan.value_batch is None
    assert "within 0.1 of the solution" in plan.guarantee
    assert ("bound on the multipliers", "Lam", "3") in plan.rows
    # A smaller accuracy costs eps^-4.
    (finer,) = thalweg.plan(theorem="4.2-I", eps=0.05, **SSG)
    assert finer.iterations == pytest.approx(16 * plan.iterations, rel=1e-6)


def test_the_numbers_of_theorem_5_14():
    (plan,) = thalweg.plan("dszog", eps=0.4, a=0.5, **DSZOG)
    # tau^2 eps^2 / (64 sigma_2^2 L^2), tau b^2 / (32 L^2 a^2 c2l), tau a eta_p c2l / (sqrt(128) L_g L c1u),
    # 2 gap / (eps^2 eta_w c1l)
    b = 4 * 0.16 / (64 * 0.25 * 16)
    eta_p = 2 * b**2 / (32 * 16 * 0.25 * 0.25)
    eta_w = 2 * 0.5 * eta_p * 0.25 / (128**0.5 * 2 * 4 * 2)
    assert (plan.b, plan.eta_p, plan.eta_w) == pytest.approx((b, eta_p, eta_w), rel=1e-12)
    assert plan.iterations == pytest.approx(6 / (0.16 * eta_w * 0.5), rel=1e-10)
    assert plan["lambda"] == 2 and plan.guarantee.startswith("Up to a constant factor, the mean")
    (strict,) = thalweg.plan("dszog", eps=0.4, a=0.5, strict=True, **DSZOG)
    assert plan.eta_p == pytest.approx(72 * strict.eta_p, rel=1e-12)
    assert strict.guarantee.startswith("The mean")


def test_the_numbers_of_theorem_6():
    (plan,) = thalweg.plan("adaprox", eps=0.1, inner="pd", alpha=0.5, xi=0.5, diameter=3, constraints=9, **ADAPROX)
    # L_c = (Delta_f / xi) (2 L_g + L_g^2 / alpha) + M_g = 10, (8 Delta_f / eps) (B + 1)^2 sigma, eps / (4 B)
    assert (plan.sigma, plan.outer) == (20, 14400)
    assert (plan.beta, plan.accuracy) == pytest.approx((0.0125, 0.0125 / 28800), rel=1e-12)
    # 2 * 30 * 3 / 10 and 5 * 9 * 61^2 / 10
    assert plan["inner"] == {"name": "pd", "t0": 18, "c_tau": 16744.5, "bound": 2}
    assert plan.value_error == pytest.approx(0.75**0.5, rel=1e-12)


def test_the_numbers_of_inf_projection():
    (plan,) = thalweg.plan("mspg", eps=0.1, uniform_convexity=1, **MSPG)
    # c_2 Delta / eta = 10 * 8, and 4 * 80 / T <= 1/100
    assert (plan.eta, plan.iterations, plan.samples) == (0.125, 32000, 32000 * 32001 / 2)
    (plan,) = thalweg.plan("st-spg", eps=2, mu=0.5, **ST_SPG)
    assert (plan.stages, plan.steps_x, plan.steps_y) == (560, 157640, 314720)


def test_a_plan_is_a_dictionary_that_renders():
    plans = thalweg.plan(eps=0.1, **SSG)
    assert len(plans) > 1
    for plan in plans:
        assert repr(plan).startswith(plan.title) and repr(plan).endswith(plan.guarantee)
        assert all(what in repr(plan) for what, _, _ in plan.rows)
        assert "<table>" in plan._repr_html_() and plan.title in plan._repr_html_()
        assert set(plan) <= set(dir(plan))
        again = pickle.loads(pickle.dumps(plan))
        assert again == plan and repr(again) == repr(plan)
    with pytest.raises(
        AttributeError,
        match="the plan has no 'steps'; it has theorem, iterations, burn_in, tol, eta",
    ):
        _ = plans[0].steps
    with pytest.raises(
        AttributeError, match=r"cannot set iterations: a plan is immutable; dict\(plan\) is a copy that can be changed"
    ):
        plans[0].iterations = 5


def test_numpy_numbers_and_absent_constants_are_fine():
    given = {key: np.float32(value) for key, value in SSG.items()}
    assert thalweg.plan(theorem="4.2-I", eps=np.float64(0.1), noise=None, **given) == thalweg.plan(
        theorem="4.2-I", eps=0.1, **SSG
    )


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (
            {"method": "sgs", "eps": 0.1},
            r"method 'sgs' has no planner; did you mean 'ssg'\?",
        ),
        ({"eps": 0.1, "lipshitz": 1}, r"lipshitz is no constant of ssg; expected confidence, diameter, lipschitz, "),
        ({"method": "ipp", "eps": 0.1, "theorem": "4.2-I"}, "theorem is for ssg and threes-econ: ipp has no such choice"),
        ({"method": "ssg", "eps": 0.1, "inner": "ssg"}, "inner is for ipp and adaprox: ssg has no such choice"),
        ({"method": "conex", "eps": 0.1, "as_printed": True}, "as_printed is for ssg and adaprox: conex has no such choice"),
        ({"method": "ssg", "eps": 0.1, "strict": True}, "strict is for dszog: ssg has no such choice"),
        (
            {"method": "dszog", "eps": 0.1, **DSZOG, "strong_concavity": 0},
            r"^strong_concavity must be a finite number larger than 0, got 0; it is tau, ",
        ),
        (
            {"method": "dszog", "eps": 0.1, **DSZOG, "a": 1.5},
            "^a must be larger than 0 and at most 1, got 1.5; it is the share of the new p in the mixture$",
        ),
        (
            {"method": "adaprox", "eps": 0.1, **ADAPROX, "alpha": 1},
            "^xi is missing; AdaProx with sg needs the amount by which g may exceed",
        ),
        ({"eps": -1.0, **SSG}, "eps"),
        ({"eps": 0.1}, "lipschitz"),
    ],
)
def test_errors_use_the_names_of_python(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        thalweg.plan(**arguments)
    assert "--" not in str(refused.value) and "\n" not in str(refused.value)


def test_wrong_types():
    with pytest.raises(TypeError, match="^eps must be a number, got 'small'$"):
        thalweg.plan(eps="small")
    with pytest.raises(TypeError, match="^rho must be a number, got 'one'$"):
        thalweg.plan(eps=0.1, rho="one")
    with pytest.raises(TypeError, match=r"^theorem must be a string, got 4\.2$"):
        thalweg.plan(eps=0.1, theorem=4.2)


def test_rows_without_pandas(monkeypatch):
    frame = thalweg.complexity("ssg")
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = thalweg.complexity("ssg")
    assert isinstance(rows, list) and rows == frame.to_dict("records")
    assert [known["name"] for known in thalweg.datasets.list()][:2] == ["a9a", "adult"]
    with pytest.raises(ImportError, match="^a DataFrame needs pandas; install it with pip install pandas$"):
        thalweg.datasets.load_table("german")


def test_complexity_agrees_with_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", "plan", "--complexity", "--json"], capture_output=True, text=True, check=True
    )
    assert thalweg.complexity().to_dict("records") == json.loads(done.stdout)
    assert 0 < len(thalweg.complexity("ipp")) < len(thalweg.complexity())
    with pytest.raises(ValueError, match="method 'sgs' has no planner"):
        thalweg.complexity("sgs")
