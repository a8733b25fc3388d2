"""Addresses of PostgreSQL servers, and their passwords."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, DcrecError
from dcrec_spark.publish.postgresql import PostgresqlWarehouse
from dcrec_spark.publish.server import Server

URL = "jdbc:postgresql://[::1]:5432/shop?sslmode=require"


@pytest.mark.parametrize(
    "url",
    ["postgresql://h/db", "jdbc:postgresql://bob:hunter2@h/db", f"{URL}&password=hunter2", "jdbc:mysql://h/hunter2"],
)
def test_an_address_of_another_form_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError, match=r"warehouses\.postgresql\.url: expected jdbc:postgresql://") as refusal:
        Server.open(url, None, None, "warehouses.postgresql")
    assert "hunter2" not in str(refusal.value)


def test_executors_and_driver_get_the_same_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_text("first line\nsecond\n")
    monkeypatch.setenv("PGPASSWORD", "from outside")
    server = Server.open(URL, "bob", str(file), "w")
    assert server.jdbc() == {"url": URL, "user": "bob", "password": "first line", "driver": "org.postgresql.Driver"}
    assert "first line" not in repr(server)
    assert server.without_secret("it is first line.") == "it is ***."
    assert Server.open(URL, None, None, "w").jdbc()["password"] == "from outside"
    monkeypatch.delenv("PGPASSWORD")
    assert Server.open(URL, None, None, "w").jdbc().keys() == {"url", "driver"}
    for content, message in (("\nx", "the first line of .* is empty"), (None, "cannot be read")):
        file.write_text(content) if content else file.unlink()
        with pytest.raises(ConfigError, match=rf"setting w\.password_file: .*{message}"):
            Server.open(URL, None, str(file), "w")


def test_what_the_executors_driver_says_is_one_line(spark: SparkSession) -> None:
    warehouse = PostgresqlWarehouse(spark, Server("jdbc:postgresql://nowhere/db", None, None), "shop", 2, None, 1)
    with pytest.raises(DcrecError) as caught:
        warehouse._load("lists__1", spark.range(2))
    assert str(caught.value) == "warehouses.postgresql: shop.lists__1 could not be loaded: org.postgresql.Driver"
