"""A saved estimator or model as a directory: how it appears, how it is replaced, how it differs from half of one.

::

    <path>/metadata/part-00000              one line of JSON, as pyspark.ml writes it, with further keys
          /data-<token>/frames/<name>/      Parquet; metadata says how many rows
                       /parts/<name>/       a model inside the model, saved the same way
                       /params/<name>/      a Param whose value is an estimator or a model
          /.lock                            held while the model is replaced
    <parent>/.tmp-<name>-<token>/           a model in the making; no reader looks here

A new model is written next to its path and appears in one rename. To replace one, its data directory is moved in next
to the old, then the metadata file, which names the data directory, is replaced in one step, then the old data go. So a
reader finds one of the two models, whole, also after a death, and the next to write there removes what the dead left. A
reader whose data go meanwhile finds other metadata, and reads again. No two data directories have the same name, since
Spark would take files of the same name for those it has cached.

An object store renames nothing: the data are written into their place, where nobody looks before the metadata name
them, and the metadata are put there if they are still those of before. Of two who save at once the first one wins. The
data of a save that died stay there: nobody could tell them from those of a save at work.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, ConflictError, DataError
from dcrec_spark.spark.hadoop import default_file_system
from dcrec_spark.storage.files import LOCATION, open_files
from dcrec_spark.storage.hadoop import ObjectFiles
from dcrec_spark.storage.protocol import ChangedError, Directories, Files, Objects
from dcrec_spark.storage.staging import require_writable
from dcrec_spark.version import __version__

FORMAT_VERSION = 4
SETTING = "the path of a model"
FOLDER = "metadata"
METADATA = f"{FOLDER}/part-00000"
LOCK = ".lock"
DATA = re.compile(r"data-[0-9a-f]{32}")
_SEAL = "sha256"
_KEYS = {"class", "uid", "paramMap", "defaultParamMap", "dcrecVersion", "data", "facts", "frames", "parts", "params"}

_log = logging.getLogger(__name__)


def open_directory(path: str, spark: SparkSession) -> tuple[Directories | ObjectFiles, str]:
    """Return the store that a model's path names, and the absolute path inside it.

    Raises ConfigError: the store can not hold a model, or Spark would take a path without a scheme for one on another
    file system, which a Pipeline around a model does too.
    """
    text = os.fspath(path)
    files, inside = open_files(text, spark, SETTING)
    parts = LOCATION.fullmatch(text)
    if parts is not None and parts["scheme"] is None:
        default = default_file_system(spark)
        if not default.startswith("file:"):
            raise ConfigError(
                f"{SETTING} is {text!r}, without a scheme, and the default file system here is {default}: "
                f"write {default.rstrip('/')}{inside}, or file:{inside} for a local or shared disk"
            )
    return files, inside


def require_free(files: Files, path: str, overwrite: bool) -> None:
    """Refuse a path that can not be written, or holds what may not be replaced, before any work is done."""
    require_writable(files, path.rpartition("/")[0] or "/", files.uri(path), SETTING)
    if not files.exists(path):
        return
    if not overwrite:
        raise ConfigError(
            f"{files.uri(path)} exists already; write().overwrite().save(...) replaces a saved model, or choose "
            "another path"
        )
    if _parse(files, path) is None and not _is_remains(files, path):
        raise ConfigError(
            f"{files.uri(path)} was not saved by dcrec-spark, and only what it saved is overwritten; "
            "remove it first, or choose another path"
        )


def write_metadata(files: Files, directory: str, metadata: Mapping[str, Any]) -> None:
    """Write the last file of a model: a directory without it is no model."""
    files.make_directory(f"{directory}/{FOLDER}")
    files.write(f"{directory}/{METADATA}", _line(metadata))


def _line(metadata: Mapping[str, Any]) -> bytes:
    """One line, as pyspark.ml reads it: the first line of a text. It holds a checksum of itself."""
    content = {**metadata, "formatVersion": FORMAT_VERSION}
    return f"{_compact({**content, _SEAL: _seal_of(content)})}\n".encode()


def _seal_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(_compact(content).encode()).hexdigest()


def _compact(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


@contextmanager
def placed(files: Objects, path: str, data: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Save a model on an object store: write its data below ``path/data`` inside, then call what is yielded.

    That makes the metadata those that readers find, and removes the data of before. Raises ConflictError: another
    process saved a model there meanwhile, which stays. What was written is removed.
    """
    version, before = files.version(f"{path}/{METADATA}"), (_parse(files, path) or {}).get("data")

    def put(metadata: Mapping[str, Any]) -> None:
        try:
            files.write_over(f"{path}/{METADATA}", _line(metadata), version)
        except ChangedError as error:
            if (_parse(files, path) or {}).get("data") != data:
                raise ConflictError(
                    f"another process saved a model at {files.uri(path)} meanwhile: save again to replace it"
                ) from error

    try:
        yield put
    except BaseException:
        if (_parse(files, path) or {}).get("data") != data:
            files.delete(f"{path}/{data}")
        raise
    if before is not None and before != data:
        files.delete(f"{path}/{before}")


