"""Saving and loading, as pyspark.ml does: ``model.write().overwrite().save(path)``, ``Class.load(path)``.

A class takes :class:`Persistent` among its bases. An estimator needs no more. A model says what it consists of besides
its Params (``_saved``), and how it is put together again (``_restored``).

Pipelines and validators save and load such stages too: the metadata are those of pyspark.ml, which finds the class by
its name in them. What is not saved: listeners, and what a session has set. Models read their files again when an
executor that cached them is lost, so a model that is still in use must not be overwritten on a cluster.
"""

import logging
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, is_dataclass
from enum import Enum
from importlib import import_module
from types import UnionType
from typing import Any, Generic, Self, TypeVar, get_args, get_origin, get_type_hints
from uuid import uuid4

from pyspark.ml.param import Params
from pyspark.ml.util import MLReadable, MLReader, MLWritable, MLWriter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.persistence.directory import (
    FOLDER,
    SETTING,
    class_in,
    commit,
    open_directory,
    placed,
    read_metadata,
    require_free,
    write_metadata,
)
from dcrec_spark.spark.failures import SPARK_FAILURES, is_broken_file
from dcrec_spark.storage.hadoop import ObjectFiles
from dcrec_spark.storage.protocol import Files
from dcrec_spark.storage.staging import content_of, staged, write_table
from dcrec_spark.version import __version__

_log = logging.getLogger(__name__)
# What a saved part may be of. Java classes have pyspark.ml's as their wrappers.
_KNOWN = ("dcrec_spark.", "pyspark.ml.", "org.apache.spark.ml.")
_HALF = "this is half a model, or a damaged one; save it again, or copy all of it"
S = TypeVar("S", bound="Persistent")


@dataclass(frozen=True)
class Saved:
    """What an instance consists of, without its Params.

    frames : name -> DataFrame, saved as Parquet; restored ones are cached.
    facts : name -> what JSON can hold; numbers are finite.
    parts : name -> an estimator or model inside this one.
    params : name -> value of each Param, of a restored instance only: they are set once it is there.
    """

    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)


class Persistent(Params, MLWritable, MLReadable[Any]):
    """An estimator or model that can be saved and loaded."""

    def write(self) -> "Writer":
        """Return the writer that saves this instance."""
        return Writer(self)

    @classmethod
    def read(cls) -> "Reader[Self]":
        """Return the reader that loads an instance of this class."""
        return Reader(cls)

    @classmethod
    def load(cls, path: str) -> Self:
        """Load the instance saved at ``path``. See :meth:`Reader.load`."""
        return cls.read().load(path)

    def _saved(self) -> Saved:
        """Return all that the instance consists of but its Params, of an estimator nothing."""
        return Saved()

    @classmethod
    def _restored(cls, saved: Saved) -> Self:
        """Make an instance of what was saved. Its Params and its uid are set afterwards."""
        return cls()


class Writer(MLWriter):
    """Saves one instance, atomically."""

    def __init__(self, instance: Persistent) -> None:
        super().__init__()
        self._instance = instance

    def save(self, path: str) -> None:
        """Save to a path on S3, on HDFS, or on a local or shared file system.

        With ``overwrite()`` what is there stays until the new one takes its place. pyspark.ml deletes it first.

        Raises ConfigError: the path is in use, or can not be written. ConflictError: another process saved there first
        (on S3). DataError: executors wrote to disks of their own.
        """
        files, root = open_directory(path, self.sparkSession)
        require_free(files, root, self.shouldOverwrite)
        data = f"data-{uuid4().hex}"  # no other has the name, or had it
        if isinstance(files, ObjectFiles):
            with placed(files, root, data) as put:
                put(self._all_about(files, root, data))
            return
        with staged(files, root) as directory:
            write_metadata(files, directory, self._all_about(files, directory, data))
            commit(files, directory, root, self.shouldOverwrite)

    def _all_about(self, files: Files, directory: str, data: str) -> dict[str, Any]:
        """Write frames and parts, and return the metadata, which name them."""
        instance, saved, inside = self._instance, self._instance._saved(), f"{directory}/{data}"
        # JSON can't hold estimators and models.
        params = {p.name: value for p, value in instance._paramMap.items() if isinstance(value, MLWritable)}
        tables = [param.name for param, value in instance._paramMap.items() if isinstance(value, DataFrame)]
        if tables:
            raise ConfigError(
                f"{tables[0]}: found a table, which is not saved with an estimator: clear the Param, and set it again "
                "after loading"
            )
        files.make_directory(inside)
        frames = {}
        for name, frame in saved.frames.items():
            written = write_table(files, f"{inside}/frames/{name}", frame, SETTING)
            frames[name] = {**written._asdict(), "schema": frame.schema.jsonValue()}
        for kind, parts in (("parts", saved.parts), ("params", params)):
            for name, part in parts.items():
                part.write().session(self.sparkSession).save(files.uri(f"{inside}/{kind}/{name}"))
        return {
            "class": _class_name(type(instance)),
            "timestamp": int(time.time() * 1000),
            "sparkVersion": self.sparkSession.version,
            "uid": instance.uid,
            "paramMap": {p.name: value for p, value in instance._paramMap.items() if p.name not in params},
            "defaultParamMap": {p.name: value for p, value in instance._defaultParamMap.items()},
            "dcrecVersion": __version__,
            "data": data,
            "facts": dict(saved.facts),
            "frames": frames,
            "parts": list(saved.parts),
            "params": list(params),
        }


