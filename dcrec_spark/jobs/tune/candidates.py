"""Candidates of a search, all drawn at the start: the same seed gives the same ones."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import scipy.stats
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dcrec_spark.config.jobs import TuneConfig
from dcrec_spark.config.space import Range
from dcrec_spark.config.stages import ExposureConfig, OutcomeConfig
from dcrec_spark.errors import ConfigError

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """Settings of both stages.

    parameters : varied settings by dotted name. exposure : None where the adjustment has no confounder.
    """

    number: int
    parameters: Parameters
    exposure: ExposureConfig | None
    outcome: OutcomeConfig

    @property
    def stage_one(self) -> str:
        """Settings of stage 1 as text. Candidates with equal ones share an exposure model. Empty without one."""
        return "" if self.exposure is None else self.exposure.model_dump_json()

    @property
    def settings(self) -> str:
        return f"{self.stage_one} {self.outcome.model_dump_json()}"

    def key(self, search: str) -> str:
        """Hash of the search and all settings, under which a trial is recorded."""
        return hashlib.sha256(f"{search} {self.settings}".encode()).hexdigest()


def draw_candidates(config: TuneConfig) -> list[Candidate]:
    """Draw distinct candidates of a search. Raises ConfigError: no space, or two choices exclude each other."""
    if not config.tuning.space:
        raise ConfigError(
            "setting tuning.space: found no settings to try, expected some with their choices, such as "
            "{exposure.rank: [5, 10, 20], outcome.rank: [5, 10, 20]}; conf/tune.yaml is an example"
        )
    distinct: dict[str, Candidate] = {}
    for parameters in _draw(config):
        settings = config.model_dump()
        for name, value in parameters.items():
            section, _, setting = name.partition(".")
            settings[section][setting] = value
        valid = TuneConfig.model_validate(settings)
        exposure = valid.exposure if valid.outcome.adjustment == "deconfounded" else None
        candidate = Candidate(len(distinct), dict(parameters), exposure, valid.outcome)
        distinct.setdefault(candidate.settings, candidate)
    return list(distinct.values())


def _draw(config: TuneConfig) -> Iterator[Parameters]:
    """Yield a grid, or draw independently, without repetition if all choices are lists."""
    # scikit-learn has no log-uniform whole numbers, so a range is sampled as a place from 0 to 1.
    ranges = {name: choices for name, choices in config.tuning.space.items() if isinstance(choices, Range)}
    lists = {name: list(choices) for name, choices in config.tuning.space.items() if not isinstance(choices, Range)}
    trials = config.tuning.trials
    if trials is None:
        yield from ParameterGrid(lists)
        return
    trials = trials if ranges else min(trials, len(ParameterGrid(lists)))
    distributions = {**lists, **dict.fromkeys(ranges, scipy.stats.uniform())}
    for sample in ParameterSampler(distributions, trials, random_state=config.run.seed % 2**32):
        yield {name: ranges[name].at(float(v)) if name in ranges else v for name, v in sample.items()}


def format_parameters(parameters: Parameters) -> str:
    """Format parameters for people: ``exposure.rank=5, outcome.rank=10``."""
    texts = {name: f"{v:.4g}" if isinstance(v, float) else json.dumps(v).strip('"') for name, v in parameters.items()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())
