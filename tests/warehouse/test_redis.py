"""The example of a sink of another package, Redis: its entry point, restarts, races, passwords, full servers."""

import json
import signal
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from dcrec_spark.publish.protocol import publish
from examples.redis_sink.dcrec_redis_sink import RedisServer, RedisSettings, RedisWarehouse
from tests.jobs.job import options_of, read_table, run_directory
from tests.warehouse.commands import RATINGS, dcrec_with, small_run
from tests.warehouse.key_values import RunningRedis, running_redis
from tests.warehouse.places import ROOT
from tests.warehouse.tables import IDS, RUN_DATE, record, tables_of

pytestmark = pytest.mark.warehouse

NAMES = ("recommendations", "item_factors")
AWAY_SECONDS = 1.0
EXAMPLE = ROOT / "examples" / "redis_sink"
SETTING = "warehouses.other.redis"


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[RunningRedis]:
    with running_redis(scratch / "redis-that-falls") as running:
        yield running


@pytest.fixture
def warehouse(
    spark: SparkSession, server: RunningRedis, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisWarehouse]:
    """Keys of the test's own, under which one run is shown; two are kept."""
    monkeypatch.setenv("REDISCLI_AUTH", server.password)
    namespace = f"s_{crc32(request.node.nodeid.encode())}"
    made = RedisWarehouse(spark, RedisServer.open(RedisSettings(url=server.url), "test"), namespace, 2, RUN_DATE)
    made.check()
    send(made, spark, "old")
    yield made
    made.close()


def send(warehouse: RedisWarehouse, spark: SparkSession, run_id: str) -> None:
    publish(warehouse, run_id, tables_of(spark, run_id, names=NAMES), lambda _: record(run_id))


def look(server: RunningRedis, namespace: str) -> dict[str, tuple[str, int]]:
    """What a service finds that asks for the tokens, and then for all lists: table -> run and number of rows."""
    found = {}
    with server.reader() as client:
        for table, token in client.hgetall(f"{namespace}:current").items():
            rows = [row for value in client.hvals(f"{namespace}:{token}:{table}") for row in json.loads(value)]
            (run_id,) = {row["run_id"] for row in rows}
            found[str(table)] = (str(run_id), len(rows))
    return found


def whole(run_id: str) -> dict[str, tuple[str, int]]:
    return {"recommendations": (run_id, 2 * len(IDS)), "item_factors": (run_id, 2)}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The example as pip would install it: its module and its entry points on the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    described = tmp_path / "dcrec_redis_sink-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    lines = [f"[{group}]\n{name} = {place}\n" for group, names in project["entry-points"].items()
             for name, place in names.items()]  # fmt: skip
    (described / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))


@pytest.mark.usefixtures("installed")
def test_a_run_publishes_to_the_installed_sink_and_a_service_finds_its_lists(
    server: RunningRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDISCLI_AUTH", server.password)
    settings = {
        **small_run(tmp_path, RATINGS),
        "recommend.extra": "[overlap]",
        "warehouses.other.redis": f"{{url: '{server.url}', namespace: shop}}",
    }
    result = dcrec_with("retrain", *options_of(settings))
    assert result.exit_code == 0, result.output
    expected = read_table(run_directory(tmp_path / "out"), "recommendations")
    with server.reader() as client:
        token = client.hget("shop:current", "recommendations")
        rows = json.loads(client.hget(f"shop:{token}:recommendations", "3") or "[]")
        assert client.hlen(f"shop:{token}:user_overlap") == 12
    wanted = expected[expected.user_id == "3"].sort_values("rank")
    assert [row["item_id"] for row in rows] == wanted.item_id.tolist()
    assert [row["score"] for row in rows] == wanted.score.tolist()


@pytest.mark.parametrize("step", ["write", "commit"])
def test_a_server_that_restarts_costs_time_and_not_the_run(
    step: str, warehouse: RedisWarehouse, spark: SparkSession, server: RunningRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, fallen = getattr(warehouse, step), list[str]()

    def fall(*given: Any) -> Any:
        if not fallen:
            fallen.append(step)
            server.stop(signal.SIGKILL)
            threading.Timer(AWAY_SECONDS, server.start).start()
        return make(*given)

    monkeypatch.setattr(warehouse, step, fall)
    send(warehouse, spark, "new")
    assert fallen == [step]
    assert look(server, warehouse.namespace) == whole("new")
    assert [run.run_id for run in warehouse.kept()] == ["new", "old"]


def test_what_the_server_has_lost_is_not_committed(
    warehouse: RedisWarehouse, spark: SparkSession, server: RunningRedis
) -> None:
    staged = warehouse.stage("new", tables_of(spark, "new", names=NAMES), {})
    with server.reader() as client:
        client.delete(f"{warehouse.namespace}:{staged.token}:item_factors")
    with pytest.raises(ConflictError, match="the server has lost what was staged of item_factors"):
        warehouse.commit(staged, record("new"))
    warehouse.discard(staged)
    assert look(server, warehouse.namespace) == whole("old")


def test_a_server_that_would_drop_tables_and_one_that_refuses_are_named(
    warehouse: RedisWarehouse,
    server: RunningRedis,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    with server.reader() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(ConfigError, match="maxmemory-policy is allkeys-lru"):
                warehouse.check()
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    (tmp_path / "password").write_text("hunter22\n")
    settings = RedisSettings(url=server.url, password_file=str(tmp_path / "password"))
    wrong = RedisServer.open(settings, SETTING)
    with pytest.raises(ConfigError, match=r"warehouses\.other\.redis\.url is 'redis://") as refusal:
        RedisWarehouse(spark, wrong, "x", 2, RUN_DATE).check()
    assert "hunter22" not in f"{refusal.value} {wrong!r}"
    for url in ("redis://me:hunter22@h/0", "http://h", "redis://h/0?password=hunter22"):
        with pytest.raises(ConfigError, match=r"expected redis://host:port/number") as refusal:
            RedisServer.open(RedisSettings(url=url), SETTING)
        assert "hunter22" not in str(refusal.value)
    with pytest.raises(ConfigError, match="namespace is 'a:b'"):
        RedisWarehouse(spark, warehouse.server, "a:b", 2, RUN_DATE).check()
