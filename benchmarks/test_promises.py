"""The short form of the study of promises, and the parts of it that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from unseen import Tally, draw, false_positive_rate, gap, main, most


def test_the_quick_form_keeps_the_promises_and_writes_its_page(tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "unseen.md").read_text()
    assert text in capsys.readouterr().out
    assert "| german | 2 | 0.05 |" in text and "| german | 0.1 |" in text and text.count('holds_on="population"') == 1
    assert "| `equalised_odds <= 0.15` | 12 |" in text and "`KernelConstrainedClassifier` | 12 |" in text


def test_rates_in_the_population_are_those_of_a_large_draw():
    rng = np.random.default_rng(5)
    coef, intercept = rng.normal(size=6), -0.4
    X, y, group = draw(rng, 400_000)
    predicted = X @ coef + intercept > 0
    assert gap(coef, intercept) == pytest.approx(abs(predicted[group == "a"].mean() - predicted[group == "b"].mean()), abs=4e-3)
    assert false_positive_rate(coef, intercept) == pytest.approx(predicted[~y].mean(), abs=4e-3)


def test_a_promise_is_kept_up_to_three_standard_errors():
    tally = Tally("a choice")
    assert most(300) == pytest.approx(0.0877, abs=1e-4)
    for i in range(300):
        tally.add(0.2 if i < 26 else 0.05 if i % 2 else None, 0.1)
    assert (tally.draws, tally.broken, tally.kept, tally.worst) == (300, 26, True, 0.2)
    tally.add(0.2, 0.1)
    assert not tally.kept and "broken too often" in tally.row()
