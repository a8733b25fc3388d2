"""A saved model comes back as it was, and what is none, or half of one, is told as such."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.ml.feature import SQLTransformer
from pyspark.sql import DataFrame, SparkSession

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.models.persistence import directory, mlio
from dcrec_spark.models.persistence.directory import read_metadata, write_metadata
from dcrec_spark.storage import staging
from dcrec_spark.storage.hadoop import HadoopFiles
from dcrec_spark.storage.local import LocalFiles
from dcrec_spark.version import __version__
from tests.frames import frame_of
from tests.models.data_sets import by_id, cached


def factors(spark: SparkSession, value: float) -> DataFrame:
    rows = [(i, [value + i, 2.0], [1.0, 0.5]) for i in range(3)]
    return frame_of(spark, rows, "id int, shape array<double>, rate array<double>").repartition(2, "id")


def exposure_model(spark: SparkSession, value: float) -> PoissonFactorizationModel:
    model = PoissonFactorizationModel(factors(spark, value), factors(spark, -value), [value])
    return model._setDefault(userCol="user", itemCol="item", exposureCol="a_hat")


def value_of(model: PoissonFactorizationModel) -> float:
    """What the model was made with, if all of it is of one make."""
    value = model.elboHistory[0]
    assert by_id(model.userFactors)["shape"][:, 0].tolist() == [value, value + 1, value + 2]
    assert by_id(model.itemFactors)["shape"][:, 0].tolist() == [-value, 1 - value, 2 - value]
    return value


def load(path: Path | str) -> PoissonFactorizationModel:
    return PoissonFactorizationModel.load(str(path))


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model"
    exposure_model(spark, 1.0).save(str(path))
    return path


@pytest.fixture
def saved(first: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(first, tmp_path / "model"))


@pytest.fixture
def released(spark: SparkSession) -> Iterator[None]:
    before = cached(spark)
    yield
    assert cached(spark) == before


@pytest.mark.parametrize("store", ["local", "hadoop"])
@pytest.mark.usefixtures("released")
def test_a_model_is_saved_replaced_and_loaded(
    spark: SparkSession, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was loaded before goes on with what it has cached; the directory holds one model, and nothing is beside."""
    if store == "hadoop":
        through = HadoopFiles(spark, "file:///", "path")
        monkeypatch.setattr(HadoopFiles, "lock", lambda _, path: LocalFiles().lock(path))  # Hadoop's takes HDFS
        monkeypatch.setattr(directory, "open_files", lambda path, *_: (through, path.removeprefix("file://")))
    path = str(tmp_path / "deep" / "model")
    exposure_model(spark, 1.0).save(path)
    old = load(path)
    exposure_model(spark, 2.0).write().overwrite().save(path)
    new = load(path)
    assert (value_of(old), value_of(new)) == (1.0, 2.0)
    assert names_in(tmp_path / "deep") == ["model"]
    assert [name[:5] for name in names_in(Path(path)) if not name.endswith(".crc")] == [".lock", "data-", "metad"]
    other = load(path)
    for released in (old, other):  # no model takes another's tables along
        released.release()
    assert new.userFactors.storageLevel.useMemory
    new.release()


@pytest.mark.usefixtures("released")
def test_an_estimator_is_saved_with_its_fitted_exposure_model(spark: SparkSession, tmp_path: Path) -> None:
    """With an estimator in its place it is saved in tests/models/test_contract.py."""
    DeconfoundedMF(exposureModel=exposure_model(spark, 3.0)).save(str(tmp_path / "estimator"))
    found = DeconfoundedMF.load(str(tmp_path / "estimator")).getOrDefault("exposureModel")
    assert value_of(found) == 3.0
    found.release()


def test_an_estimator_with_a_table_of_features_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    features = frame_of(spark, [(1, 2.0)], "user int, age double")
    estimator = DeconfoundedMF(userFeatures=features)
    with pytest.raises(ConfigError, match=r"userFeatures: found a table, .*: clear the Param"):
        estimator.save(str(tmp_path / "estimator"))
    assert names_in(tmp_path) == []
    estimator.clear(estimator.userFeatures)
    estimator.save(str(tmp_path / "estimator"))


