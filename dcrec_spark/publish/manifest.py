"""What a published run holds, file by file, so that anybody can check that it is whole."""

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from dcrec_spark.errors import DataError
from dcrec_spark.storage.protocol import Entry, Files

MANIFEST = "manifest.json"
RECORD = "run.json"


class FolderFiles(NamedTuple):
    """A directory that is no table: ``sha256`` of each data file by its path inside, at any depth."""

    bytes: int
    sha256: dict[str, str]


class TableFiles(NamedTuple):
    """One table on disk: ``sha256`` of each data file by its name."""

    rows: int
    bytes: int
    sha256: dict[str, str]


def fingerprint(files: Files, directory: str, rows: int) -> TableFiles:
    """Take the checksums of a table's data files on disk; ``rows`` is what was written."""
    return TableFiles(rows, *fingerprint_folder(files, directory))


def fingerprint_folder(files: Files, directory: str) -> FolderFiles:
    """Take the checksums of the data files in a directory and in all below it."""
    sizes = _data_files(files, directory)
    sha256 = {path: files.sha256(f"{directory}/{path}") for path in sizes}
    return FolderFiles(sum(sizes.values()), sha256)


def write_manifest(
    files: Files,
    directory: str,
    run_id: str,
    tables: Mapping[str, TableFiles],
    folders: Mapping[str, FolderFiles],
) -> None:
    """Write the last file of a run: a directory without it is not a whole run."""
    content = {
        "run_id": run_id,
        "record_sha256": files.sha256(f"{directory}/{RECORD}"),
        "tables": {name: table._asdict() for name, table in tables.items()},
        "folders": {name: folder._asdict() for name, folder in folders.items()},
    }
    files.write(f"{directory}/{MANIFEST}", to_json(content))


def check_manifest(files: Files, directory: str) -> None:
    """Compare the files of a run with its manifest; each is read once.

    Raises
    ------
    DataError
        Naming every file that is missing, changed or foreign.
    """
    if not files.exists(f"{directory}/{MANIFEST}"):
        raise DataError(f"{directory} holds no {MANIFEST}: it is not a whole run")
    manifest = json.loads(files.read(f"{directory}/{MANIFEST}"))
    expected = {RECORD: manifest["record_sha256"]}
    for name, part in {**manifest["tables"], **manifest.get("folders", {})}.items():
        expected |= {f"{name}/{file}": sha256 for file, sha256 in part["sha256"].items()}
    present = fingerprint_folder(files, directory).sha256
    del present[MANIFEST]
    problems = sorted(
        f"{name} is {_what_happened(expected.get(name), present.get(name))}"
        for name in expected.keys() | present.keys()
        if expected.get(name) != present.get(name)
    )
    if problems:
        raise DataError(f"{directory} differs from its manifest: {'; '.join(problems)}")


def to_json(content: object) -> bytes:
    """Strict JSON: NumPy scalars as numbers, numbers that are not finite as null, dates and paths as text.

    Examples
    --------
    >>> import numpy as np
    >>> to_json({"loss": float("nan"), "rows": np.int64(3)}).decode().split()
    ['{', '"loss":', 'null,', '"rows":', '3', '}']
    """
    return (json.dumps(_plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _is_data(entry: Entry) -> bool:
    """Whether readers look at the file: they skip names that start with _ or a dot, Spark's and Hadoop's own."""
    return not entry.name.startswith(("_", "."))


def _data_files(files: Files, directory: str) -> dict[str, int]:
    """Bytes by path inside the directory."""
    sizes: dict[str, int] = {}
    for entry in files.list(directory):
        if not _is_data(entry):
            continue
        if entry.is_directory:
            inside = _data_files(files, f"{directory}/{entry.name}")
            sizes |= {f"{entry.name}/{path}": size for path, size in inside.items()}
        else:
            sizes[entry.name] = entry.bytes
    return sizes


def _what_happened(expected: str | None, present: str | None) -> str:
    if present is None:
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
