"""Input that is bad, hostile or as before: the right exit code, a message that names things, nothing half-published."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dcrec_spark.jobs.retrain import _COMPARED, Retrain, is_comparable
from dcrec_spark.publish.object_store import open_output
from dcrec_spark.publish.parquet import verify
from dcrec_spark.publish.protocol import publish as publish_to
from tests.jobs.job import (
    SMALL,
    failure_of,
    names_in,
    publish,
    ratings_file,
    read_table,
    record_of,
    run_directory,
    run_retrain,
)

CSV = {**SMALL, "input.format": "csv", "validation.scale_min": 1, "validation.scale_max": 5}

pytestmark = [pytest.mark.job, pytest.mark.usefixtures("spark")]


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output directory that holds one run; what it published makes no difference to those that fail."""
    output = tmp_path_factory.mktemp("published") / "out"
    sink = open_output(str(output), spark)
    publish_to(sink, "before", {"recommendations": spark.range(3)}, lambda _: {"job": "retrain"})
    return output


REFUSED: dict[str, tuple[dict[str, object], int, list[str]]] = {
    "a missing column": ({"input.columns.item": "film"}, 3, ["'item'", "'film'", "input.columns.item"]),
    "bad ratings": ({"validation.scale_min": 4}, 3, ["rows are bad", "out_of_scale", "max_reject_share is 0.05"]),
    "a file that is not there": ({"input.path": "/none.csv"}, 3, ["check input.path"]),
    "no file is named": ({"input.path": "null"}, 2, ["setting input.path: found null"]),
    "a rank that the ratings cannot fill": (
        {"outcome.rank": 4000}, 2,
        ["setting outcome.rank: found 4000, expected at most 10: rank can't exceed the number of users or"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_run_that_cannot_go_on_is_refused(what: str, published: Path, tmp_path: Path) -> None:
    (changed, code, expected), output = REFUSED[what], Path(shutil.copytree(published, tmp_path / "out"))
    given = {**CSV, "input.path": ratings_file(tmp_path, 12, 10), "output.path": output, **changed}
    outcome = run_retrain(given, code=code)
    assert outcome.error["kind"] == ("DataError" if code == 3 else "ConfigError")
    assert [text for text in expected if text not in outcome.message] == [], outcome.message
    record = failure_of(output)
    assert (record["status"], record["exit_code"]) == ("failed", code)
    assert outcome.message in record["error"]
    assert record["configuration"]["output"]["path"] == str(output)
    if what == "bad ratings":
        assert record["counts"]["rejected"] == record["reasons"]["out_of_scale"] > 0
        assert record["rejects"][0]["reasons"] == ["out_of_scale"]
        assert record["rejects"][0]["raw"].count(",") >= 2
    assert names_in(output) == names_in(published)
    assert run_directory(output).name == run_directory(published).name
    verify(str(run_directory(output)))


@pytest.mark.parametrize(("biases", "code"), [(True, 0), (False, 1)])
def test_a_fit_without_factors_needs_biases_to_be_published(biases: bool, code: int, tmp_path: Path) -> None:
    given = {"input.format": "csv", "input.path": ratings_file(tmp_path, 12, 10), "output.path": tmp_path / "out"}
    fit = {"outcome.fit_biases": biases, "outcome.adjustment": "none", "outcome.reg_param": 1e6}
    run_retrain({**given, **fit}, code=code)
    record = failure_of(tmp_path / "out") if code else record_of(run_directory(tmp_path / "out"))
    assert "factors are zero" in " ".join([record["error"] or "", *record["warnings"]])


def write_days(folder: Path) -> dict[str, object]:
    """28 good days, and one whose file calls the rating another name."""
    rng = np.random.default_rng(3)
    pairs = np.array([(user, item) for user in range(50) for item in range(40)])[rng.permutation(2000)]
    for day, part in enumerate(np.split(pairs[: 29 * 60], 29), 1):
        name = "score" if day == 29 else "rating"
        rated_at = np.full(60, np.datetime64(f"2026-10-{day:02}T12:00", "us"))
        columns = {"user": part[:, 0], "item": part[:, 1], name: 1.0 + part.sum(axis=1) % 5, "rated_at": rated_at}
        where = folder / f"day=2026-10-{day:02}"
        where.mkdir(parents=True)
        pq.write_table(pa.table(columns), where / "part.parquet")
    return {**SMALL, "input.path": folder, "input.columns.timestamp": "rated_at", "validation.scale_min": 1}


def test_a_file_that_is_all_bad_is_refused_however_good_the_history_is(tmp_path: Path) -> None:
    """A run for an earlier day does not see it: it learns from no rating of its future."""
    settings = {**write_days(tmp_path / "days"), "output.path": tmp_path / "out", "input.unchanged": "skip"}
    first = publish(Retrain, {**settings, "run.run_date": "2026-10-28"})
    record = record_of(first)
    assert (record["counts"]["rows_in"], record["counts"]["rejected"]) == (28 * 60, 0)
    assert record["input_window"] == {"since": None, "until": "2026-10-28"}

    words = "60 rows are null_rating, and none was in the run before"
    run_retrain(
        {**settings, "run.run_date": "2026-10-29"}, code=3, words=f"{words} (setting audit.max_new_rejects=0.5)"
    )
    assert run_directory(tmp_path / "out") == first

    outcome = run_retrain({**settings, "run.run_date": "2026-10-29", "audit.max_new_rejects": "null"})
    printed = " ".join(outcome.printed.split())
    assert words in printed
    assert "the ratings are those of run" in printed


def test_lists_that_match_nothing_are_found_before_the_fit(tmp_path: Path) -> None:
    (tmp_path / "strangers.csv").write_text("user,item\n1,x1\n2,x2\n")
    given = {**CSV, "input.path": ratings_file(tmp_path, 12, 10), "output.path": tmp_path / "out"}
    strange = {**given, "recommend.catalogue": tmp_path / "strangers.csv"}
    run_retrain(strange, "--dry-run", code=3, words="none of its 2 items in the ratings")
    outcome = run_retrain({**given, "recommend.exclude": tmp_path / "strangers.csv"}, "--dry-run")
    assert "excludes nothing: no item of its 2 pairs is in the ratings" in " ".join(outcome.printed.split())


ALIKE = ["café", "cafe\u0301", "café ", "cafe", "\u0441afe", "Cafe", "\u200bcafe", "cafe\0", "caf\0e", "\0cafe"]
FOR_SPREADSHEETS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3"]
FOR_SHELLS_AND_PAGES = ["../..", "/etc/passwd", "a/../a", ".", "%2e%2e", "<script>alert(1)</script>", "[bold]", "${x}"]
FOR_PARSERS = ['"', '""', "a,b", "a\nb", "a\r\nb", "null", "NaN", "\\N", "'; DROP TABLE x; --", "`", "\t", "\U0001f600"]
LONG = ["x" * 100_000, "x" * 99_999 + "y"]
IDS = [*ALIKE, *FOR_SPREADSHEETS, *FOR_SHELLS_AND_PAGES, *FOR_PARSERS, *LONG]
ITEMS = IDS[::3]  # of every sort, the long ones apart: an item of many users would be stored as often
ALL_SEEN = "rated everything"
EXTREMES = [1e308, -1e308]


def write(path: Path, rows: list[tuple[str, str, float]]) -> Path:
    user, item, rating = zip(*rows, strict=True)
    pq.write_table(pa.table({"user": user, "item": item, "rating": rating}), path)
    return path


def hostile_rows() -> list[tuple[str, str, float]]:
    """Three ratings of each user, one of the smallest number, those of who rated everything, and two without bounds."""
    rows = [
        (user, ITEMS[(number + step) % len(ITEMS)], 1.0 + (number + step) % 5)
        for number, user in enumerate(IDS)
        for step in (0, 3, 5)
    ]
    rows += [(ALL_SEEN, item, 3.0) for item in ITEMS[1:]] + [(ALL_SEEN, ITEMS[0], 5e-324)]
    return rows + [(user, "bought by bots", rating) for user, rating in zip(IDS, EXTREMES, strict=False)]


def test_the_tables_hold_the_ids_that_came_in(tmp_path: Path) -> None:
    """None is merged with one that looks like it, cut short, or taken for a path; and nobody gets what he has seen."""
    rows = hostile_rows()
    source, output = write(tmp_path / "ratings.parquet", rows), tmp_path / "out"

    run = publish(Retrain, {**SMALL, "input.path": source, "output.path": output})
    assert sorted(read_table(run, "user_factors").id) == sorted([*IDS, ALL_SEEN])
    assert sorted(read_table(run, "item_factors").id) == sorted(ITEMS)
    rejects = read_table(run, "rejects")
    assert list(map(list, rejects.reasons)) == [["extreme_rating"]] * len(EXTREMES)
    lists = read_table(run, "recommendations")
    assert set(lists.user_id) == set(IDS), "who has rated everything has an empty list"
    assert set(lists.item_id) <= set(ITEMS)
    assert {(user, item) for user, item, _ in rows}.isdisjoint(zip(lists.user_id, lists.item_id, strict=True))
    assert names_in(output) == {run.name, "CURRENT"}
    assert set(tmp_path.iterdir()) == {source, output}


def test_a_broken_file_among_good_ones_publishes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "ratings"
    source.mkdir()
    for number in range(2):
        write(source / f"{number}.parquet", hostile_rows())
    (source / "1.parquet").write_bytes((source / "1.parquet").read_bytes()[:-50])

    outcome = run_retrain({**SMALL, "input.path": source, "output.path": tmp_path / "out"}, code=3, words="1.parquet")

    assert outcome.error["kind"] == "DataError"
    assert "Traceback" not in outcome.message
    assert names_in(tmp_path / "out") == set()


@pytest.fixture
def nightly(tmp_path: Path) -> dict[str, object]:
    places = {"output.path": tmp_path / "out", "run.metrics_file": tmp_path / "run.prom"}
    return {**CSV, "input.path": ratings_file(tmp_path, 12, 10), "input.unchanged": "skip", **places}


def test_a_run_without_new_ratings_leaves_the_published_run(nightly: dict[str, object], tmp_path: Path) -> None:
    output = tmp_path / "out"
    first = publish(Retrain, {**nightly, "run.run_date": "2026-11-20"})

    quiet = run_retrain({**nightly, "run.run_date": "2026-11-21"})

    assert run_directory(output) == first
    assert names_in(output) == {"CURRENT", first.name, "skipped"}
    (skipped,) = (output / "skipped").iterdir()
    record, served = record_of(skipped), record_of(first)
    assert (record["status"], record["exit_code"], record["run_date"]) == ("skipped", 0, "2026-11-21")
    assert record["unchanged_since"] == served["run_id"]
    assert record["data_fingerprint"] == served["data_fingerprint"]
    assert "fit" not in record["timings"]
    assert f"as in run {served['run_id']}, which stays" in " ".join(quiet.printed.split())
    metrics = (tmp_path / "run.prom").read_text()
    assert 'dcrec_run_published{job="retrain",name="dcrec"} 0.0' in metrics
    assert 'dcrec_run_exit_code{job="retrain",name="dcrec"} 0.0' in metrics


def test_other_ratings_or_settings_make_a_run(nightly: dict[str, object], tmp_path: Path) -> None:
    runs = set()
    # The second model is the same, and its lists are not; before the last run comes a rating.
    for more in ({}, {"recommend.top_n": 3}, {"recommend.top_n": 3, "input.unchanged": "run"}, {"recommend.top_n": 3}):
        if len(runs) == 3:
            with (tmp_path / "ratings.csv").open("a") as ratings:
                ratings.write("\n0,3,5")
        runs.add(publish(Retrain, {**nightly, **more}).name)
    assert len(runs) == 4
    assert not (tmp_path / "out" / "skipped").exists()


def test_a_record_of_another_job_or_version_is_not_compared_with() -> None:
    record = dict.fromkeys(_COMPARED, "retrain")
    assert is_comparable(record, "retrain")
    assert not is_comparable(record, "tune")
    assert not is_comparable({name: value for name, value in record.items() if name != "input_snapshot"}, "retrain")
