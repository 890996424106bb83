"""The attack on the claims: its judge on planted right and wrong claims, its truths, and every family in its quick form."""

from __future__ import annotations

import json
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import attack
import attacks
from attacks import _classical, _judge, _planted
from attacks._judge import NONE, RIGHT, WRONG, Row
from attacks._run import Truth, certificate, claims
from attacks.derivatives import visible
from attacks.rounding import solve_exactly


def test_intervals_are_judged():
    assert _judge.interval("p", 0.4, 0.6, 0.5, 0.0).verdict == RIGHT
    assert _judge.interval("p", 0.4, 0.6, 0.6 + 1e-9, 1e-8).verdict == RIGHT
    wrong = _judge.interval("p", 0.0, 0.0, 5e-6, 1e-18)
    assert wrong.verdict == WRONG and wrong.excess > 1
    assert _judge.interval("p", 0.4, 0.6, 0.3, 1e-9).verdict == WRONG
    assert _judge.interval("p", 0.0, np.inf, 0.3, 1e-9).verdict == NONE
    narrow, wide = _judge.interval("p", 0.0, 0.1, 0.3, 0.0), _judge.interval("p", 0.0, 0.2, 0.3, 0.0)
    assert narrow.excess > wide.excess


def test_objectives_are_judged_in_their_units():
    assert _judge.optimal("p", -1.0, -1.0, 1.0).verdict == RIGHT
    assert _judge.optimal("p", -1.1, -1.0, 1.0).verdict == RIGHT
    assert _judge.optimal("p", -0.9, -1.0, 1.0).verdict == WRONG
    assert _judge.optimal("p", -0.9, -1.0, 1e6).verdict == RIGHT
    assert _judge.optimal("p", 1e-9, 0.0, 1e-9).verdict == WRONG


def test_feasibility_and_infeasibility_are_judged():
    assert _judge.feasible("p", -1.0).verdict == RIGHT
    assert _judge.feasible("p", 1e-6).verdict == RIGHT
    assert _judge.feasible("p", 1e-3).verdict == WRONG
    assert _judge.infeasible("p", True, "infeasible").verdict == WRONG
    assert _judge.infeasible("p", False, "infeasible").verdict == RIGHT
    assert _judge.infeasible("p", None, "infeasible").verdict == NONE


def test_probabilities_are_judged():
    assert _judge.probability("p", 10, 100, 0.1, "").verdict == RIGHT
    assert _judge.probability("p", 0, 100, 0.1, "").verdict == RIGHT
    # 20 failures in 100 draws have a probability of 2e-3 and are no evidence; 30 have one of 3e-8.
    assert _judge.probability("p", 20, 100, 0.1, "").verdict == RIGHT
    assert _judge.probability("p", 30, 100, 0.1, "").verdict == WRONG


def result(x, success=True, status=0, message="feasible; the solver finished"):
    return SimpleNamespace(x=np.array([x]), success=success, status=status, message=message)


def test_the_claims_of_a_result():
    # min x subject to x >= 1.
    truth = Truth(lambda x: 1.0 - x[0], True, lambda x: float(x[0]), lambda _: 1.0)
    verdicts = lambda found: [(row.kind, row.verdict) for row in claims("p", truth, found)]
    assert verdicts(result(1.0)) == [("feasible", RIGHT), ("optimal", RIGHT)]
    assert verdicts(result(1.5)) == [("feasible", RIGHT), ("optimal", WRONG)]
    assert verdicts(result(0.5)) == [("feasible", WRONG)]
    limit = "feasible; stopped at the iteration limit"
    assert verdicts(result(1.5, success=False, status=1, message=limit)) == [("feasible", RIGHT)]
    assert verdicts(result(1.5, success=True, status=1, message=limit)) == [("feasible", RIGHT), ("optimal", WRONG)]
    assert verdicts(result(0.5, success=False, status=1, message="not feasible; stopped")) == [("optimal", NONE)]
    assert verdicts(result(0.5, success=False, status=2, message="infeasible; it cannot be satisfied")) == [("infeasible", WRONG)]
    assert verdicts(result(0.5, success=False, status=5, message="failed at iteration 1: NaN")) == [("optimal", NONE)]
    nothing = Truth(lambda x: 1.0, exists=False)
    refused = result(0.5, success=False, status=2, message="infeasible; constraints conflict")
    assert [row.verdict for row in claims("p", nothing, refused)] == [RIGHT]
    assert [row.verdict for row in claims("p", nothing, result(0.5))] == [WRONG]
    free = Truth(lambda x: -np.inf, True, lambda x: float(x[0]), lambda _: 1.0)
    assert [row.kind for row in claims("p", free, result(1.0))] == ["optimal"]


