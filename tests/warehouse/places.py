"""The catalogs of the tests' session, and the warehouses in them."""

import os
from pathlib import Path

from dcrec_spark.spark.jars import listed_jars

ROOT = Path(__file__).resolve().parents[2]
# Servers of tests, in processes of their own.
SERVERS = {"minicluster", "rest-server"}
JARS = Path(os.environ.get("DCREC_JARS") or ROOT / ".venv" / "jars").resolve()


def archives_of(purpose: str, name: str = "") -> list[Path]:
    listed = [jar for jar in listed_jars() if jar.purpose == purpose and jar.artifact.startswith(name)]
    archives = [JARS / jar.file_name for jar in listed]
    missing = [path.name for path in archives if not path.is_file()]
    assert not missing, f"{JARS} lacks {missing}: run make jars"
    return archives


def session_settings(scratch: Path) -> dict[str, str]:
    paths = [JARS / jar.file_name for jar in listed_jars() if jar.purpose not in SERVERS]
    missing = [path.name for path in paths if not path.is_file()]
    assert not missing, f"{JARS} lacks {missing}: run make jars"
    derby = f"jdbc:derby:;databaseName={scratch}/metastore;create=true"
    iceberg = "org.apache.iceberg.spark.SparkCatalog"
    return {
        "spark.jars": ",".join(map(str, paths)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        "spark.sql.warehouse.dir": f"{scratch}/spark-warehouse",
        "spark.sql.catalog.lake": iceberg,
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": f"{scratch}/lake",
        "spark.sql.catalog.sea": iceberg,
        "spark.sql.catalog.sea.type": "jdbc",
        "spark.sql.catalog.sea.uri": f"jdbc:sqlite:{scratch}/sea.sqlite",
        "spark.sql.catalog.sea.jdbc.schema-version": "V1",
        "spark.sql.catalog.sea.warehouse": f"{scratch}/sea",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m "
        f"-Dderby.system.home={scratch}",
        "spark.executorEnv.PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/examples/redis_sink",
    }
