"""Reading a configuration: YAML 1.2, layers, values of the environment, and errors that name the setting."""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from dcrec_spark.config.jobs import AllSettings, RetrainConfig
from dcrec_spark.config.load import load_config, read_yaml
from dcrec_spark.errors import ConfigError
from dcrec_spark.settings.tables import PRESETS


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, overrides)
    return str(caught.value)


def test_scalars_are_read_by_yaml_1_2() -> None:
    values: dict[str, object] = {
        "10": 10, "-3": -3, "1e-3": 1e-3, ".5": 0.5, "1.": 1.0, ".inf": float("inf"), "true": True, "null": None,
        "": None, "[1, '2']": [1, "2"],
    }  # fmt: skip
    texts = {text: text for text in ("010", "0x10", "1:30", "yes", "off", "2026-01-31", "1_000")}
    for text, value in (values | texts).items():
        found = read_yaml(text)
        assert (found, type(found)) == (value, type(value)), text


def test_a_number_with_a_leading_zero_is_decimal_and_a_text_keeps_it() -> None:
    config = load_config(AllSettings, None, ["run.seed=010", "input.options.password=010", "input.path=1:30"])
    assert (config.run.seed, config.input.options["password"], config.input.path) == (10, "010", "1:30")


def test_defaults_then_file_then_overrides_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, "exposure: {rank: 20, max_iter: 7}\n")
    config = load_config(AllSettings, file, ["exposure.rank=30", "exposure.rank=40"])
    assert (config.exposure.rank, config.exposure.max_iter) == (40, 7)
    assert config.recommend == AllSettings().recommend


def test_a_preset_is_above_the_defaults_and_below_all_else(tmp_path: Path) -> None:
    file = write(tmp_path, "run: {preset: counts}\noutcome: {reg_param: 3}\n")
    outcome = load_config(AllSettings, file, ["outcome.rank=4"]).outcome
    assert (outcome.outcome, outcome.alpha, outcome.fit_biases) == ("weighted", PRESETS["counts"]["alpha"], False)
    assert (outcome.reg_param, outcome.rank) == (3, 4)
    assert load_config(AllSettings, file, ["run.preset=null"]).outcome.fit_biases is True
    with pytest.raises(ConfigError, match=r"run\.preset.*'stars'.*counts"):
        load_config(AllSettings, None, ["run.preset=stars"])


def test_an_empty_file_and_an_empty_section_set_nothing(tmp_path: Path) -> None:
    assert load_config(AllSettings, write(tmp_path, "")) == load_config(AllSettings)
    assert load_config(AllSettings, write(tmp_path, "exposure:\n  # rank: 3\n")) == load_config(AllSettings)


def test_run_date_is_today_or_as_given() -> None:
    assert load_config(AllSettings, None, ["run.run_date=2026-01-31"]).run.run_date == date(2026, 1, 31)
    assert load_config(AllSettings, None, ["run.run_date=null"]).run.run_date == datetime.now(UTC).date()


def test_dotted_names_of_spark_properties_from_file_and_command_line(tmp_path: Path) -> None:
    file = write(tmp_path, "spark: {conf: {spark.ui.enabled: true, spark.executor.cores: 4}}\n")
    overrides = ["spark.conf.spark.ui.enabled=false", "spark.conf.spark.executor.memory=8g"]
    assert load_config(AllSettings, file, overrides).spark.conf == {
        "spark.ui.enabled": "false",
        "spark.executor.cores": "4",
        "spark.executor.memory": "8g",
    }


def test_values_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/data")
    monkeypatch.setenv("RANK", "7")
    config = load_config(AllSettings, None, ["output.path=${env:WHERE}/${env:RANK}", "outcome.rank=${env:RANK}"])
    assert (config.output.path, config.outcome.rank) == ("/data/7", 7)