def test_a_path_in_use_is_refused(spark: SparkSession, saved: Path) -> None:
    with pytest.raises(ConfigError, match=r"model exists already; write\(\)\.overwrite\(\)\.save"):
        exposure_model(spark, 2.0).save(str(saved))
    assert names_in(saved.parent) == ["model"]
    assert read_metadata(LocalFiles(), str(saved))["facts"]["elboHistory"] == [1.0]


def test_only_saved_models_and_empty_folders_are_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    """pyspark.ml would delete anything."""
    (tmp_path / "file").write_text("years of work")
    (tmp_path / "folder" / "chapters").mkdir(parents=True)
    SQLTransformer(statement="SELECT * FROM __THIS__").save(str(tmp_path / "model-of-spark"))
    before = names_in(tmp_path)
    for name in before:
        with pytest.raises(ConfigError, match=f"{name} was not saved by dcrec-spark, and only what it saved is overw"):
            exposure_model(spark, 2.0).write().overwrite().save(str(tmp_path / name))
    assert names_in(tmp_path) == before
    (tmp_path / "empty").mkdir()
    PoissonFactorization(rank=3).write().overwrite().save(str(tmp_path / "empty"))
    assert PoissonFactorization.load(str(tmp_path / "empty")).getOrDefault("rank") == 3


