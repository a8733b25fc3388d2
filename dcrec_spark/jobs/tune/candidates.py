"""The settings that a search tries, chosen at the start: the same seed gives the same ones, interrupted or not."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import scipy.stats
from pydantic import ValidationError
from sklearn.model_selection import ParameterGrid, ParameterSampler

from dcrec_spark.config import ExposureConfig, OutcomeConfig, Range, TuneConfig
from dcrec_spark.errors import ConfigError

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """Settings of both stages.

    parameters : what was varied, by dotted name. exposure : None where the adjustment has no confounder.
    """

    number: int
    parameters: Parameters
    exposure: ExposureConfig | None
    outcome: OutcomeConfig

    def limited_to(self, max_iter: int) -> Self:
        """Limit the sweeps of stage 2."""
        return replace(self, outcome=self.outcome.model_copy(update={"max_iter": max_iter}))

    @property
    def stage_one(self) -> str:
        """Candidates that agree in it share an exposure model; empty without one."""
        return "" if self.exposure is None else self.exposure.model_dump_json()

    @property
    def exposure_parameters(self) -> Parameters:
        """What was varied of stage 1."""
        varied = {} if self.exposure is None else self.parameters
        return {name: value for name, value in varied.items() if name.startswith("exposure.")}

    def key(self, search: str) -> str:
        """Name this fit among all fits: a hash of its search (data, metric) and of its settings."""
        return hashlib.sha256(f"{search} {self._settings}".encode()).hexdigest()

    @property
    def _settings(self) -> str:
        return f"{self.stage_one} {self.outcome.model_dump_json()}"


def draw(config: TuneConfig) -> list[Candidate]:
    """Choose the candidates of a search; of several that come to the same fit, the first.

    Raises
    ------
    ConfigError : the space is empty, or two of its choices exclude each other.
    """
    space = config.tuning.space
    if not space:
        raise ConfigError(
            "setting tuning.space: found no settings to try, expected some with their choices, such as "
            "{exposure.rank: [5, 10, 20], outcome.rank: [5, 10, 20]}; conf/tune.yaml is an example"
        )
    choices = _grid(config) if config.tuning.search == "grid" else _random(config)
    distinct: dict[str, Candidate] = {}
    for parameters in choices:
        candidate = _settled(config, len(distinct), parameters)
        distinct.setdefault(candidate._settings, candidate)
    return list(distinct.values())


def _grid(config: TuneConfig) -> Iterator[Parameters]:
    yield from ParameterGrid({name: list(choices) for name, choices in config.tuning.space.items()})


def _random(config: TuneConfig) -> Iterator[Parameters]:
    """Independent draws; without repetition where all are lists."""
    # scikit-learn has no log-uniform whole numbers, so a range is sampled as a place from 0 to 1.
    ranges = {name: choices for name, choices in config.tuning.space.items() if isinstance(choices, Range)}
    lists = {name: list(choices) for name, choices in config.tuning.space.items() if not isinstance(choices, Range)}
    wanted = config.tuning.trials
    if not ranges:
        wanted = min(wanted, len(ParameterGrid(lists)))
    distributions = {**lists, **dict.fromkeys(ranges, scipy.stats.uniform())}
    for sample in ParameterSampler(distributions, wanted, random_state=config.run.seed % 2**32):
        yield {name: ranges[name].at(float(v)) if name in ranges else v for name, v in sample.items()}


def _settled(config: TuneConfig, number: int, parameters: Parameters) -> Candidate:
    settings = config.model_dump()
    for name, value in parameters.items():
        section, _, setting = name.partition(".")
        settings[section][setting] = value
    try:
        whole = TuneConfig.model_validate(settings)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting tuning.space: {shown(parameters)} exclude each other: expected {reason}") from None
    confounded = whole.outcome.adjustment == "deconfounded"
    return Candidate(number, dict(parameters), whole.exposure if confounded else None, whole.outcome)


def shown(parameters: Parameters) -> str:
    """For people: ``exposure.rank=5, outcome.rank=10``."""
    return ", ".join(f"{name}={_short(value)}" for name, value in parameters.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def as_json(parameters: Parameters) -> str:
    """Write parameters as text, equal for equal parameters."""
    return json.dumps(dict(parameters), sort_keys=True)
