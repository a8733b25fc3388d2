"""What is wrong with an environment is said line by line, with the cure, and nothing is written."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.errors import ConfigError, DcrecError
from dcrec_spark.jobs import doctor
from dcrec_spark.jobs.doctor import Finding, examine, require_health, table_of


def found(settings: dict[str, object]) -> dict[str, Finding]:
    config = load_config(RetrainConfig, None, [f"{name}={value}" for name, value in settings.items()])
    return {finding.subject: finding for finding in examine(config)}


def test_a_sound_environment_is_called_so_and_nothing_is_written(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "ratings.csv"
    source.write_text("user,item,rating\na,b,3\n", encoding="utf-8")
    findings = found({"input.format": "csv", "input.path": source, "output.path": tmp_path / "tables"})

    assert {finding.state for finding in findings.values()} <= {"good", "open"}
    assert findings["Java"].text.startswith(("17 at", "21 at"))
    assert findings["Spark"].text == f"{spark.version} on local[2]"
    assert findings["Python workers"].state == "good"
    assert findings["input"].text == f"{source} opens as csv"
    assert "can be written to" in findings["output"].text
    assert "MB free" in findings["output"].text
    assert findings["checkpoints"].state == "good"  # the tests' session has a directory
    require_health(list(findings.values()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratings.csv"]


def test_every_fault_is_told_with_its_setting_not_the_first_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    findings = found({"input.path": tmp_path / "none.parquet", "output.path": tmp_path / "file"})

    assert findings["input"].state == "bad"
    assert "none.parquet" in findings["input"].text
    assert findings["output"].state == "bad"
    assert "output.path" in findings["output"].text
    foreign = found({"spark.conf": '{"spark.jars": "jars/iceberg-spark-runtime-3.3_2.12-1.8.1.jar"}'})["Spark"]
    assert foreign.state == "bad"
    assert f"is built for Spark 3.3, and this is Spark {spark.version}" in foreign.text
    left_open = found({})
    assert left_open["input"] == Finding("input", "open", "neither input.path nor input.table is set")
    assert left_open["output"].state == "open"
    with pytest.raises(ConfigError, match="input, output"):
        require_health(list(findings.values()))
    assert table_of(list(findings.values())).row_count == len(findings)


def test_without_java_what_needs_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise DcrecError("Spark needs Java 17 or 21, and none was found")

    monkeypatch.setattr(doctor, "ensure_java", none)
    findings = found({})
    assert findings["Java"].state == "bad"
    assert {findings[name].text for name in ("Spark", "Python workers", "input", "output")} == {"needs Java"}


@pytest.mark.usefixtures("spark")
def test_each_warehouse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_sinks", lambda *_: None)
    output = found({"output.path": tmp_path, "warehouses.iceberg": "lake.shop"})["output"]
    assert output.text.startswith(f"{tmp_path}, warehouses.iceberg can be written to, ")
