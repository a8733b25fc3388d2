"""What a published run holds, file by file, so that anybody can check that it is whole."""

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from dcrec_spark.errors import DataError
from dcrec_spark.publish.files import Entry, Files

MANIFEST = "manifest.json"
RECORD = "run.json"


class TableFiles(NamedTuple):
    """One table on disk: ``sha256`` of each data file by its name."""

    rows: int
    bytes: int
    sha256: dict[str, str]


def fingerprint(files: Files, directory: str, rows: int) -> TableFiles:
    """A table's data files as they are on disk."""
    return TableFiles(rows, sum(entry.bytes for entry in _data_files(files, directory)), _sha256(files, directory))


def write_manifest(files: Files, directory: str, run_id: str, tables: Mapping[str, TableFiles]) -> None:
    """The last file of a run: a directory without it is not a whole run."""
    content = {
        "run_id": run_id,
        "record_sha256": files.sha256(f"{directory}/{RECORD}"),
        "tables": {name: table._asdict() for name, table in tables.items()},
    }
    files.write(f"{directory}/{MANIFEST}", to_json(content))


def check_manifest(files: Files, directory: str) -> None:
    """DataError naming every file that is missing, changed or foreign."""
    if not files.exists(f"{directory}/{MANIFEST}"):
        raise DataError(f"{directory} holds no {MANIFEST}: it is not a whole run")
    manifest = json.loads(files.read(f"{directory}/{MANIFEST}"))
    expected = {RECORD: manifest["record_sha256"]}
    for name, table in manifest["tables"].items():
        expected |= {f"{name}/{file}": sha256 for file, sha256 in table["sha256"].items()}
    found: dict[str, str] = {}
    for entry in files.list(directory):
        if entry.is_directory:
            on_disk = _sha256(files, f"{directory}/{entry.name}")
            found |= {f"{entry.name}/{file}": sha256 for file, sha256 in on_disk.items()}
        elif entry.name != MANIFEST and _is_data(entry):
            found[entry.name] = files.sha256(f"{directory}/{entry.name}")
    problems = sorted(
        f"{name} is {_what_happened(expected.get(name), found.get(name))}"
        for name in expected.keys() | found.keys()
        if expected.get(name) != found.get(name)
    )
    if problems:
        raise DataError(f"{directory} differs from its manifest: {'; '.join(problems)}")


def to_json(content: object) -> bytes:
    """Strict JSON: NumPy scalars as numbers, numbers that are not finite as null, dates and paths as text."""
    return (json.dumps(_plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _is_data(entry: Entry) -> bool:
    """Not one of Spark's markers, nor Hadoop's checksums: readers skip names that start with _ or a dot."""
    return not entry.name.startswith(("_", "."))


def _data_files(files: Files, directory: str) -> list[Entry]:
    return [entry for entry in files.list(directory) if _is_data(entry)]


def _sha256(files: Files, directory: str) -> dict[str, str]:
    return {entry.name: files.sha256(f"{directory}/{entry.name}") for entry in _data_files(files, directory)}


def _what_happened(expected: str | None, found: str | None) -> str:
    if found is None:
        return "missing"
    return "not of this run" if expected is None else "changed"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    return _plain(value.item()) if hasattr(value, "item") else str(value)
