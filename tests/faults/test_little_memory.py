"""Memory that does not hold a fit's blocks: they go to disk and come back, and the fit finds what a roomy one does."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.programs import told

pytestmark = pytest.mark.process

# The operators that make what a fit caches: the blocks of a side, and their results.
BLOCKS, RESULTS = "Exchange", "FlatMapCoGroupsInArrow"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def seen(folder: Path) -> dict[str, Any]:
    return told([sys.executable, "-m", "tests.faults.in_little_memory", folder])


def test_what_has_no_room_in_memory_goes_to_disk(seen: dict[str, Any]) -> None:
    """Blocks, results, and the sorts that bring the two together.

    What is shuffled is written without a sort, which Spark needs on the way to more than 200 blocks only
    (``spark.shuffle.sort.bypassMergeThreshold``): of shuffles that spill nothing is tried here.
    """
    assert {BLOCKS, RESULTS} <= set(seen["little"]["on_disk"])
    assert seen["little"]["spilled"] > 0
    assert seen["roomy"] == {"on_disk": [], "spilled": 0}


@pytest.mark.usefixtures("seen")
def test_a_fit_in_little_memory_finds_what_a_roomy_one_does(folder: Path) -> None:
    """To the last bit."""
    with np.load(folder / "little.npz") as little, np.load(folder / "roomy.npz") as roomy:
        assert set(little) == set(roomy) == {"users", "items", "elbo", "loss", "intercept"}
        for name in roomy:
            np.testing.assert_array_equal(little[name], roomy[name], err_msg=name)