class Reader(MLReader[Any], Generic[S]):
    """Loads instances of one class."""

    def __init__(self, cls: type[S]) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> S:
        """Load the instance that was saved at ``path``, its frames cached.

        Raises DataError: there is nothing, something else, half a model, or one of another class. ConfigError: it was
        saved by a newer version, in a format or with parameters that this one does not know.
        """
        files, root = open_directory(path, self.sparkSession)
        while True:
            metadata = read_metadata(files, root)
            saved, expected = metadata["class"], _class_name(self._cls)
            if saved != expected:
                raise DataError(
                    f"{files.uri(root)} holds a {saved}, and {expected} was requested: "
                    f"load it by {saved.rpartition('.')[2]}.load"
                )
            try:
                return self._load(files, f"{root}/{metadata['data']}", metadata)
            except Exception:
                if read_metadata(files, root)["data"] == metadata["data"]:
                    raise
                _log.info("%s was replaced while it was read: reading it again", root)

    def _load(self, files: Files, directory: str, metadata: dict[str, Any]) -> S:
        with ExitStack() as unless_done:
            frames = {
                name: _read_frame(self.sparkSession, files, f"{directory}/frames/{name}", about, unless_done)
                for name, about in metadata["frames"].items()
            }
            parts, params = (
                {name: self._read_part(files, f"{directory}/{kind}/{name}", unless_done) for name in metadata[kind]}
                for kind in ("parts", "params")
            )
            defaults, values = metadata["defaultParamMap"], {**metadata["paramMap"], **params}
            instance = self._cls._restored(Saved(frames, metadata["facts"], parts, {**defaults, **values}))
            unknown = sorted(name for name in values.keys() | defaults.keys() if not instance.hasParam(name))
            if unknown:
                raise ConfigError(
                    f"a {metadata['class']} saved by dcrec-spark {metadata['dcrecVersion']} has the parameter "
                    f"{unknown[0]}, which this version, {__version__}, does not know: upgrade dcrec-spark"
                )
            instance._resetUid(metadata["uid"])
            instance._setDefault(**defaults)
            instance._set(**values)
            unless_done.pop_all()
        return instance

    def _read_part(self, files: Files, path: str, unless_done: ExitStack) -> Any:
        _require_known_classes(files, path)
        module, _, name = read_metadata(files, path)["class"].rpartition(".")
        part: Any = getattr(import_module(module), name).load(files.uri(path))
        if hasattr(part, "release"):
            unless_done.callback(part.release)
        return part


def _read_frame(
    spark: SparkSession, files: Files, path: str, about: dict[str, Any], unless_done: ExitStack
) -> DataFrame:
    if not files.exists(path):
        raise DataError(f"{files.uri(path)} is missing: {_HALF}")
    schema = StructType.fromJson(about["schema"])
    # Spark keeps one cache for equal plans: without a name of its own, releasing one loaded model would empty another.
    reader = spark.read.schema(schema).option("dcrec.loaded", uuid4().hex)
    frame = reader.parquet(files.uri(path)).persist()
    unless_done.callback(frame.unpersist)
    try:
        found = content_of(frame)
    except SPARK_FAILURES as error:
        if not is_broken_file(error):
            raise
        raise DataError(f"{files.uri(path)} can not be read to its end: {_HALF}") from error
    if found.rows != about["rows"]:
        raise DataError(f"{files.uri(path)} has {found.rows} rows, and {about['rows']} were saved: {_HALF}")
    if found.hashed != about["hashed"]:
        raise DataError(f"{files.uri(path)} holds other values than were saved: {_HALF}")
    return frame


def _require_known_classes(files: Files, directory: str) -> None:
    """Refuse parts of classes that are not this package's or pyspark.ml's, which would be imported by their names."""
    for entry in files.list(directory):
        path = f"{directory}/{entry.name}"
        if entry.is_directory:
            _require_known_classes(files, path)
        elif directory.endswith(f"/{FOLDER}") and not entry.name.startswith((".", "_")):
            saved = class_in(files.read(path))
            if saved is not None and not saved.startswith(_KNOWN):
                raise DataError(
                    f"{files.uri(path)} names the class {saved}; expected one of dcrec_spark or pyspark.ml, for others "
                    "are not imported while a model is loaded"
                )


def _class_name(cls: type) -> str:
    """Return the public name where there is one: it outlives the module that a class is written in."""
    package = cls.__module__.partition(".")[0]
    is_public = getattr(sys.modules[package], cls.__name__, None) is cls
    return f"{package if is_public else cls.__module__}.{cls.__name__}"


def as_json(value: Any) -> Any:
    """Return a value as JSON holds it: an object of its fields, a list, or itself.

    >>> as_json({"kind": (1, 2.0), "none": None})
    {'kind': [1, 2.0], 'none': None}
    """
    if is_dataclass(value):
        value = vars(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return value.value if isinstance(value, Enum) else value


def from_json(kind: Any, value: Any) -> Any:
    """Return what :func:`as_json` gave, of a type. Fields that the type lacks are passed over."""
    inner = get_args(kind)
    if value is None or not (inner or isinstance(kind, type)):
        return value
    if isinstance(kind, UnionType):
        return from_json(inner[0], value)
    if get_origin(kind) is list:
        return [from_json(inner[0], each) for each in value]
    if get_origin(kind) is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(map(from_json, kinds, value))
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return kind(**{name: from_json(hints[name], value[name]) for name in hints.keys() & value.keys()})
    return kind(value) if issubclass(kind, Enum) else value
