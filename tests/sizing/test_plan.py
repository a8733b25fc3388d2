"""What dcrec plan prints."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from dcrec_spark.jobs.cli import dcrec
from dcrec_spark.sizing.plan import amount, duration

BILLIONS = ("--ratings", "10000000000", "--users", "100000000", "--items", "1000000", "--outcome-rank", "50")


def planned(*options: str) -> str:
    answer = CliRunner().invoke(dcrec, ["plan", *options], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_a_plan_names_the_stages_the_cluster_and_how_far_to_trust_it() -> None:
    text = planned(*BILLIONS, "--hours", "24", "--iterations", "100")
    for part in ("stage 1: 100 iterations", "stage 2: 19 further sweeps", "together", "executors", "over the network"):
        assert part in text
    assert "times as many ratings" in text.replace("\n", " ")


def test_cores_that_are_given_stand() -> None:
    assert "8 of 2 cores" in planned(
        "--ratings", "1000000", "--users", "6000", "--items", "3000", "--cores", "16", "--executor-cores", "2"
    )


def test_disks_hold_what_is_shuffled_between_two_checkpoints() -> None:
    """A checkpoint lets past shuffles go; rarer ones ask for larger disks."""

    def disks(*options: str) -> float:
        text = planned(*BILLIONS, "--cores", "256", *options)
        line = next(line for line in text.splitlines() if line.lstrip().startswith("local disks"))
        number, unit = line.split()[2:4]
        return float(number.replace(",", "")) * {"GB": 1, "TB": 1024}[unit]

    assert disks() == pytest.approx(22 / 4 * disks("--checkpoint-interval", "1"), rel=0.05)


@pytest.mark.parametrize("heaviest", ["60000000", "100000000"])
def test_an_item_of_most_users_fits_into_the_workers(heaviest: str) -> None:
    """Held whole, with three times 816 bytes of each user, it would ask for 141 GB."""
    text = planned(*BILLIONS, "--cores", "256", "--heaviest", heaviest)
    worker = next(line for line in text.splitlines() if "at most of each Python worker" in line)
    assert float(worker.split()[1]) <= 12.0
    assert worker.split()[2] == "GB"


def test_a_plan_needs_no_spark() -> None:
    """In a process of its own, where nothing else has started a session."""
    options = ["plan", *BILLIONS, "--cores", "512"]
    program = (
        "from dcrec_spark.jobs.cli import dcrec; from pyspark import SparkContext\n"
        f"dcrec({options}, standalone_mode=False); print('gateway', SparkContext._gateway)"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "together" in said
    assert said.endswith("gateway None\n")


@pytest.mark.parametrize(("seconds", "said"), [(0.44, "0.4 s"), (90, "1.5 min"), (5400, "1.5 h"), (3.6e6, "1,000.0 h")])
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(("size", "said"), [(2**21, "2 MB"), (1.5 * 2**30, "1.5 GB"), (2**41, "2.0 TB")])
def test_amounts(size: float, said: str) -> None:
    assert amount(size) == said
