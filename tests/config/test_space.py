"""What may be searched: eagerly checked, each value by the setting's own rules."""

from typing import Any

import pytest

from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.load import load_config
from dcrec_spark.config.space import Range
from dcrec_spark.errors import ConfigError


def space_of(*overrides: str) -> dict[str, Any]:
    return load_config(AllSettings, None, ["tuning.search=random", *overrides]).tuning.space


def test_names_are_dotted_from_the_command_line_and_from_a_file() -> None:
    assert space_of("tuning.space.exposure.rank=[5,10]", "tuning.space.outcome.rank={low: 2, high: 9, int: true}") == {
        "exposure.rank": (5, 10),
        "outcome.rank": Range(low=2, high=9, int=True),
    }
    written = AllSettings.model_validate(
        {"tuning": {"space": {"outcome.reg_param": [0, "1"], "outcome.unobserved_weight": [None, 5]}}}
    )
    assert written.tuning.space == {"outcome.reg_param": (0.0, 1.0), "outcome.unobserved_weight": (None, 5.0)}
    assert AllSettings.model_validate(written.model_dump(mode="json")) == written


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("exposure.rnk=[1]", ["found exposure.rnk", "did you mean exposure.rank?"]),
        ("recommend.top_n=[1]", ["settings of exposure or outcome", "found recommend.top_n"]),
        ("exposure.rank=[5,0]", ["values that exposure.rank takes", "found 0", "greater than or equal to 1"]),
        ("outcome.outcome=[weighty]", ["outcome.outcome", "found 'weighty'", "one of weighted"]),
        ("exposure.rank={low: 1, high: 5}", ["int: true in the range of exposure.rank"]),
        ("exposure.rank={low: 1.5, high: 5, int: true}", ["whole numbers where int is true", "found 1.5 and 5"]),
        ("outcome.reg_param={low: 2, high: 1}", ["low below high", "found 2 and 1"]),
        ("outcome.reg_param={low: -1, high: 1}", ["outcome.reg_param takes", "found -1", "greater than or equal to 0"]),
        ("outcome.reg_param={low: 0, high: 1, log: true}", ["low above 0 where log is true"]),
    ],
)  # fmt: skip
def test_what_a_setting_does_not_take_is_refused_by_name(override: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        space_of(f"tuning.space.{override}")
    message = str(caught.value)
    assert message.startswith("setting tuning.space: expected")
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["tuning.metric=ndgc"], "found 'ndgc', expected ndcg"),
        (["tuning.validation_share=1"], "a number < 1"),
        (["tuning.space.outcome.reg_param={low: 0, high: 1}"], "a grid is made of lists"),
    ],
)
def test_other_settings_of_a_search_are_checked_too(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, overrides)
    assert words in str(caught.value)


@pytest.mark.parametrize("log", [False, True])
def test_a_range_goes_from_end_to_end_and_gives_whole_numbers_equal_parts(log: bool) -> None:
    real, whole = Range(low=1, high=4, log=log), Range(low=1, high=4, log=log, int=True)
    assert (real.at(0.0), real.at(1.0)) == (1.0, 4.0)
    assert real.at(0.5) == pytest.approx(2.0 if log else 2.5)
    drawn = [whole.at(place / 1000) for place in range(1000)]
    assert set(drawn) == {1, 2, 3, 4}
    assert all(isinstance(value, int) for value in drawn)
    assert drawn.count(4) == pytest.approx(139 if log else 250, abs=1)  # log(5 / 4) / log(5)