def test_a_limit_of_the_attack_is_not_held_against_the_result():
    truth = Truth(lambda x: 1.0 - x[0], True, lambda x: float(x[0]), lambda _: 1.0)
    found = result(1.5, status=1, message="feasible; stopped at the iteration limit")
    assert [(row.kind, row.verdict) for row in claims("p", truth, found, limited=True)] == [
        ("feasible", RIGHT),
        ("optimal", NONE),
    ]
    assert [row.verdict for row in claims("p", truth, result(1.5), limited=True)] == [RIGHT, WRONG]


def test_estimated_and_refused_certificates_claim_nothing():
    found = SimpleNamespace(lower=0.0, upper=0.0, estimated=False)
    judge = lambda c: certificate("p", c, lambda _: 0.5, lambda _: 1e-9).verdict
    assert judge(found) == WRONG
    assert judge(SimpleNamespace(lower=0.4, upper=0.6, estimated=False)) == RIGHT
    assert judge(SimpleNamespace(lower=0.0, upper=0.0, estimated=True)) == NONE
    assert judge(ValueError("the constant is too small")) == NONE
    assert judge(None) == NONE


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("kind", (*_planted.CONVEX, *_planted.WEAKLY_CONVEX), ids=lambda kind: kind.__name__)
def test_planted_points_solve_their_subproblems(kind, constrained):
    for draw in range(5):
        rng = np.random.default_rng(draw)
        problem = _planted.plant(rng, kind, size=3, constrained=constrained, distance=0.7)
        z = np.random.default_rng(draw).normal(size=3)
        assert np.linalg.norm(problem.x - z) == pytest.approx(0.7) == problem.distance
        rho_f, rho_g = problem.rho

        def value(y, problem=problem, rho_f=rho_f):
            return problem.fun(y) + 0.5 * (rho_f + problem.mu) * np.sum((y - problem.x) ** 2)

        def allowed(y, problem=problem, rho_g=rho_g):
            values = [
                float(np.max((c.A @ y if hasattr(c, "A") else c.fun(y)) - c.ub)) + 0.5 * rho_g * np.sum((y - problem.x) ** 2)
                for c in problem.constraints
            ]
            return max(values, default=-1.0) <= 1e-9

        assert allowed(z)
        # Strong convexity: every allowed point is worse by at least mu / 2 times the squared distance.
        for _ in range(200):
            y = z + 10.0 ** rng.uniform(-3, 1) * rng.normal(size=3)
            if allowed(y):
                assert value(y) >= value(z) + 0.5 * problem.mu * np.sum((y - z) ** 2) - 1e-9 * (1 + abs(value(z)))
        # The subgradient is one: the linearisation lies below the function up to the constant.
        y, other = rng.normal(size=3), rng.normal(size=3)
        bend = 0.5 * rho_f * np.sum((other - y) ** 2)
        assert problem.fun(other) >= problem.fun(y) + problem.jac(y) @ (other - y) - bend - 1e-9


def test_a_constant_changes_nothing_but_the_value():
    make = lambda constant: _planted.plant(np.random.default_rng(3), _planted.quadratic, size=4, constant=constant)
    plain, raised = make(0.0), make(1e9)
    assert np.array_equal(plain.x, raised.x) and plain.distance == raised.distance
    assert raised.fun(plain.x) == pytest.approx(1e9 + plain.fun(plain.x))


