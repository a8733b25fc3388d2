"""What of a configuration is written down, and what of it decides the answer."""

import json
from pathlib import Path

import pytest

from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.load import config_hash, load_config, resolved


def test_secrets_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "hunter1")
    config = load_config(
        AllSettings,
        None,
        [
            "input.options.custom=${env:SECRET_IN_ENV}",
            "input.options.password=hunter2",
            "input.options.url=jdbc:postgresql://me:hunter3@h/db?user=a&password=hunter4&ssl=true",
            "spark.conf.spark.hadoop.fs.s3a.secret.key=hunter5",
            "spark.conf.spark.driver.extraJavaOptions=-Djavax.net.ssl.trustStorePassword=hunter6 -Dx=1",
            "input.path=https://h/x?sas_token=hunter7",
            "warehouses.other.redis={url: 'redis://:hunter8@h', password: hunter9}",
        ],
    )
    assert config.input.options["custom"] == "hunter1"
    recorded = resolved(config)
    assert "hunter" not in json.dumps(recorded)
    assert recorded["input"]["options"]["custom"] == "${env:SECRET_IN_ENV}"
    assert recorded["input"]["options"]["url"] == "jdbc:postgresql://me:***@h/db?user=a&password=***&ssl=true"
    assert recorded["warehouses"]["other"] == {"redis": {"url": "redis://:***@h", "password": "***"}}
    assert recorded["spark"]["conf"]["spark.driver.extraJavaOptions"].endswith("=*** -Dx=1")


def test_resolved_is_plain_json() -> None:
    recorded = json.loads(json.dumps(resolved(load_config(AllSettings, None, ["run.run_date=2026-01-31"]))))
    assert (recorded["run"]["name"], recorded["run"]["run_date"]) == ("dcrec", "2026-01-31")
    assert list(recorded) == list(AllSettings.model_fields)


BLIND = (
    *("run.name=other", "run.run_date=2020-01-01", "spark.master=local[7]", "input.path=/x", "engine.num_blocks=7"),
    *("input.options.password=hunter2", "input.options.url=jdbc:x", "model.path=/x", "recommend.users=/x"),
    *("evaluation.test_path=/x", "warehouses.hive=x", "audit.max_churn=0.5", "output.path=/x"),
)
DECIDING = (
    *("run.seed=1", "input.format=csv", "input.columns.user=u", "input.options.quote=x", "validation.scale_max=5"),
    *("exposure.rank=11", "engine.precision=float32", "recommend.top_n=11"),
)


def test_the_hash_is_of_the_settings_that_can_change_the_result() -> None:
    default = config_hash(load_config(AllSettings))
    same = {override: config_hash(load_config(AllSettings, None, [override])) for override in (*BLIND, *DECIDING)}
    assert [override for override, found in same.items() if found == default] == list(BLIND)


def test_hash_ignores_how_a_value_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "20")
    written = ["20", "'20'", "20.0", "${env:RANK}"]
    hashes = {config_hash(load_config(AllSettings, None, [f"exposure.rank={text}"])) for text in written}
    file = tmp_path / "mine.yaml"
    file.write_text("exposure: {rank: 20}\n", encoding="utf-8")
    assert hashes == {config_hash(load_config(AllSettings, file))}
    assert len(hashes.pop()) == 64
