"""Of a fit that stopped before it settled, people read what to change."""

import pytest

from dcrec_spark.jobs.settled import StageFit, unsettled


@pytest.mark.parametrize(
    ("objective", "values", "expected"),
    [
        ("J", [491_553.0, 99_008.0], "outcome stopped after 2 iterations, J still falling by 80 % an iteration"),
        ("ELBO", [-10.0, -9.0, -8.82], "outcome stopped after 3 iterations, ELBO still rising by 2 % an iteration"),
        ("J", [5.0], "outcome stopped after 1 iteration, too few to see whether J has settled"),
    ],
)
def test_what_was_still_moving_is_named_with_its_remedy(objective: str, values: list[float], expected: str) -> None:
    sentence = unsettled("outcome", StageFit(objective, values, converged=False), 1e-4)
    assert sentence == f"{expected}: raise outcome.max_iter, or outcome.tol if this is near enough"


@pytest.mark.parametrize(
    ("fit", "tol"),
    [
        (StageFit("J", [100.0, 50.0], converged=True), 1e-4),
        (StageFit("J", [100.0, 50.0], converged=False), 0.0),
        (StageFit("J", [], converged=False), 1e-4),
    ],
    ids=["settled", "a fixed number of iterations was asked for", "nothing was fitted"],
)
def test_what_has_settled_or_was_not_to_is_not_mentioned(fit: StageFit, tol: float) -> None:
    assert unsettled("exposure", fit, tol) is None
