"""What a fit in the driver's process takes of its memory is what decides whether it has room there."""

import sys

import pytest

from tests.faults.programs import told

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("ratings", "rank"),
    [(3_000_000, 50), *(pytest.param(ratings, 10, marks=pytest.mark.long) for ratings in (3_000_000, 6_000_000))],
)
def test_a_fit_takes_no_more_than_it_is_said_to_take(ratings: int, rank: int) -> None:
    """And not much less, else fits that have room would go to blocks."""
    memory = told([sys.executable, "-m", "tests.faults.in_one_process", str(ratings), str(rank)])
    assert memory["allowed"] / 2 < memory["taken"] < memory["allowed"], memory