def commit(files: Directories, staged: str, path: str, overwrite: bool) -> None:
    """Make the staged model the one at ``path``. ConfigError when another came first and may not be replaced."""
    try:
        files.rename(staged, path)
    except OSError:
        if not files.exists(path):
            raise
        require_free(files, path, overwrite)
        metadata = files.read(f"{staged}/{METADATA}")
        data = json.loads(metadata)["data"]
        with files.lock(f"{path}/{LOCK}"):
            try:
                files.rename(f"{staged}/{data}", f"{path}/{data}")
                files.make_directory(f"{path}/{FOLDER}")
                files.write(f"{path}/{METADATA}", metadata)
            except BaseException:
                if (_parse(files, path) or {}).get("data") != data:  # of a write that fails one can not know
                    files.delete(f"{path}/{data}")
                raise
            for entry in files.list(path):
                if DATA.fullmatch(entry.name) and entry.name != data:
                    files.delete(f"{path}/{entry.name}")


def read_metadata(files: Files, path: str) -> dict[str, Any]:
    """Read the metadata of a saved estimator or model.

    Raises DataError: there is nothing, or no model, or half of one. ConfigError: another format than this version
    reads.
    """
    where = files.uri(path)
    if not files.exists(path):
        raise DataError(f"there is no saved model at {where}")
    metadata = _parse(files, path)
    if metadata is None:
        raise DataError(
            f"{where} is no model that dcrec-spark saved, or half of one: expected a line of JSON with a formatVersion "
            f"in {METADATA} (a saved Pipeline is loaded by its own class)"
        )
    if metadata["formatVersion"] > FORMAT_VERSION:
        raise ConfigError(
            f"{where} was saved in format {metadata['formatVersion']} by dcrec-spark "
            f"{metadata.get('dcrecVersion', 'of unknown version')}; this is {__version__}, which reads formats up to "
            f"{FORMAT_VERSION}: upgrade dcrec-spark, or save the model again with this version"
        )
    if metadata["formatVersion"] < FORMAT_VERSION:
        raise ConfigError(
            f"{where} was saved in format {metadata['formatVersion']}; this is dcrec-spark {__version__}, which reads "
            f"format {FORMAT_VERSION}: fit the model again, or load it with the version that saved it"
        )
    missing = sorted(_KEYS - metadata.keys())
    if missing or not DATA.fullmatch(str(metadata["data"])):
        raise DataError(f"{where}/{METADATA} is damaged: {', '.join(missing) or 'data'} is missing or not as written")
    if metadata.pop(_SEAL, None) != _seal_of(metadata):
        raise DataError(
            f"{where}/{METADATA} is damaged or was edited: its content differs from the checksum in it; save the model "
            "again, or copy all of it"
        )
    return metadata


def _parse(files: Files, path: str) -> dict[str, Any] | None:
    """Return the metadata of whatever format. None where there are none, or not ours."""
    if not files.exists(f"{path}/{METADATA}"):
        return None
    try:
        metadata = json.loads(files.read(f"{path}/{METADATA}"))
    except ValueError as error:
        _log.info("%s/%s is not JSON: %s", path, METADATA, error)
        return None
    known = isinstance(metadata, dict) and isinstance(metadata.get("formatVersion"), int)
    return metadata if known else None


def class_in(metadata: bytes) -> str | None:
    """Read the name of the class in a file of metadata, pyspark.ml's too. None: it has none, and nobody reads it."""
    try:
        return str(json.loads(metadata.partition(b"\n")[0])["class"])
    except (ValueError, KeyError, TypeError):
        return None


def _is_remains(files: Files, path: str) -> bool:
    try:
        names = {entry.name for entry in files.list(path)}
    except NotADirectoryError:
        return False
    if FOLDER in names and any(not entry.name.startswith(".") for entry in files.list(f"{path}/{FOLDER}")):
        return False
    return all(name in (LOCK, FOLDER) or DATA.fullmatch(name) for name in names)
