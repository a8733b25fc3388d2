"""Reading a configuration: defaults, file, overrides, and errors that name the setting."""

import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from dcrec_spark import DeconfoundedMF
from dcrec_spark.config import AllSettings, ValidationConfig, load_config
from dcrec_spark.config.names import known_settings
from dcrec_spark.errors import ConfigError
from dcrec_spark.settings.tables import PRESETS, camel_case


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, overrides)
    return str(caught.value)


# ---- defaults and layers


def test_contract_defaults() -> None:
    config = load_config(AllSettings)
    assert (config.exposure.rank, config.exposure.max_iter, config.exposure.tol) == (5, 300, 1e-5)
    outcome = config.outcome
    assert (outcome.rank, outcome.alpha, outcome.max_iter, outcome.tol) == (10, 1.0, 20, 1e-4)
    assert (config.outcome.outcome, config.outcome.adjustment) == ("probabilistic", "deconfounded")
    assert config.outcome.unobserved_weight is None
    assert (config.engine.exchange, config.engine.checkpoint_interval) == ("auto", 10)


def test_defaults_then_file_then_overrides_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, "exposure: {rank: 20, max_iter: 7}\n")
    config = load_config(AllSettings, file, ["exposure.rank=30", "exposure.rank=40"])
    assert (config.exposure.rank, config.exposure.max_iter, config.exposure.tol) == (40, 7, 1e-5)


def test_a_preset_is_above_the_defaults_and_below_all_else(tmp_path: Path) -> None:
    file = write(tmp_path, "run: {preset: counts}\noutcome: {reg_param: 3}\n")
    outcome = load_config(AllSettings, file, ["outcome.rank=4"]).outcome
    assert (outcome.outcome, outcome.alpha, outcome.fit_biases) == ("weighted", 40.0, False)
    assert (outcome.reg_param, outcome.rank) == (3, 4)
    assert load_config(AllSettings, file, ["run.preset=null"]).outcome.fit_biases is True


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"run\.preset.*'stars'.*counts"):
        load_config(AllSettings, None, ["run.preset=stars"])
    with pytest.raises(ConfigError, match="NOT_SET"):
        load_config(AllSettings, None, ["run.preset=${oc.env:NOT_SET}"])


def test_a_preset_is_the_same_for_jobs_and_in_python() -> None:
    config, estimator = load_config(AllSettings, None, ["run.preset=counts"]), DeconfoundedMF.forCounts()
    for name, value in PRESETS["counts"].items():
        assert estimator.getOrDefault(camel_case(name)) == getattr(config.outcome, name) == value


def test_an_empty_file_and_an_empty_section_set_nothing(tmp_path: Path) -> None:
    assert load_config(AllSettings, write(tmp_path, "")) == load_config(AllSettings)
    assert load_config(AllSettings, write(tmp_path, "exposure:\n  # rank: 3\n")) == load_config(AllSettings)


def test_run_date_is_today_or_as_given() -> None:
    assert load_config(AllSettings, None, ["run.run_date=2026-01-31"]).run.run_date == date(2026, 1, 31)
    assert load_config(AllSettings, None, ["run.run_date=null"]).run.run_date == datetime.now(UTC).date()


def test_dotted_names_of_spark_properties_from_file_and_command_line(tmp_path: Path) -> None:
    file = write(tmp_path, "spark: {conf: {spark.ui.enabled: true, spark.executor.cores: 4}}\n")
    overrides = ["spark.conf.spark.ui.enabled=false", "spark.conf.spark.executor.memory=8g"]
    config = load_config(AllSettings, file, overrides)
    assert config.spark.conf == {
        "spark.ui.enabled": "false",
        "spark.executor.cores": "4",
        "spark.executor.memory": "8g",
    }


def test_values_with_equals_signs_and_addresses() -> None:
    overrides = ["input.options.url=jdbc:postgresql://h/db?ssl=true", "input.path=s3a://b/a=1/*.csv"]
    config = load_config(AllSettings, None, overrides)
    assert config.input.options == {"url": "jdbc:postgresql://h/db?ssl=true"}
    assert config.input.path == "s3a://b/a=1/*.csv"


def test_interpolation_from_the_environment_and_from_another_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/data")
    overrides = ["output.path=${oc.env:WHERE}/${run.name}", "outcome.rank=${exposure.rank}"]
    config = load_config(AllSettings, None, overrides)
    assert config.output.path == "/data/dcrec"
    assert config.outcome.rank == 10


def test_configuration_does_not_change_after_it_is_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config(AllSettings).exposure.rank = 3  # type: ignore[misc]


