"""All estimator checks of scikit-learn."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from thalweg import (
    ConstrainedClassifier,
    FairClassifier,
    KernelConstrainedClassifier,
    NeymanPearsonClassifier,
    VarianceRegularizedClassifier,
)

pytestmark = pytest.mark.filterwarnings("ignore")


@parametrize_with_checks(
    [
        ConstrainedClassifier(),
        ConstrainedClassifier("hinge + 0.01 * l2", ("false_positive_rate <= 0.2",)),
        FairClassifier(),
        NeymanPearsonClassifier(),
        VarianceRegularizedClassifier(),
        VarianceRegularizedClassifier("hinge", form="sqrt", alpha=0.01),
        KernelConstrainedClassifier(),
        KernelConstrainedClassifier("hinge + 0.01 * l2", ("false_positive_rate <= 0.2",), gamma=0.5, n_components=10),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
