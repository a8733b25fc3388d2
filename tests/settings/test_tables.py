"""A setting is declared once: Params and configuration agree with the tables (constructors: tests/models)."""

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.config.stages import EngineConfig, ExposureConfig, OutcomeConfig, exposure_params, outcome_params
from dcrec_spark.config.types import Section
from dcrec_spark.settings.domains import Choice, Domain, Flag
from dcrec_spark.settings.tables import EXPOSURE, OUTCOME, SECTIONS, Setting, in_section

ESTIMATORS: list[tuple[type[Any], tuple[Setting, ...]]] = [(PoissonFactorization, EXPOSURE), (DeconfoundedMF, OUTCOME)]
CONFIGS: dict[str, type[Section]] = {"exposure": ExposureConfig, "outcome": OutcomeConfig, "engine": EngineConfig}
OF_SECTIONS = [(name, setting) for name, of in SECTIONS.items() for setting in in_section(of, name).values()]
BOTH = [
    (estimator, name, setting)
    for (estimator, settings), stage in zip(ESTIMATORS, ("exposure", "outcome"), strict=True)
    for name in (stage, "engine")
    for setting in in_section(settings, name).values()
]


@pytest.mark.parametrize("name", CONFIGS)
def test_sections_have_the_names_and_defaults_of_the_table(name: str) -> None:
    fields = {field: info.default for field, info in CONFIGS[name].model_fields.items()}
    assert fields == {of: setting.default for of, setting in in_section(SECTIONS[name], name).items()}


def edges(setting: Setting) -> list[Any]:
    kind = setting.job_domain or setting.domain
    if isinstance(kind, Choice):
        return [*kind.options, "other", None, 3]
    if isinstance(kind, Flag):
        return [True, False, None]
    inside = [kind.low, kind.high, (kind.low + min(kind.high, kind.low + 10)) / 2]
    outside = [kind.low - 1, math.nextafter(kind.low, -math.inf), math.nextafter(kind.high, math.inf), kind.high + 1]
    return [*inside, *outside, None, True, math.nan, math.inf, -1, 0, 0.5]


def takes(refusal: type[Exception], take: Callable[..., object], *args: Any, **kwargs: Any) -> bool:
    try:
        take(*args, **kwargs)
    except refusal:
        return False
    return True


def is_valid(domain: Domain, value: Any) -> bool:
    return takes(ValueError, domain.check, value)


@pytest.mark.parametrize(("estimator", "name", "setting"), BOTH, ids=lambda value: getattr(value, "name", None))
def test_estimator_and_configuration_take_the_same_values(estimator: type[Any], name: str, setting: Setting) -> None:
    subject = estimator()
    for value in edges(setting):
        expected = takes(TypeError, subject._set, **{setting.param: value})
        if setting.job_domain is not None:
            expected &= is_valid(setting.job_domain, value)
        by_section = takes(ValidationError, CONFIGS[name].model_validate, {setting.name: value})
        assert by_section == expected, (setting.name, value)


@pytest.mark.parametrize("setting", [*EXPOSURE, *OUTCOME], ids=lambda setting: setting.name)
def test_a_default_is_a_value_and_a_meaning_reads_in_both_spellings(setting: Setting) -> None:
    assert setting.domain.check(setting.default) == setting.default
    assert not setting.doc.endswith(".")
    assert re.search(r"[{}]", setting.explain(as_param=True) + setting.explain(as_param=False)) is None


@pytest.mark.parametrize(("name", "setting"), OF_SECTIONS, ids=lambda value: getattr(value, "name", None))
def test_a_setting_of_a_job_reaches_its_estimator(name: str, setting: Setting) -> None:
    value = next(value for value in edges(setting) if value != setting.default and is_valid(setting.domain, value))
    sections: dict[str, Any] = {kind: config() for kind, config in CONFIGS.items()}
    sections[name] = CONFIGS[name].model_validate({setting.name: value})
    exposure = exposure_params(sections["exposure"], sections["engine"], 1, ["rating"])
    outcome = outcome_params(sections["outcome"], sections["engine"], 1, ["rating"])
    reached = {"exposure": [exposure], "outcome": [outcome], "engine": [exposure, outcome]}[name]
    assert [found[setting.param] for found in reached] == [value] * len(reached)
