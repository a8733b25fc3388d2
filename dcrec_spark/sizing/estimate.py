"""Seconds of each stage by measured coefficients, and how many cores a night of so many hours needs."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from dcrec_spark.errors import ConfigError
from dcrec_spark.sizing.work import STAGES, Size, work

MOST_CORES = 2**14


class Course(NamedTuple):
    """How long a fit goes on: iterations of stage 1, sweeps of stage 2; after how many of them a checkpoint comes."""

    iterations: int
    sweeps: int
    checkpoint_interval: int


def seconds(size: Size, cores: int) -> dict[str, float]:
    """Return stage -> seconds; of an iteration and of a sweep: one of them."""
    coefficients = measured()["seconds"]
    return {
        stage: sum(coefficients[stage][unit] * count for unit, count in work(stage, size, cores).items())
        for stage in STAGES
    }


def whole(size: Size, cores: int, course: Course) -> dict[str, float]:
    """Return stage -> seconds of a whole fit and its ranking."""
    times = {"iteration": course.iterations, "sweep": max(0, course.sweeps - 1)}  # the first sweep is in "between"
    return {stage: each * times.get(stage, 1) for stage, each in seconds(size, cores).items()}


def cores_for(size: Size, course: Course, wanted: float) -> int:
    """Return the smallest power of 2 of cores with which a fit and its ranking end within so many seconds.

    Raises
    ------
    ConfigError : no number of cores is enough, for what is not shared takes longer.
    """
    cores = 1
    while cores <= MOST_CORES:
        if sum(whole(size, cores, course).values()) <= wanted:
            return cores
        cores *= 2
    least = sum(whole(size, MOST_CORES, course).values())
    raise ConfigError(
        f"--hours: found {wanted / 3600:g}, expected at least {least / 3600:.2g}, which {MOST_CORES:,} cores take: "
        "allow for more hours, or fewer --iterations and --sweeps"
    )


@cache
def measured() -> Mapping[str, Any]:
    """Return ``seconds`` of each unit of each stage, and on what they were ``measured``, and how far they were off."""
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("coefficients.json").read_text("utf-8"))
    return found
