"""Demographic parity of 0.02 on a9a: ``FairClassifier`` beside fairlearn's reductions, in one process and one run.

Train on the 32,561 rows of the training part, test on the 16,281 of the test part, groups by sex. fairlearn's methods get its
usual base learner, scikit-learn's logistic regression. Reported are seconds of ``fit``, held-out accuracy, and the gap between
the shares of positive answers of women and men on both parts. ExponentiatedGradient answers at random: its numbers are means
over its mixture, which ``_pmf_predict`` gives exactly.

    python benches/fairness.py            # everything, about three minutes
    python benches/fairness.py --turns 3  # our own fits three times
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from thalweg import ConstrainedClassifier, FairClassifier
from thalweg.datasets import load


def gap(positive: np.ndarray, group: np.ndarray) -> float:
    return abs(positive[group == "female"].mean() - positive[group == "male"].mean())


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=3, help="how often our own fits are timed; the median counts")
    turns = parser.parse_args().turns

    from fairlearn.reductions import DemographicParity, ExponentiatedGradient, GridSearch

    a9a = load("a9a")
    dense = a9a.data.toarray()
    cut = a9a.n_train
    train, test = slice(0, cut), slice(cut, None)
    y, group = (a9a.target > 0).astype(int), np.asarray(a9a.sensitive)
    rows = []

    def report(name: str, seconds: float, train_share: np.ndarray, test_share: np.ndarray) -> float:
        right = np.where(y[test] == 1, test_share, 1.0 - test_share).mean()
        rows.append((name, seconds, right, gap(train_share, group[train]), gap(test_share, group[test])))
        print(f"{name:46}{seconds:9.2f}{right:10.4f}{rows[-1][3]:10.4f}{rows[-1][4]:10.4f}", flush=True)
        return seconds

    print(f"{'':46}{'seconds':>9}{'accuracy':>10}{'gap':>10}{'gap':>10}")
    print(f"{'':46}{'':>9}{'held out':>10}{'training':>10}{'held out':>10}")
    ours = []
    for name, X in (("FairClassifier, sparse rows", a9a.data), ("FairClassifier, dense rows", dense)):
        times = []
        for _ in range(turns):
            began = time.perf_counter()
            model = FairClassifier("demographic_parity", bound=0.02).fit(X[train], y[train], sensitive_features=group[train])
            times.append(time.perf_counter() - began)
        ours.append(report(name, float(np.median(times)), model.predict(X[train]) * 1.0, model.predict(X[test]) * 1.0))
    began = time.perf_counter()
    model = FairClassifier("roc_gap", bound=0.05).fit(a9a.data[train], y[train], sensitive_features=group[train])
    report(
        "FairClassifier, roc_gap <= 0.05",
        time.perf_counter() - began,
        model.predict(a9a.data[train]) * 1.0,
        model.predict(a9a.data[test]) * 1.0,
    )
    began = time.perf_counter()
    model = ConstrainedClassifier().fit(a9a.data[train], y[train])
    report(
        "no constraint", time.perf_counter() - began, model.predict(a9a.data[train]) * 1.0, model.predict(a9a.data[test]) * 1.0
    )

    base = LogisticRegression(solver="lbfgs", max_iter=1000)
    began = time.perf_counter()
    search = GridSearch(base, DemographicParity(difference_bound=0.02), grid_size=41)
    search.fit(dense[train], y[train], sensitive_features=group[train])
    seconds = time.perf_counter() - began
    report("fairlearn GridSearch, 41 models", seconds, search.predict(dense[train]) * 1.0, search.predict(dense[test]) * 1.0)
    began = time.perf_counter()
    reduction = ExponentiatedGradient(base, DemographicParity(difference_bound=0.02))
    reduction.fit(dense[train], y[train], sensitive_features=group[train])
    seconds = time.perf_counter() - began
    report(
        "fairlearn ExponentiatedGradient",
        seconds,
        reduction._pmf_predict(dense[train])[:, 1],
        reduction._pmf_predict(dense[test])[:, 1],
    )
    times = [f"{seconds / own:.0f}" for own in ours]
    print(f"\nExponentiatedGradient takes {times[0]} times as long as FairClassifier on sparse rows, {times[1]} on dense ones")


if __name__ == "__main__":
    main()
