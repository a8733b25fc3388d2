"""Reading a configuration: YAML 1.2, layers, values of the environment, spaces; errors that name the setting."""

import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dcrec_spark.config.jobs import (
    JOB_CONFIGS,
    AllSettings,
    FoldInConfig,
    RecommendJobConfig,
    RetrainConfig,
    TuneConfig,
    known_settings,
)
from dcrec_spark.config.load import config_hash, load_config, read_yaml
from dcrec_spark.config.sections import JobConfig
from dcrec_spark.config.space import Range
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
    config = load_config(AllSettings, None, ["run.seed=010", "input.options.password=010", "input.path=1:30"])
    assert (config.run.seed, config.input.options["password"], config.input.path) == (10, "010", "1:30")


def test_defaults_then_file_then_overrides_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, "exposure: {rank: 20, max_iter: 7}\n")
    config = load_config(AllSettings, file, ["exposure.rank=30", "exposure.rank=40"])
    assert (config.exposure.rank, config.exposure.max_iter) == (40, 7)
    assert config.recommend == AllSettings().recommend
    for empty in ("", "exposure:\n  # rank: 3\n"):
        assert load_config(AllSettings, write(tmp_path, empty)) == load_config(AllSettings)


def test_a_preset_is_above_the_defaults_and_below_all_else(tmp_path: Path) -> None:
    file = write(tmp_path, "run: {preset: counts}\noutcome: {reg_param: 3}\n")
    outcome = load_config(AllSettings, file, ["outcome.rank=4"]).outcome
    assert (outcome.outcome, outcome.alpha, outcome.fit_biases) == ("weighted", PRESETS["counts"]["alpha"], False)
    assert (outcome.reg_param, outcome.rank) == (3, 4)
    assert load_config(AllSettings, file, ["run.preset=null"]).outcome.fit_biases is True
    with pytest.raises(ConfigError, match=r"run\.preset.*'stars'.*counts"):
        load_config(AllSettings, None, ["run.preset=stars"])


def test_dotted_names_of_spark_properties_from_file_and_command_line(tmp_path: Path) -> None:
    file = write(tmp_path, "spark: {conf: {spark.ui.enabled: true, spark.executor.cores: 4}}\n")
    overrides = ["spark.conf.spark.ui.enabled=false", "spark.conf.spark.executor.memory=8g"]
    expected = {"ui.enabled": "false", "executor.cores": "4", "executor.memory": "8g"}
    found = load_config(AllSettings, file, overrides).spark.conf
    assert found == {f"spark.{name}": value for name, value in expected.items()}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("exposure.rnak=3", ["unknown setting exposure.rnak", "did you mean exposure.rank?"]),
        ("top_n=3", ["did you mean recommend.top_n?"]),
        ("exposure.rank=ten", ["setting exposure.rank", "found 'ten'", "expected a whole number"]),
        ("exposure.rank=0", ["setting exposure.rank", "found 0", "a number >= 1"]),
        ("exposure=5", ["setting exposure", "found 5", "a section of settings"]),
        ("run.name=../../etc", ["setting run.name", "'../../etc'", "letters, digits"]),
        ("run.run_date=20261120", ["setting run.run_date", "20261120", "YYYY-MM-DD"]),
        ("recommend.extra=fallback", ["setting recommend.extra", "found 'fallback'", "a list such as"]),
        ("tuning.metric=ndgc", ["found 'ndgc', expected ndcg"]),
        ("tuning.space.outcome.reg_param={low: 0, high: 1}", ["trials set for the range of outcome.reg_param"]),
        ("recommend.extra=[everything]", ["setting recommend.extra.0", "found 'everything'", "'fallback'"]),
        ("input.path=' '", ["setting input.path", "not blank"]),
        ("input.path=/caf\udce9", ["--set 'input.path': it is not UTF-8 text"]),
        (f"input.path={'[' * 3000}", ["--set 'input.path': its lists or sections are nested too deep"]),
        ("outcome.rank=???", ["setting outcome.rank: found '???', expected a whole number"]),
        ("outcome.rank=1:30", ["setting outcome.rank: found '1:30', expected a whole number"]),
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
        ("recommend.max_per_category=2", ["catalogue set"]),
        ("validation.scale_min=5 validation.scale_max=1", ["found 5 and 1"]),
        ("validation.min_ratings_per_user=5 validation.max_ratings_per_user=4", ["found 4 and 5"]),
        ("warehouses.hive=shop warehouses.delta=shop", ["found 'shop' for both"]),
        ("input.format=csv input.options.header=maybe", ["options.header one of true, false; found 'maybe'"]),
        ("input.format=csv input.options.encoding=latin9", ["options.encoding one of utf-8, iso-8859-1, utf-16"]),
        ("input.format=csv input.options.sep=''", ["options.sep"]),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_what_was_found_and_expected(override: str, words: list[str]) -> None:
    message = refusal(*re.split(" (?=[a-z]+[.])", override))
    assert [word for word in words if word not in message] == [], message


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
        (f"run: {{seed: {'9' * 5000}}}", "is not valid YAML: a number has more digits than any setting takes"),
        (f"run: {'[' * 3000}{']' * 3000}", "is not valid YAML: its lists or sections are nested too deep"),
        ("run.seed: 5", "unknown setting run.seed: in a file each section has its own line; write run: {seed: ...}"),
        ("1: {2: 3}", "unknown setting 1: conf/base.yaml lists all settings"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(str(file))) as caught:
        load_config(AllSettings, file)
    assert words in str(caught.value)


