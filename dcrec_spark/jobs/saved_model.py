"""Saved models by the paths that people give: where they are, and which run they are of.

A path is that of a saved model, of a run's directory, or of an output directory, which stands for its current run.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError, DataError, prefix_errors
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.persistence.directory import open_directory, read_metadata
from dcrec_spark.publish.current import CURRENT, RUN_PREFIX, PublishedRun, read_record, run_id_in, run_path
from dcrec_spark.publish.manifest import MANIFEST, RECORD, check_manifest
from dcrec_spark.storage.files import open_files
from dcrec_spark.storage.protocol import Files

FOLDER = "model"


@dataclass(frozen=True)
class Source:
    """Where a model came from. ``model_version`` is that of its run, or the model's uid where it is of none."""

    path: str
    model_version: str
    run_id: str | None


class SavedModel(NamedTuple):
    """A model that was loaded. Its factors are cached until it is released."""

    model: AnyModel
    source: Source


def load_model(spark: SparkSession, path: str, setting: str) -> SavedModel:
    """Load the model that ``setting`` names by ``path``.

    Raises DataError: no whole model is there, or its files are not those that its run published. ConfigError: the path
    can not be opened, or a newer version saved the model.
    """
    files, folder = open_files(path, spark, setting)
    run_id = run_id_in(files, folder)
    if run_id is not None or _is_of_a_run(files, folder):
        run = folder if run_id is None else run_path(folder, run_id)
        if not _has_model(files, run, setting):
            raise DataError(
                f"setting {setting}: {files.uri(run)} is a run without a model; expected one of the job retrain, which "
                "saves its model"
            )
        folder = f"{run}/{FOLDER}"
    _require_undamaged(files, folder, setting)
    where = files.uri(folder)
    with prefix_errors(setting):
        is_blend = read_metadata(*open_directory(where, spark))["class"].endswith(f".{BlendModel.__name__}")
        model: AnyModel = BlendModel.load(where) if is_blend else DeconfoundedMFModel.load(where)
    parent, _, name = where.rpartition("/")
    record = (read_record(parent, spark) if name == FOLDER else None) or {}
    return SavedModel(model, Source(where, record.get("model_version") or model.uid, record.get("run_id")))


def record_of(spark: SparkSession, source: Source) -> dict[str, Any] | None:
    """Read run.json of the run of the model. None if it is of none."""
    return None if source.run_id is None else read_record(source.path.rpartition("/")[0], spark)


def load_previous(spark: SparkSession, before: PublishedRun | None, warnings: list[str]) -> SavedModel | None:
    """Load the model of the run before. None: there is none, or it can't be used, of which ``warnings`` then tell."""
    if before is None:
        return None
    try:
        has_model = _has_model(*open_files(before.directory, spark), "output.path")
        return load_model(spark, before.directory, "output.path") if has_model else None
    except (ConfigError, DataError) as error:
        warnings.append(f"the model of run {before.run_id} is not used: {error}")
        return None


def _require_undamaged(files: Files, path: str, setting: str) -> None:
    """Compare the files of a run's model with the run's manifest. A model that was saved by hand has none.

    A run without its manifest is damaged: so would be a flipped byte in its model, for all that one can tell.
    """
    run, _, name = path.rpartition("/")
    if name == FOLDER and _is_of_a_run(files, run):
        with prefix_errors(setting):
            check_manifest(files, run, f"{name}/")


def _is_of_a_run(files: Files, directory: str) -> bool:
    """Whether a directory is that of a run, by its name, or by its files if somebody has renamed it."""
    is_named_so = directory.rpartition("/")[2].startswith(RUN_PREFIX)
    return is_named_so or any(files.exists(f"{directory}/{name}") for name in (RECORD, MANIFEST))


def _has_model(files: Files, run: str, setting: str) -> bool:
    """Whether a run, which has to be there, has a model. One that its manifest lists and nobody finds is damage."""
    if not files.exists(run):
        raise DataError(
            f"setting {setting}: {CURRENT} names a run that is not there, {files.uri(run)}; restore it, or go back to "
            "another run: dcrec rollback RUN"
        )
    if files.exists(f"{run}/{FOLDER}"):
        return True
    _require_undamaged(files, f"{run}/{FOLDER}", setting)
    return False
