"""The example of a sink of another package, Redis: its entry point, restarts, races, passwords, full servers."""

import json
import signal
import tomllib
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError
from examples.redis_sink.dcrec_redis_sink import RedisServer, RedisSettings, RedisWarehouse
from tests.jobs.job import options_of, read_table, run_directory, small_job
from tests.spark.standalone import ROOT
from tests.steps import at_first
from tests.warehouse.commands import done
from tests.warehouse.judges import Opened, Place
from tests.warehouse.servers import RunningRedis
from tests.warehouse.tables import RUN_DATE, record

pytestmark = pytest.mark.warehouse

EXAMPLE = ROOT / "examples" / "redis_sink"
SETTING = "warehouses.other.redis"


@pytest.fixture
def place(opened: Opened) -> Place:
    made = opened("redis", keep=2)
    made.publish("old")
    return made


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The example as pip would install it: its module and its entry points on the path."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    described = tmp_path / "dcrec_redis_sink-0.1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    points = project["entry-points"].items()
    lines = [f"[{group}]\n{name} = {place}\n" for group, names in points for name, place in names.items()]
    (described / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))


@pytest.mark.usefixtures("installed")
def test_a_run_publishes_to_the_sink_and_a_service_finds_its_lists(redis_server: RunningRedis, tmp_path: Path) -> None:
    own = {"recommend.extra": "[overlap]", SETTING: f"{{url: '{redis_server.url}', namespace: shop}}"}
    settings = {**small_job(tmp_path, 12, 10), **own}
    done("retrain", *options_of(settings))
    expected = read_table(run_directory(tmp_path / "out"), "recommendations")
    with redis_server.reader() as client:
        token = client.hget("shop:current", "recommendations")
        rows = json.loads(client.hget(f"shop:{token}:recommendations", "3") or "[]")
        assert client.hlen(f"shop:{token}:user_overlap") == 12
    wanted = expected[expected.user_id == "3"].sort_values("rank")
    assert [row["item_id"] for row in rows] == wanted.item_id.tolist()
    assert [row["score"] for row in rows] == wanted.score.tolist()


@pytest.mark.parametrize("step", ["write", "commit"])
def test_a_server_that_restarts_costs_time_and_not_the_run(
    step: str, place: Place, redis_server: RunningRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    fallen = at_first(monkeypatch, place.warehouse, step, partial(redis_server.fall_for, 1.0, signal.SIGKILL))
    place.publish("new")
    assert fallen == [step]
    assert place.shows("new")
    assert {run.run_id for run in place.warehouse.runs()} == {"new", "old"}


def test_bad_servers_are_named(place: Place, redis_server: RunningRedis, spark: SparkSession, tmp_path: Path) -> None:
    with redis_server.reader() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(ConfigError, match="maxmemory-policy is allkeys-lru"):
                place.warehouse.check()
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    (tmp_path / "password").write_text("hunter22\n")
    settings = RedisSettings(url=redis_server.url, password_file=str(tmp_path / "password"))
    wrong = RedisServer.open(settings, SETTING)
    with pytest.raises(ConfigError, match=r"warehouses\.other\.redis\.url is 'redis://") as refusal:
        RedisWarehouse(spark, wrong, "x", 2, RUN_DATE).check()
    assert "hunter22" not in f"{refusal.value} {wrong!r}"
    with pytest.raises(ConfigError, match=r"expected redis://host:port/number") as refusal:
        RedisServer.open(RedisSettings(url="redis://me:hunter22@h/0"), SETTING)
    assert "hunter22" not in str(refusal.value)


def test_what_the_server_has_lost_is_not_committed(place: Place, redis_server: RunningRedis) -> None:
    staged = place.stage("new")
    with redis_server.reader() as client:
        client.delete(f"{place.namespace}:{staged.token}:item_factors")
    with pytest.raises(ConflictError, match="the server has lost what was staged of item_factors"):
        place.warehouse.commit(staged, record("new"))
    place.warehouse.discard(staged)
    assert place.shows("old")
