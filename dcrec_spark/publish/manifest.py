"""Manifest of a published run: its files with their checksums."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from dcrec_spark.errors import DataError
from dcrec_spark.storage.protocol import Files

MANIFEST = "manifest.json"
RECORD = "run.json"
_SEAL = "sha256"


class PartFiles(NamedTuple):
    """``sha256`` of each data file below a directory, by its path in there. rows : of a table, 0 of a folder."""

    rows: int
    bytes: int
    sha256: dict[str, str]


def fingerprint(files: Files, directory: str, rows: int = 0) -> PartFiles:
    """Take the checksums of the data files in a directory and in all below it. rows : what was written, of a table."""
    sizes = _data_files(files, directory)
    sha256 = {path: files.sha256(f"{directory}/{path}") for path in sizes}
    return PartFiles(rows, sum(sizes.values()), sha256)


def check_manifest(files: Files, directory: str, only: str = "") -> None:
    """Compare the files of a run with its manifest. Raises DataError: names each missing, changed or foreign one.

    only : a folder to compare, such as ``recommendations/``, or the record, which is there. Empty: all files.
    """
    found = [RECORD] if only == RECORD else _data_files(files, directory, only)
    present = {name: files.sha256(f"{directory}/{name}") for name in found if name != MANIFEST}
    path = f"{directory}/{MANIFEST}"
    if not files.exists(path):
        raise DataError(
            f"{directory} holds no {MANIFEST}: it is not a whole run, and nobody can tell if its files are as they "
            "were written; restore it from a backup"
        )
    manifest = read_sealed(files, path)
    expected = {RECORD: str(manifest["record_sha256"])}
    for name, part in {**manifest["tables"], **manifest["folders"]}.items():
        expected |= {f"{name}/{file}": str(sha256) for file, sha256 in part["sha256"].items()}
    problems = []
    for name in sorted(expected.keys() | present.keys()):
        if name.startswith(only) and expected.get(name) != present.get(name):
            what = "missing" if name not in present else "changed" if name in expected else "not of this run"
            problems.append(f"{name} is {what}")
    if problems:
        raise DataError(f"{directory} differs from its manifest: {'; '.join(problems)}")


def sealed(content: Mapping[str, object]) -> bytes:
    """Return the content as JSON that holds a checksum of itself, for :func:`read_sealed`."""
    return to_json({**content, _SEAL: _seal_of(content)})


def read_sealed(files: Files, path: str) -> dict[str, Any]:
    """Read what :func:`sealed` made. Raises DataError: the file is missing, or not as it was written."""
    content = read_json(files, path)
    if content.pop(_SEAL, None) != _seal_of(content):
        raise DataError(f"{path} is damaged: its content differs from the checksum in it; restore it from a backup")
    return content


def _seal_of(content: Mapping[str, object]) -> str:
    return hashlib.sha256(to_json(content)).hexdigest()


def read_json(files: Files, path: str) -> dict[str, Any]:
    """Read a file of a run. Raises DataError: it is missing, is a directory, or holds no JSON object."""
    try:
        content = json.loads(files.read(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged: it cannot be read as JSON ({error}); restore it from a backup") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is damaged: found {str(content)[:50]!r}, expected a JSON object; restore it")
    return content


def to_json(content: object) -> bytes:
    """Strict JSON: NumPy scalars as numbers, numbers that are not finite as null, dates and paths as text.

    Examples
    --------
    >>> import numpy as np
    >>> to_json({"loss": float("nan"), "rows": np.int64(3)}).decode().split()
    ['{', '"loss":', 'null,', '"rows":', '3', '}']
    """
    return (json.dumps(_plain(content), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _data_files(files: Files, directory: str, prefix: str = "") -> dict[str, int]:
    sizes: dict[str, int] = {}
    for entry in files.list(f"{directory}/{prefix}".rstrip("/")):
        path = f"{prefix}{entry.name}"
        if not entry.name.startswith(("_", ".")):  # readers skip them: Spark's and Hadoop's own
            sizes |= _data_files(files, directory, f"{path}/") if entry.is_directory else {path: entry.bytes}
    return sizes


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