@pytest.mark.parametrize("problem", (*_classical.INEQUALITIES, *_classical.EQUALITIES), ids=lambda problem: problem.name)
def test_classical_optima(problem):
    start = np.array(problem.start)
    starts = [start, *(start + 0.1 * np.random.default_rng(k).normal(size=len(start)) for k in range(4))]
    found = [x for x in (_classical.slsqp(problem, x) for x in starts) if x is not None and problem.violation(x) < 1e-6]
    assert min(problem.fun(x) for x in found) == pytest.approx(problem.optimum, abs=1e-5 * max(1, abs(problem.optimum)))


def test_scaled_problems_are_the_same_problem():
    problem = next(p for p in _classical.INEQUALITIES if p.name == "HS76")
    posed = _classical.scaled(problem, f=10.0, g=3.0, x=100.0)
    point = np.array([0.3, 0.7, 0.2, 0.1])
    assert posed["fun"](100.0 * point) == pytest.approx(10.0 * problem.fun(point))
    np.testing.assert_allclose(posed["jac"](100.0 * point), 0.1 * problem.jac(point))
    np.testing.assert_allclose(posed["constraints"][0].fun(100.0 * point), 3.0 * np.array(problem.inequalities(point)))
    assert posed["bounds"][0] == (0.0, None)
    truth = _classical.in_original_units(problem.truth(), 100.0)
    assert truth.violation(100.0 * point) == problem.violation(point) and truth.objective(100.0 * point) == problem.fun(point)


def test_exact_elimination():
    system = [[Fraction(4), Fraction(1)], [Fraction(1), Fraction(3)]]
    assert solve_exactly(system, [Fraction(1), Fraction(2)]) == [Fraction(1, 11), Fraction(7, 11)]


def test_wrong_constants_are_judged_only_where_they_show():
    fun, jac = (lambda x: np.abs(x * x - 1.0)), (lambda x: 2.0 * x * np.sign(x * x - 1.0))
    assert visible(fun, jac, 0.0, 0.3, 0.5) and not visible(fun, jac, 2.0, 0.3, 0.5)
    # Beyond 1 the function is convex.
    assert not visible(fun, jac, 0.0, 2.0, 0.5)


@pytest.mark.parametrize("name", attacks.FAMILIES)
def test_every_family_makes_claims(name):
    report = attack.run(name, 0, True)
    assert report.claims > 0 and report.problems > 3
    assert {row.verdict for row in report.rows} <= {RIGHT, WRONG, NONE}
    assert all(row.excess > 1 for row in report.wrong)


def test_the_control_group_is_right():
    assert attack.run("ordinary", 1, True).wrong == []


def family(*verdicts):
    return lambda seed, quick: (Row(f"problem {k}", "interval", "said", "true", v, 2.0) for k, v in enumerate(verdicts))


def test_wrong_claims_decide_the_exit_code(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(attack, "FAMILIES", {"good": family(RIGHT, NONE), "bad": family(RIGHT, WRONG)})
    assert attack.main(["--family", "good"]) == 0
    assert attack.main(["--family", "bad"]) == 1
    capsys.readouterr()
    file = tmp_path / "rows.json"
    assert attack.main(["--json", str(file), "--seed", "5"]) == 1
    table = capsys.readouterr().out
    assert [line.split()[:5] for line in table.splitlines()[1:3]] == [["good", "2", "1", "0", "1"], ["bad", "2", "2", "1", "0"]]
    assert "bad: 1 wrong" in table and "problem 1" in table
    saved = json.loads(file.read_text())
    assert saved["seed"] == 5 and [row["verdict"] for row in saved["families"][1]["rows"]] == [RIGHT, WRONG]
    assert attack.main(["--json", str(tmp_path / "absent" / "rows.json")]) == 2
    assert "absent" in capsys.readouterr().err