# ---- refusals


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("exposure.rnak=3", ["unknown setting exposure.rnak", "did you mean exposure.rank?"]),
        ("exposure.maxIter=3", ["did you mean exposure.max_iter?"]),
        ("exposur.rank=3", ["unknown setting exposur", "did you mean exposure?"]),
        ("rank=3", ["did you mean exposure.rank or outcome.rank?"]),
        ("input.columns.usr=u", ["unknown setting input.columns.usr", "input.columns.user"]),
        ("qqq=3", ["unknown setting qqq", "conf/base.yaml lists all settings"]),
        ("exposure.rank=ten", ["setting exposure.rank", "found 'ten'", "expected a whole number"]),
        ("exposure.rank=10.5", ["setting exposure.rank", "found 10.5", "a whole number"]),
        ("exposure.rank=0", ["setting exposure.rank", "found 0", "a number >= 1"]),
        ("exposure.rank=true", ["setting exposure.rank", "found True", "not true or false"]),
        ("exposure.rank=null", ["setting exposure.rank", "found null", "a whole number"]),
        ("exposure.tol=.nan", ["setting exposure.tol", "found nan", "a finite number"]),
        ("exposure=5", ["setting exposure", "found 5", "a section of settings"]),
        ("run.seed=-1", ["setting run.seed", "found -1", "a number >= 0"]),
        ("run.name=../../etc", ["setting run.name", "'../../etc'", "letters, digits"]),
        ("run.run_date=20261120", ["setting run.run_date", "20261120", "YYYY-MM-DD"]),
        ("run.run_date=2026-13-01", ["setting run.run_date", "YYYY-MM-DD"]),
        ("evaluation.cuts=5", ["setting evaluation.cuts", "found 5", "a list such as [5, 10]"]),
        ("evaluation.cuts=[]", ["setting evaluation.cuts", "found []", "a list with a value or more"]),
        ("evaluation.cuts=[0]", ["setting evaluation.cuts.0", "found 0", "a number >= 1"]),
        ("outcome.adjustment=ipv", ["found 'ipv'", "'deconfounded', 'none' or 'ipw'"]),
        ("validation.max_reject_share=5", ["found 5", "<= 1"]),
        ("input.header=maybe", ["found 'maybe'", "true or false"]),
        ("input.path=' '", ["setting input.path", "not blank"]),
        ('output.path="/out\\nput"', ["setting output.path", "'/out\\nput'", "without line breaks"]),
        ("input.columns.user=item", ["setting input.columns", "['item'] is named twice"]),
        ("input.columns=[a,b]", ["--set input.columns", "a list"]),
        ("spark.conf=3", ["setting spark.conf", "found 3", "names with their values"]),
        ("validation.duplicates=sum", ["setting validation", "kind=counts"]),
        ("validation.duplicates=last", ["input.columns.timestamp"]),
        ("output.path=${oc.env:DCREC_NOT_SET}", ["output.path", "variable DCREC_NOT_SET is not set"]),
        ("output.path=${no.such}", ["setting output.path", "no.such"]),
        ("exposure.rank", ["--set 'exposure.rank'", "section.name=value"]),
        ("=3", ["section.name=value"]),
        ("exposure.rank=[1", ["--set exposure.rank", "YAML"]),
        ("output.path=${oc.env:HOME", ["--set output.path", "found a ${ whose end or content cannot be read"]),
        ("exposure.rank.more=3", ["setting exposure.rank", "a whole number"]),
        ("exposure.rank=4097", ["found 4097", "a number <= 4096"]),
        ("outcome.alpha=1e300", ["setting outcome.alpha", "found 1e+300", "a number <= 1e6"]),
        ("outcome.outcome=ratings", ["found 'ratings'", "one of weighted, probabilistic, poisson"]),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_what_was_found_and_expected(override: str, words: list[str]) -> None:
    message = refusal(override)
    assert all(word in message for word in words), message


def test_all_wrong_settings_are_told_at_once() -> None:
    assert len(refusal("exposure.rank=0", "outcome.rank=0", "exposure.foo=1").splitlines()) == 3


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["validation.scale_min=5", "validation.scale_max=1"], "found 5 and 1"),
        (["validation.min_ratings_per_user=5", "validation.max_ratings_per_user=4"], "found 4 and 5"),
    ],
)
def test_settings_that_contradict_each_other(overrides: list[str], words: str) -> None:
    assert words in refusal(*overrides)


def test_movielens_brings_its_own_timestamps() -> None:
    assert load_config(AllSettings, None, ["input.format=movielens", "validation.duplicates=last"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exposure: [rank: 3", "is not valid YAML"),
        ("- exposure\n- outcome\n", "found a list, expected sections such as 'input:'"),
        ("hello", "found a single value, expected sections such as 'input:'"),
        ("5", "found a single value"),
        ("true", "found a single value"),
        ("exposure: {rank: 1}\nexposure: {rank: 2}\n", "duplicate key"),
        ("run: {run_date: 2026-13-01}", "setting run.run_date: found '2026-13-01', expected a date"),
        ("exposur:\n", "unknown setting exposur: did you mean exposure?"),
        ("run.seed: 5", "unknown setting run.seed: in a file each section has its own line; write run: {seed: ...}"),
        ("run.sead: 5", "unknown setting run.sead: did you mean run.seed?"),
        ("1: {2: 3}", "unknown setting 1: conf/base.yaml lists all settings"),
        ("output: {path: '${oc.env:HOME'}", "setting output.path: found a ${ whose end or content cannot be read"),
        ("output: {path: '${oc.env:}'}", "setting output.path"),
        ("exposure: ${outcome}", "unknown setting exposure.outcome"),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, file)
    assert words in str(caught.value)


def test_an_error_in_the_text_of_a_file_names_the_file(tmp_path: Path) -> None:
    for text in ("exposure: [rank: 3", "hello", "output: {path: '${oc.env:HOME'}"):
        file = write(tmp_path, text)
        with pytest.raises(ConfigError, match=re.escape(f"configuration file {file}: ")):
            load_config(AllSettings, file)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_config(AllSettings, tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(AllSettings, tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"run: {name: caf\xe9}")
    with pytest.raises(ConfigError, match=r"latin\.yaml: is not UTF-8 text"):
        load_config(AllSettings, tmp_path / "latin.yaml")


def test_secrets_are_not_in_error_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "hunter1")
    assert "hunter" not in refusal("input.options.password=[hunter2]")
    assert "hunter" not in refusal("exposure.rank=${oc.env:SECRET_IN_ENV}")
    assert "hunter" not in refusal("exposure.rank='jdbc:x://u:hunter3@h'")


def test_known_settings_are_dotted_names_without_sections() -> None:
    known = known_settings()
    assert {"run.seed", "input.columns.user", "spark.conf", "output.path"} <= set(known)
    assert "input.columns" not in known


def test_sections_can_be_used_alone() -> None:
    assert ValidationConfig() == load_config(AllSettings).validation
