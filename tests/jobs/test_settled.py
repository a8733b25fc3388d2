"""A fit that stopped before it settled is told with what to change."""

import pytest

from dcrec_spark.jobs.settled import unsettled


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ([491_553.0, 99_008.0], "outcome stopped after 2 iterations, its objective still falling by 80 % an iteration"),
        ([-10.0, -9.0, -8.82], "outcome stopped after 3 iterations, its objective still rising by 2 % an iteration"),
        ([5.0], "outcome stopped after 1 iteration, too few to see whether its objective has settled"),
    ],
)
def test_what_was_still_moving_is_said_with_its_remedy(objective: list[float], expected: str) -> None:
    sentence = unsettled("outcome", objective, 1e-4)
    assert sentence == f"{expected}: raise outcome.max_iter, or outcome.tol if this is near enough"


@pytest.mark.parametrize(
    ("objective", "tol"),
    [([100.0, 50.0, 49.999], 1e-4), ([100.0, 50.0], 0.0), ([], 1e-4), ([0.0, 0.0], 1e-4)],
    ids=["settled", "a fixed number of iterations was asked for", "nothing was fitted", "nothing to explain"],
)
def test_what_has_settled_or_was_not_to_is_not_mentioned(objective: list[float], tol: float) -> None:
    assert unsettled("exposure", objective, tol) is None
