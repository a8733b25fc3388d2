"""A whole run through a REST catalog that asks for a credential, by the how-to page's settings."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.rest import RestCatalog

from dcrec_spark.publish.current import current_run
from tests.clusters.commands import HOW_TO, blocks_of, with_values
from tests.jobs.job import SMALL, in_sections, names_in, record_of
from tests.warehouse.commands import PAIRS, ended
from tests.warehouse.gateway import EXCHANGE, SECRET, Gateway
from tests.warehouse.judges import catalog_judge
from tests.warehouse.servers import RunningCatalog, archives_of

pytestmark = pytest.mark.warehouse

DAY = "2026-01-05"
WRONG = "dcrec:nobody-has-given-this-out"
# Of a token, as the gateway tells it: shorter than a run.
SECONDS = 10


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A catalog that has a table of ratings, behind a gateway that demands a token."""
    home = tmp_path_factory.mktemp("server")
    with RunningCatalog(home) as server:
        gateway = Gateway(server.uri, SECONDS)
        catalog = client(gateway)
        catalog.create_namespace("events")
        ratings = pa.table(dict(zip(("user", "item", "rating"), zip(*PAIRS, strict=True), strict=True)))
        catalog.create_table("events.ratings", ratings.schema).append(ratings)
        yield gateway


def client(gateway: Gateway) -> RestCatalog:
    return RestCatalog("judge", uri=gateway.uri, **gateway.properties)


@pytest.fixture
def settings(gateway: Gateway, tmp_path: Path) -> Path:
    """The page's, for this machine, with all that Spark notes about a run in ``events``."""
    (page,) = blocks_of(HOW_TO / "publish-to-a-warehouse.md", "Through a REST catalog", "yaml")
    (archive,) = archives_of("", "iceberg-spark-runtime")
    given = {
        "https://catalog.example.org/api": gateway.uri,
        "output/nightly": str(tmp_path / "out"),
        f"jars/{archive.name}": str(archive),
    }
    sections = in_sections(SMALL, **yaml.safe_load(with_values(page, given)))
    (tmp_path / "events").mkdir()
    sections["spark"]["master"] = "local[2]"
    log = {"enabled": "true", "compress": "false", "dir": (tmp_path / "events").as_uri()}
    sections["spark"]["conf"] |= {f"spark.eventLog.{name}": value for name, value in log.items()}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(sections))
    return tmp_path / "nightly.yaml"


def retrain(settings: Path, code: int, *overrides: str) -> str:
    """Run the job for one day, in a process of its own, whose JVM writes to the same log; all that both say."""
    more = [word for override in (f"run.run_date={DAY}", *overrides) for word in ("--set", override)]
    return "".join(ended(["retrain", "--config", settings, *more], code))


def places_of(secret: str, folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_a_run_publishes_with_the_credential(gateway: Gateway, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_CREDENTIAL", gateway.credential)
    output, refused = settings.parent / "out", len(gateway.refused)

    runs, grants = [], []
    for by_exchange in ("true", "false"):
        before = len(gateway.grants)
        said = retrain(settings, 0, f"spark.conf.spark.sql.catalog.lake.token-exchange-enabled={by_exchange}")
        grants.append(Counter(gateway.grants[before:]))
        assert gateway.secret not in said
        assert "\tat " not in said  # no stack trace of anything that went well
        run = current_run(str(output))
        runs.append(run.record["run_id"])
        lists = catalog_judge(client(gateway), "shop")("recommendations")
        assert len(lists) == run.record["tables"]["recommendations"] == 12 * SMALL["recommend.top_n"]
        assert set(lists["run_id"]) == {runs[-1]}
        assert set(lists["run_date"].astype(str)) == {DAY}

    assert runs[0] != runs[1]
    assert {path.name for path in output.glob("run_id=*")} == {f"run_id={run}" for run in runs}
    table = client(gateway).load_table("shop.recommendations")
    summary = table.current_snapshot().summary
    assert (summary["dcrec.run_id"], summary["dcrec.run_date"]) == (runs[1], DAY)
    assert gateway.refused[refused:] == []
    # A run is longer than its token.
    assert grants[0][EXCHANGE] > 0
    assert grants[1][EXCHANGE] == 0
    assert grants[1][SECRET] > grants[0][SECRET]
    assert places_of(gateway.secret, settings.parent) == []
    record = record_of(output / f"run_id={runs[1]}")
    conf = record["configuration"]["spark"]["conf"]
    assert conf["spark.sql.catalog.lake.credential"] == "${env:CATALOG_CREDENTIAL}"


@pytest.mark.parametrize(
    ("code", "named", "namespace"),
    [
        (2, "warehouses.iceberg is 'lake.unseen', which Spark cannot open", "lake.unseen"),
        (3, "input table 'lake.events.ratings'", "null"),
    ],
    ids=["publishing", "reading"],
)
def test_a_wrong_credential_is_refused_by_name_and_nothing_is_published(
    code: int, named: str, namespace: str, gateway: Gateway, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_CREDENTIAL", WRONG)

    said = retrain(settings, code, f"warehouses.iceberg={namespace}")

    error = str(json.loads(said.splitlines()[-1])["event"])
    assert error.startswith(named)
    assert "Not authorized: invalid_client: unknown client, or another secret" in error
    assert "credential or token" in error
    for trace in ("Traceback", "\tat ", "py4j", "An error occurred"):
        assert trace not in said
    secret = WRONG.partition(":")[2]
    assert secret not in said
    assert places_of(secret, settings.parent) == []
    assert names_in(settings.parent / "out") == set()
    assert ("unseen",) not in client(gateway).list_namespaces()
