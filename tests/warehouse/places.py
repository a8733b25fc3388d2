"""The catalogs of the tests' session, and the warehouses in them."""

import os
from pathlib import Path

from dcrec_spark.spark.jars import Jar, listed_jars
from tests.spark.standalone import QUICK_PLANS, ROOT

# Servers of tests, in processes of their own.
SERVERS = {"minicluster", "rest-server"}
JARS = Path(os.environ.get("DCREC_JARS") or ROOT / ".venv" / "jars").resolve()


def archives_of(purpose: str, name: str = "") -> list[Path]:
    return _present([jar for jar in listed_jars() if jar.purpose == purpose and jar.artifact.startswith(name)])


def _present(jars: list[Jar]) -> list[Path]:
    archives = [JARS / jar.file_name for jar in jars]
    missing = [path.name for path in archives if not path.is_file()]
    assert not missing, f"{JARS} lacks {missing}: run make jars"
    return archives


def session_settings(scratch: Path) -> dict[str, str]:
    archives = _present([jar for jar in listed_jars() if jar.purpose not in SERVERS])
    lake, sea, java_options = "spark.sql.catalog.lake", "spark.sql.catalog.sea", "spark.driver.extraJavaOptions"
    return {
        **QUICK_PLANS,
        "spark.jars": ",".join(map(str, archives)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={scratch}/metastore;create=true",
        "spark.sql.warehouse.dir": f"{scratch}/spark-warehouse",
        **dict.fromkeys((lake, sea), "org.apache.iceberg.spark.SparkCatalog"),
        **{f"{lake}.type": "hadoop", f"{lake}.warehouse": f"{scratch}/lake"},
        **{f"{sea}.type": "jdbc", f"{sea}.warehouse": f"{scratch}/sea", f"{sea}.jdbc.schema-version": "V1"},
        f"{sea}.uri": f"jdbc:sqlite:{scratch}/sea.sqlite",
        "spark.databricks.delta.snapshotPartitions": "1",
        java_options: f"{QUICK_PLANS[java_options]} -Dderby.system.home={scratch}",
        "spark.executorEnv.PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/examples/redis_sink",
    }
