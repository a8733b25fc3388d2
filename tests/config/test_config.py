"""The configuration: defaults, layers, errors that name the setting, and what of it may be written down."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.config import RunConfig, ValidationConfig, config_hash, load_config, mask_secrets, resolved
from dcrec_spark.config.names import known_settings
from dcrec_spark.errors import ConfigError

CONF = Path(__file__).resolve().parents[2] / "conf"
CLUSTER = {
    "DCREC_RATINGS": "lake.shop.ratings",
    "DCREC_CHECKPOINTS": "s3a://b/c",
    "DCREC_OUTPUT": "s3a://b/o",
}


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(RunConfig, None, overrides)
    return str(caught.value)


# ---- defaults and layers


def test_base_yaml_has_every_setting_with_its_default() -> None:
    documented = yaml.safe_load((CONF / "base.yaml").read_text(encoding="utf-8"))
    before, config, after = datetime.now(UTC).date(), RunConfig(), datetime.now(UTC).date()
    defaults = config.model_dump(mode="json")
    assert documented["run"].pop("run_date") is None
    assert before.isoformat() <= defaults["run"].pop("run_date") <= after.isoformat()
    assert documented == defaults


@pytest.mark.parametrize("name", ["base.yaml", "demo.yaml", "cluster.yaml", "tune.yaml"])
def test_every_file_in_conf_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in CLUSTER.items():
        monkeypatch.setenv(variable, value)
    assert load_config(RunConfig, CONF / name) is not None


@pytest.mark.parametrize("name", ["demo.yaml", "cluster.yaml", "tune.yaml"])
def test_other_files_hold_only_what_differs(name: str) -> None:
    defaults = RunConfig().model_dump(mode="json")
    for section, settings in yaml.safe_load((CONF / name).read_text(encoding="utf-8")).items():
        for setting, value in settings.items():
            assert defaults[section][setting] != value, f"{section}.{setting}"


def test_contract_defaults() -> None:
    config = load_config(RunConfig)
    assert (config.exposure.rank, config.exposure.max_iter, config.exposure.tol) == (10, 100, 1e-5)
    assert config.exposure.user_shape_prior == config.exposure.item_rate_prior == 0.3
    outcome = config.outcome
    assert (outcome.rank, outcome.alpha, outcome.max_iter, outcome.tol) == (10, 40.0, 20, 1e-4)
    assert (config.outcome.outcome, config.outcome.adjustment) == ("weighted", "deconfounded")
    assert config.outcome.unobserved_weight is None
    assert (config.engine.exchange, config.engine.checkpoint_interval) == ("auto", 10)


def test_defaults_then_file_then_overrides_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, "exposure: {rank: 20, max_iter: 7}\n")
    config = load_config(RunConfig, file, ["exposure.rank=30", "exposure.rank=40"])
    assert (config.exposure.rank, config.exposure.max_iter, config.exposure.tol) == (40, 7, 1e-5)


def test_an_empty_file_and_an_empty_section_set_nothing(tmp_path: Path) -> None:
    assert load_config(RunConfig, write(tmp_path, "")) == load_config(RunConfig)
    assert load_config(RunConfig, write(tmp_path, "exposure:\n  # rank: 3\n")) == load_config(RunConfig)


def test_run_date_is_today_or_as_given() -> None:
    assert load_config(RunConfig, None, ["run.run_date=2026-01-31"]).run.run_date == date(2026, 1, 31)
    assert load_config(RunConfig, None, ["run.run_date=null"]).run.run_date == datetime.now(UTC).date()


def test_dotted_names_of_spark_properties_from_file_and_command_line(tmp_path: Path) -> None:
    file = write(tmp_path, "spark: {conf: {spark.ui.enabled: true, spark.executor.cores: 4}}\n")
    config = load_config(RunConfig, file, ["spark.conf.spark.ui.enabled=false", "spark.conf.spark.executor.memory=8g"])
    assert config.spark.conf == {
        "spark.ui.enabled": "false",
        "spark.executor.cores": "4",
        "spark.executor.memory": "8g",
    }


def test_values_with_equals_signs_and_addresses() -> None:
    overrides = ["input.options.url=jdbc:postgresql://h/db?ssl=true", "input.path=s3a://b/a=1/*.csv"]
    config = load_config(RunConfig, None, overrides)
    assert config.input.options == {"url": "jdbc:postgresql://h/db?ssl=true"}
    assert config.input.path == "s3a://b/a=1/*.csv"


def test_interpolation_from_the_environment_and_from_another_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", "/data")
    config = load_config(RunConfig, None, ["output.path=${oc.env:WHERE}/${run.name}", "outcome.rank=${exposure.rank}"])
    assert config.output.path == "/data/dcrec"
    assert config.outcome.rank == 10


def test_configuration_does_not_change_after_it_is_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_config(RunConfig).exposure.rank = 3  # type: ignore[misc]


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
        ("exposure.user_shape_prior=0", ["found 0", "a number > 0"]),
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
        ("input.columns.user=item", ["setting input.columns", "['item'] is named twice"]),
        ("input.columns=[a,b]", ["--set input.columns", "a list"]),
        ("spark.conf=3", ["setting spark.conf", "found 3", "names with their values"]),
        ("validation.duplicates=sum", ["setting validation", "kind=counts"]),
        ("validation.duplicates=last", ["input.columns.timestamp"]),
        ("exposure.kind=count", ["input.columns.count", "validation.kind=counts"]),
        ("output.path=${oc.env:DCREC_NOT_SET}", ["output.path", "variable DCREC_NOT_SET is not set"]),
        ("output.path=${no.such}", ["setting output.path", "no.such"]),
        ("exposure.rank", ["--set 'exposure.rank'", "section.name=value"]),
        ("=3", ["section.name=value"]),
        ("exposure.rank=[1", ["--set exposure.rank", "YAML"]),
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
    assert load_config(RunConfig, None, ["input.format=movielens", "validation.duplicates=last"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exposure: [rank: 3", "is not valid YAML"),
        ("- exposure\n- outcome\n", "found a list"),
        ("exposure: {rank: 1}\nexposure: {rank: 2}\n", "duplicate key"),
    ],
)
def test_a_file_that_cannot_be_understood(tmp_path: Path, text: str, words: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_config(RunConfig, file)
    assert str(file) in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_config(RunConfig, tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(RunConfig, tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"run: {name: caf\xe9}")
    with pytest.raises(ConfigError, match=r"latin\.yaml"):
        load_config(RunConfig, tmp_path / "latin.yaml")


def test_known_settings_are_dotted_names_without_sections() -> None:
    known = known_settings()
    assert {"run.seed", "input.columns.user", "spark.conf", "output.path"} <= set(known)
    assert "input.columns" not in known


# ---- what is recorded


def test_secrets_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "hunter1")
    config = load_config(
        RunConfig,
        None,
        [
            "input.options.custom=${oc.env:SECRET_IN_ENV}",
            "input.options.password=hunter2",
            "input.options.url=jdbc:postgresql://me:hunter3@h/db?user=a&password=hunter4&ssl=true",
            "spark.conf.spark.hadoop.fs.s3a.secret.key=hunter5",
            "spark.conf.spark.driver.extraJavaOptions=-Djavax.net.ssl.trustStorePassword=hunter6 -Dx=1",
            "input.path=https://h/x?sas_token=hunter7",
        ],
    )
    assert config.input.options["custom"] == "hunter1"
    recorded = resolved(config)
    assert "hunter" not in json.dumps(recorded)
    assert recorded["input"]["options"]["custom"] == "${oc.env:SECRET_IN_ENV}"
    assert recorded["input"]["options"]["url"] == "jdbc:postgresql://me:***@h/db?user=a&password=***&ssl=true"
    assert recorded["spark"]["conf"]["spark.driver.extraJavaOptions"].endswith("=*** -Dx=1")


def test_secrets_are_not_in_error_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "hunter1")
    assert "hunter" not in refusal("input.options.password=[hunter2]")
    assert "hunter" not in refusal("exposure.rank=${oc.env:SECRET_IN_ENV}")
    assert "hunter" not in refusal("exposure.rank='jdbc:x://u:hunter3@h'")


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=1),
    st.sampled_from(["password", "pwd", "apiKey", "x_token"]),
)
def test_masking_leaves_nothing_of_a_password(secret: str, name: str) -> None:
    marked = f"<{secret}>"
    assert marked not in mask_secrets(f"https://user:{marked}@host/?{name}={marked}&a=b")


def test_resolved_is_plain_json() -> None:
    recorded = json.loads(json.dumps(resolved(load_config(RunConfig, None, ["run.run_date=2026-01-31"]))))
    assert recorded["run"] == {"name": "dcrec", "run_date": "2026-01-31", "seed": 42}
    assert list(recorded) == list(RunConfig.model_fields)


@pytest.mark.parametrize(
    "override",
    [
        "run.name=other",
        "run.run_date=2020-01-01",
        "spark.master=local[7]",
        "spark.conf.a.b=1",
        "input.path=/elsewhere",
        "input.options.password=hunter2",
        "input.options.url=jdbc:x",
        "engine.num_user_blocks=7",
        "model.path=/elsewhere",
        "model.warm_start=previous",
        "recommend.users=/elsewhere",
        "evaluation.test_path=/elsewhere",
        "tuning.side_by_side=false",
        "output.path=/elsewhere",
    ],
)
def test_hash_is_blind_to_what_cannot_change_the_answer(override: str) -> None:
    assert config_hash(load_config(RunConfig, None, [override])) == config_hash(load_config(RunConfig))


@pytest.mark.parametrize(
    "override",
    [
        "run.seed=1",
        "input.format=csv",
        "input.columns.user=u",
        "input.options.quote=x",
        "validation.scale_max=5",
        "exposure.rank=11",
        "outcome.alpha=41",
        "engine.precision=float32",
        "recommend.top_n=11",
    ],
)
def test_hash_sees_what_can_change_the_answer(override: str) -> None:
    assert config_hash(load_config(RunConfig, None, [override])) != config_hash(load_config(RunConfig))


def test_hash_ignores_how_a_value_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "20")
    written = ["20", "'20'", "20.0", "${oc.env:RANK}"]
    hashes = {config_hash(load_config(RunConfig, None, [f"exposure.rank={text}"])) for text in written}
    assert hashes == {config_hash(load_config(RunConfig, write(tmp_path, "exposure: {rank: 20}\n")))}
    assert len(hashes.pop()) == 64


def test_sections_can_be_used_alone() -> None:
    assert ValidationConfig() == load_config(RunConfig).validation