def test_names_are_dotted_from_the_command_line_and_from_a_file() -> None:
    space = ["tuning.space.exposure.rank=[5,10]", "tuning.space.outcome.rank={low: 2, high: 9, int: true}"]
    found = load_config(AllSettings, None, ["tuning.trials=30", *space]).tuning.space
    assert found == {"exposure.rank": (5, 10), "outcome.rank": Range(low=2, high=9, int=True)}
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
    message = refusal("tuning.trials=30", f"tuning.space.{override}")
    assert message.startswith("setting tuning.space: expected")
    assert all(word in message for word in words), message


@pytest.mark.parametrize("log", [False, True])
def test_a_range_goes_from_end_to_end_and_gives_whole_numbers_equal_parts(log: bool) -> None:
    real, whole = Range(low=1, high=4, log=log), Range(low=1, high=4, log=log, int=True)
    assert (real.at(0.0), real.at(1.0)) == (1.0, 4.0)
    assert real.at(0.5) == pytest.approx(2.0 if log else 2.5)
    drawn = [whole.at(place / 1000) for place in range(1000)]
    assert set(drawn) == {1, 2, 3, 4}
    assert all(isinstance(value, int) for value in drawn)
    assert drawn.count(4) == pytest.approx(139 if log else 250, abs=1)  # log(5 / 4) / log(5)


SHARED_FILE = """
input: {path: ratings.parquet}
outcome: {rank: 7}
tuning: {trials: 5, metric: "${env:DCREC_NOT_SET}"}
model: {path: saved, warm_start: previous}
"""


def test_the_reference_holds_the_settings_of_all_jobs_and_no_others() -> None:
    of_jobs = {name for kind in JOB_CONFIGS for name in known_settings(kind)}
    assert set(known_settings(AllSettings)) == of_jobs


def test_a_setting_has_the_same_type_and_default_in_all_jobs_that_have_it() -> None:
    reference = AllSettings(run={"run_date": "2026-01-31"}).model_dump()  # type: ignore[arg-type]
    for kind in JOB_CONFIGS:
        for section, values in kind(run={"run_date": "2026-01-31"}).model_dump().items():  # type: ignore[arg-type]
            assert values.items() <= reference[section].items(), (kind, section)


def test_jobs_share_a_file_and_each_takes_its_own_settings(tmp_path: Path) -> None:
    """A variable that only another job's setting needs may be missing from the environment."""
    file = write(tmp_path, SHARED_FILE)
    with capture_logs() as logged:
        config = load_config(RetrainConfig, file)
    assert (config.input.path, config.outcome.rank, config.model.warm_start) == ("ratings.parquet", 7, "previous")
    assert load_config(FoldInConfig, file).model.path == "saved"
    assert [entry["settings"] for entry in logged] == [["tuning.trials", "tuning.metric", "model.path"]]
    assert config_hash(config) == config_hash(load_config(RetrainConfig, None, ["outcome.rank=7"]))


@pytest.mark.parametrize(
    ("kind", "override", "jobs"),
    [
        (RetrainConfig, "tuning.trials=3", "tune"),
        (RetrainConfig, "model.path=saved", "recommend, fold_in and evaluate"),
        (FoldInConfig, "recommend.users=some.csv", "recommend"),
        (RecommendJobConfig, "audit.max_loss=1", "retrain"),
        (TuneConfig, "recommend={top_n: 3}", "retrain, recommend, "),
    ],
)
def test_the_command_line_names_settings_of_its_own_job_only(kind: type[JobConfig], override: str, jobs: str) -> None:
    name = override.split("=")[0]
    with pytest.raises(ConfigError, match=rf"^unknown setting for the job {kind.job}: {name}.* is a setting of {jobs}"):
        load_config(kind, None, [override])


def test_lists_that_depend_on_more_than_the_ratings_are_never_skipped() -> None:
    with pytest.raises(ConfigError, match=r"input\.unchanged run where recommend\.exclude is set"):
        load_config(RetrainConfig, None, ["input.unchanged=skip", "recommend.exclude=blocked.csv"])
