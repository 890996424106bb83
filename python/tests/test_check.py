"""Recorded certificates: ``record=True``, ``save`` and ``thalweg.check``, and files that were changed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import thalweg
from thalweg import minimize
from thalweg._result import Certificate
from thalweg.learn import demographic_parity, equalized_odds, fit, logistic, ridge


def distance(x):
    return np.abs(x - 2.0).sum()


def slope(x):
    return np.sign(x - 2.0)


DISC = NonlinearConstraint(lambda x: x @ x, -np.inf, 1.0, jac=lambda x: 2 * x)


def certify(**given):
    given = {"jac": slope, "constraints": DISC, "rho": 0.0, "record": True, **given}
    return thalweg.certify(distance, [0.6, 0.7], **given)


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    y = np.where(X[:, 0] + 0.5 * group + rng.normal(size=n) > 0, 1, -1)
    return X, y, group


def changed(proof, tmp_path, change):
    """Check the file of a certificate after a change."""
    proof.save(tmp_path / "certificate.json")
    content = json.loads((tmp_path / "certificate.json").read_text())
    change(content)
    (tmp_path / "changed.json").write_text(json.dumps(content))
    return thalweg.check(tmp_path / "changed.json")


def test_a_saved_certificate_is_confirmed(tmp_path):
    proof = certify()
    proof.save(tmp_path / "certificate.json")
    verdict = thalweg.check(tmp_path / "certificate.json")
    assert verdict.confirmed and not verdict.refusals
    assert verdict.sentence.startswith("confirmed: the proximal point is ")
    assert "the recorded values, subgradients and their errors of all functions are right" in verdict.sentence
    assert list(verdict.proximity["claimed"]) == [proof.lower, proof.upper]
    low, high = verdict.proximity["derived"]
    assert proof.lower <= low <= high <= proof.upper
    assert repr(verdict) == f"<{verdict.sentence}>"
    # The record changes nothing, and a string names a file too.
    plain = certify(record=False)
    assert (plain.lower, plain.upper) == (proof.lower, proof.upper)
    assert thalweg.check(str(tmp_path / "certificate.json")).confirmed
    command = [sys.executable, "-m", "thalweg", "check", str(tmp_path / "certificate.json")]
    assert subprocess.run(command, capture_output=True, text=True).stdout.startswith(verdict.sentence)


def test_a_certificate_without_a_record_cannot_be_saved(tmp_path):
    plain = certify(record=False)
    # Tests record every certificate, see conftest.py.
    plain._file = None
    with pytest.raises(ValueError, match=re.escape("no record to save; call thalweg.certify(..., record=True)")):
        plain.save(tmp_path / "certificate.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda p: p.update(upper=0.99 * p["upper"]), "the upper end"),
        (lambda p: p.update(lower=1.01 * p["lower"] + 1e-6), "the lower end"),
        (lambda p: p.update(mu=1.1 * p["mu"]), ""),
        (lambda p: p["point"].__setitem__(0, 0.61), "is not the certified one"),
        (lambda p: p["record"]["cuts"][0].update(weight=0.9 * p["record"]["cuts"][0]["weight"]), ""),
        (lambda p: p["record"].update(cuts=[]), "no cut of the objective"),
        (lambda p: p["record"]["visits"][0].update(value_errors=[0.1, 0.1]), ""),
    ],
)
def test_changed_numbers_are_refused(tmp_path, change, why):
    verdict = changed(certify(), tmp_path, lambda content: change(content["proximity"]))
    assert not verdict.confirmed and verdict.sentence.startswith("not confirmed: ")
    assert any(why in refusal for refusal in verdict.refusals), verdict.refusals


def test_files_that_are_no_certificates(tmp_path):
    proof, file = certify(), tmp_path / "certificate.json"
    for text, sentence in [
        ("{", "the certificate is not JSON"),
        ("[]", "the certificate has no number 'format'"),
        (
            json.dumps({**json.loads(proof._file), "format": 1}),
            "the certificate has format 1; expected a certificate of format 2",
        ),
        (json.dumps({**json.loads(proof._file), "proximity": 3}), "the certificate is a damaged certificate"),
        (json.dumps({**json.loads(proof._file), "proximity": None}), "the certificate contains no claim"),
    ]:
        file.write_text(text)
        with pytest.raises(ValueError, match=re.escape(sentence)):
            thalweg.check(file)
    with pytest.raises(FileNotFoundError):
        thalweg.check(tmp_path / "missing.json")


@pytest.mark.parametrize("weighted", [False, True])
def test_certificates_of_models_are_recomputed(tmp_path, weighted):
    X, y, group = rows()
    weights = np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0) if weighted else None
    constraints = [demographic_parity() <= 0.05, equalized_odds() <= 0.2]
    model = fit(logistic() + 0.01 * ridge(), constraints, X=X, y=y, sensitive=group, sample_weight=weights)
    proof = thalweg.certify(model, X, y, sensitive_features=group, sample_weight=weights, record=True)
    proof.save(tmp_path / "certificate.json")
    verdict = thalweg.check(tmp_path / "certificate.json")
    assert verdict.confirmed, verdict.sentence
    assert verdict.proximity["recomputed"] == verdict.proximity["functions"] == 3
    assert verdict.assumed == ["the rows in the file are those of the data"]

    def flip(content):
        content["model"]["labels"][3] *= -1

    verdict = changed(proof, tmp_path, flip)
    assert not verdict.confirmed and "follows from the rows" in verdict.sentence


@pytest.mark.parametrize("method", ["bundle", "sqp"])
@pytest.mark.parametrize("bounds", [None, Bounds(-5.0, 5.0)])
def test_a_verdict_of_infeasibility_is_recorded_and_checked(tmp_path, method, bounds):
    conflict = [LinearConstraint([[1.0, 1.0]], -np.inf, -1.0), LinearConstraint([[1.0, 1.0]], 1.0, np.inf), DISC]
    given = {"jac": slope, "constraints": conflict, "bounds": bounds, "rho": 0.0}
    result = minimize(distance, [0.1, 0.2], method=method, **given)
    assert not result.success and result.message.startswith("infeasible; constraint")
    proof = thalweg.certify(distance, result.x, record=True, **given)
    assert not proof.feasible
    stated = re.search(r"no point within (\S+) of this one", result.message)
    if stated:
        assert proof.infeasible_radius >= float(stated.group(1))
    else:
        assert bounds is not None
    assert (bounds is None) == bool(np.isfinite(proof.infeasible_radius))
    assert "satisfies all constraints (proved if the gradients are right and the given constants hold)" in repr(proof)
    proof.save(tmp_path / "certificate.json")
    verdict = thalweg.check(tmp_path / "certificate.json")
    assert verdict.confirmed, verdict.sentence
    place = "of the domain" if bounds is not None else "within "
    assert f"no point {place}" in verdict.sentence
    assert verdict.conflict["functions"] == 3 and verdict.conflict["margin"] > 0

    # The proof does not exclude more than it says, nor without one of the conflicting constraints.
    def wider(content):
        content["conflict"].update(radius=1e30)

    def fewer(content):
        cuts = content["conflict"]["record"]["cuts"]
        content["conflict"]["record"]["cuts"] = [cut for cut in cuts if cut["function"] != cuts[0]["function"]]

    for change in (wider, fewer):
        verdict = changed(proof, tmp_path, change)
        assert not verdict.confirmed and "do not exclude" in verdict.sentence


def test_a_feasible_problem_has_no_radius():
    assert certify().infeasible_radius is None
    outside = thalweg.certify(distance, [3.0, 0.0], jac=slope, constraints=DISC, rho=0.0, record=True)
    assert not outside.feasible and outside.infeasible_radius is None
    # Differences prove nothing.
    conflict = [LinearConstraint([[1.0, 1.0]], -np.inf, -1.0), LinearConstraint([[1.0, 1.0]], 1.0, np.inf)]
    assert thalweg.certify(distance, [0.0, 0.0], constraints=conflict, rho=0.0).infeasible_radius is None


def test_every_sentence_names_what_it_rests_on():
    page = Path(__file__).parents[2] / "docs" / "results" / "trust.md"
    lines = page.read_text(encoding="utf-8").split("## The sentences")[1].split("\n## ")[0].splitlines()
    table = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if " | Python" in line]
    sentences = []
    for source in ("proved", "claimed", "estimated"):
        known = {"lower": 0.1, "upper": 0.2, "source": source, "differences": False, "worst": "a", "maxcv": 1.0}
        sentences.append(repr(Certificate(**known, feasible=True, infeasible_radius=None)))
    sentences.append(repr(Certificate(**{**known, "differences": True}, feasible=True, infeasible_radius=None)))
    known["source"] = "claimed"
    sentences += [repr(Certificate(**known, feasible=False, infeasible_radius=radius)) for radius in (1.0, np.inf)]
    patterns = [".*".join(map(re.escape, row[0].split("…"))) for row in table]
    assert len(table) == 5 and all(re.search('"(.+)"', row[2]).group(1) in row[0] for row in table)
    for pattern in patterns:
        assert any(re.search(pattern, sentence) for sentence in sentences), pattern
    for sentence in sentences:
        assert any(re.search(pattern, sentence) for pattern in patterns), sentence