def test_a_path_that_can_not_hold_a_model_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Nor one that Spark would look for elsewhere: a pipeline around the model writes its own part by Spark."""
    refused = {
        "gs://bucket/model": "cannot be opened .*that of 'dcrec jars gcs'",
        f"{__file__}/model": "where this user can not write",
    }
    for path, why in refused.items():
        with pytest.raises(ConfigError, match=f"the path of a model is .*{why}"):
            PoissonFactorization().save(path)
    spark.conf.set("fs.defaultFS", "hdfs://namenode")
    try:
        with pytest.raises(ConfigError, match=f"write hdfs://namenode{tmp_path}/m, or file:{tmp_path}/m"):
            PoissonFactorization().save(f"{tmp_path}/m")
        PoissonFactorization().save(f"file:{tmp_path}/m")
    finally:
        spark.conf.unset("fs.defaultFS")


def test_a_write_that_fails_leaves_the_old_model_and_nothing_else(spark: SparkSession, saved: Path) -> None:
    broken = PoissonFactorizationModel(factors(spark, 2.0), spark.range(3).selectExpr("raise_error('lost') id"), [2.0])
    with pytest.raises(Exception, match="lost"):
        broken.write().overwrite().save(str(saved))
    assert names_in(saved.parent) == ["model"]
    assert value_of(load(saved)) == 1.0


def test_rows_that_the_driver_can_not_see_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging.Observation, "get", {"rows": 9, "hashed": "0"})
    with pytest.raises(DataError, match=r"9 rows were written to .*, and 3 are there.*set the path of a model to one"):
        exposure_model(spark, 1.0).save(str(tmp_path / "model"))
    assert names_in(tmp_path) == []


def edit(saved: Path, **changes: Any) -> None:
    path = saved / "metadata" / "part-00000"
    metadata = json.loads(path.read_text()) | changes
    metadata.pop("sha256", None)
    write_metadata(LocalFiles(), str(saved), metadata)
    if "formatVersion" in changes:
        path.write_text(json.dumps(metadata))


def edit_text(saved: Path, old: str, new: str) -> None:
    path = saved / "metadata" / "part-00000"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def edit_factors(saved: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    for part in (data_of(saved) / "frames" / "users").glob("*.parquet"):
        change(pd.read_parquet(part)).to_parquet(part)
        (part.parent / f".{part.name}.crc").unlink(missing_ok=True)


def without_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(shape=[[float("nan") if value == 2.0 else value for value in row] for row in frame["shape"]])


def with_an_id_twice(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(id=frame["id"].replace(2, 1).astype("int32"))


def data_of(saved: Path) -> Path:
    return next(saved.glob("data-*"))


def cut(part: Path) -> None:
    os.truncate(part, part.stat().st_size // 2)


def damage_parts(saved: Path, damage: Callable[[Path], Any]) -> None:
    parts = list((data_of(saved) / "frames" / "users").glob("*.parquet"))
    largest = max(part.stat().st_size for part in parts)
    for part in parts:
        if part.stat().st_size == largest:
            damage(part)


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (shutil.rmtree, "there is no saved model at file:.*/model"),
        (lambda saved: shutil.rmtree(saved / "metadata"), "is no model that dcrec-spark saved, or half of one"),
        (lambda saved: (saved / "metadata/part-00000").write_text("{"), "is no model that dcrec-spark saved"),
        (lambda saved: edit(saved, formatVersion=None), "is no model that dcrec-spark saved"),
        (lambda saved: edit(saved, data="../../etc"), "metadata/part-00000 is damaged: data is missing or not as"),
        (lambda saved: shutil.rmtree(data_of(saved)), "frames/users is missing: this is half a model"),
        (lambda saved: damage_parts(saved, Path.unlink), "frames/users has [012] rows, and 3 were saved: this is half"),
        (lambda saved: damage_parts(saved, cut), "frames/users can not be read to its end: this is half a model"),
        (lambda saved: edit(saved, parts=["exposureModel"]), "no saved model at .*/parts/exposureModel"),
        (lambda saved: edit_factors(saved, without_numbers), "frames/users holds other values than were saved"),
        (lambda saved: edit_factors(saved, with_an_id_twice), "frames/users holds other values than were saved"),
        (lambda saved: edit_text(saved, "[1.0]", '["1.0"]'), "is damaged or was edited: .* the checksum in it"),
    ],
)
def test_half_a_model_is_told_as_such(
    spark: SparkSession, saved: Path, damage: Callable[[Path], Any], found: str
) -> None:
    damage(saved)
    with pytest.raises(DataError, match=found):
        load(saved)


@pytest.mark.usefixtures("released")
def test_no_class_of_strangers_is_imported_while_a_model_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "estimator"
    DeconfoundedMF(exposureModel=PoissonFactorization()).save(str(path))
    part = next(path.glob("data-*/params/exposureModel"))
    stage = part / "data-x" / "stages" / "0_x"
    shutil.copytree(part / "metadata", stage / "metadata")
    for inner in (part, stage):
        edit(inner, **{"class": "os.path"})
        with pytest.raises(DataError, match=r"names the class os\.path; expected one of dcrec_spark or pyspark\.ml"):
            DeconfoundedMF.load(str(path))
        edit(inner, **{"class": "dcrec_spark.PoissonFactorization"})


def test_another_format_is_refused_and_may_be_overwritten(spark: SparkSession, saved: Path) -> None:
    """After a return to an older version. A model of another class is refused too."""
    with pytest.raises(DataError, match=r"holds a .*PoissonFactorizationModel, .*by PoissonFactorizationModel\.load"):
        DeconfoundedMFModel.load(str(saved))
    edit(saved, formatVersion=1)
    with pytest.raises(ConfigError, match=r"saved in format 1; .*which reads format 4: fit the model again"):
        load(saved)
    edit(saved, formatVersion=5, dcrecVersion="7.0.1")
    with pytest.raises(ConfigError, match=rf"format 5 by dcrec-spark 7\.0\.1; this is {__version__}.*up to 4: upgrade"):
        load(saved)
    PoissonFactorization().write().overwrite().save(str(saved))
    assert PoissonFactorization.load(str(saved)).uid


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize("where", ["paramMap", "defaultParamMap"])
def test_an_unknown_param_is_refused(spark: SparkSession, saved: Path, where: str) -> None:
    edit(saved, **{where: {"userCol": "user", "warp": 9}}, dcrecVersion="7.0.1")
    with pytest.raises(ConfigError, match=rf"dcrec-spark 7\.0\.1 has the parameter warp, .*{__version__}.*: upgrade"):
        load(saved)


@pytest.mark.usefixtures("released")
def test_a_model_replaced_meanwhile_is_read_again(
    spark: SparkSession, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_frame, asked = mlio._read_frame, []

    def replaced_meanwhile(*arguments: Any) -> DataFrame:
        if len(asked) == 1:
            exposure_model(spark, 2.0).write().overwrite().save(str(saved))
        asked.append(arguments[2])
        return read_frame(*arguments)

    monkeypatch.setattr(mlio, "_read_frame", replaced_meanwhile)
    model = load(saved)
    assert value_of(model) == 2.0
    assert len(asked) == 4
    model.release()