def test_configuration_is_immutable() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config(AllSettings).exposure.rank = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("exposure.rnak=3", ["unknown setting exposure.rnak", "did you mean exposure.rank?"]),
        ("top_n=3", ["did you mean recommend.top_n?"]),
        ("qqq=3", ["unknown setting qqq", "conf/base.yaml lists all settings"]),
        ("exposure.rank=ten", ["setting exposure.rank", "found 'ten'", "expected a whole number"]),
        ("exposure.rank=0", ["setting exposure.rank", "found 0", "a number >= 1"]),
        ("exposure.rank=null", ["setting exposure.rank", "found null", "a whole number"]),
        ("exposure.tol=.nan", ["setting exposure.tol", "found nan", "a finite number"]),
        ("exposure=5", ["setting exposure", "found 5", "a section of settings"]),
        ("run.name=../../etc", ["setting run.name", "'../../etc'", "letters, digits"]),
        ("run.run_date=20261120", ["setting run.run_date", "20261120", "YYYY-MM-DD"]),
        ("recommend.extra=fallback", ["setting recommend.extra", "found 'fallback'", "a list such as"]),
        ("recommend.extra=[everything]", ["setting recommend.extra.0", "found 'everything'", "'fallback'"]),
        ("input.path=' '", ["setting input.path", "not blank"]),
        ('output.path="/out\\nput"', ["setting output.path", "without line breaks"]),
        ("input.columns.user=item", ["setting input.columns", "['item'] is named twice"]),
        ("warehouses.other.redis=3", ["setting warehouses.other.redis", "found 3", "names with their values"]),
        ("validation.duplicates=sum", ["setting validation", "kind=counts"]),
        ("validation.duplicates=last", ["input.columns.timestamp"]),
        ("output.path=${env:DCREC_NOT_SET}", ["setting output.path", "variable DCREC_NOT_SET is not set"]),
        ("output.path=${HOME}", ["setting output.path", "expected ${env:VARIABLE}"]),
        ("output.path=${env:HOME", ["setting output.path", "begins no variable"]),
        ("exposure.rank", ["--set 'exposure.rank'", "section.name=value"]),
        ("exposure.rank=[1", ["--set exposure.rank", "YAML"]),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_what_was_found_and_expected(override: str, words: list[str]) -> None:
    message = refusal(override)
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["validation.scale_min=5", "validation.scale_max=1"], "found 5 and 1"),
        (["validation.min_ratings_per_user=5", "validation.max_ratings_per_user=4"], "found 4 and 5"),
        (["warehouses.hive=shop", "warehouses.delta=shop"], "found 'shop' for both"),
        (["recommend.max_per_category=2"], "catalogue set"),
        (["input.format=csv", "input.options.header=maybe"], "options.header one of true, false; found 'maybe'"),
        (["input.format=csv", "input.options.encoding=latin9"], "options.encoding one of utf-8, iso-8859-1, utf-16"),
        (["input.format=csv", "input.options.sep=''"], "options.sep"),
    ],
)
def test_settings_that_contradict_each_other(overrides: list[str], words: str) -> None:
    assert words in refusal(*overrides)


def test_lists_that_depend_on_more_than_the_ratings_are_never_skipped() -> None:
    with pytest.raises(ConfigError, match=r"input\.unchanged run where recommend\.exclude is set"):
        load_config(RetrainConfig, None, ["input.unchanged=skip", "recommend.exclude=blocked.csv"])


def test_all_wrong_settings_are_named_at_once_each_with_its_file(tmp_path: Path) -> None:
    file = write(tmp_path, "exposure: {rank: 0, foo: 1}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, file, ["outcome.rank=0"])
    lines = sorted(str(caught.value).splitlines())
    assert [line.endswith(f"(configuration file {file})") for line in lines] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exposure: [rank: 3", "is not valid YAML"),
        ("- exposure\n- outcome\n", "found a list, expected sections such as 'input:'"),
        ("hello", "found a single value, expected sections such as 'input:'"),
        ("exposure: {rank: 1}\nexposure: {rank: 2}\n", "duplicate key exposure in line 2, column 1"),
        ("exposur:\n", "unknown setting exposur: did you mean exposure?"),
        ("run.seed: 5", "unknown setting run.seed: in a file each section has its own line; write run: {seed: ...}"),
        ("1: {2: 3}", "unknown setting 1: conf/base.yaml lists all settings"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(str(file))) as caught:
        load_config(AllSettings, file)
    assert words in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_config(AllSettings, tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"run: {name: caf\xe9}")
    with pytest.raises(ConfigError, match=r"latin\.yaml: is not UTF-8 text"):
        load_config(AllSettings, tmp_path / "latin.yaml")
