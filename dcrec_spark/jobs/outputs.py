"""Tables and files as the jobs publish them: rows tied to their run, in the schemas that readers rely on."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import mask_known
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish import schemas
from dcrec_spark.publish.protocol import Save
from dcrec_spark.storage.files import open_files


def recommendation_table(ranked: DataFrame, run: Run) -> DataFrame:
    """``ranked`` as recommendationTable or sureRecommendations of a model gives it -> the published table."""
    types = {field.name: field.dataType for field in ranked.schema}
    schema = schemas.recommendations(types["user_id"], types["item_id"], intervals="low" in types)
    stamped = ranked.withColumns({"rank": F.col("rank").cast("int"), **run.stamp()})
    return schemas.conform(stamped, schema, "recommendations")


def fallback_table(ranked: DataFrame, run: Run) -> DataFrame:
    """``ranked`` as DeconfoundedMFModel.fallbackTable gives it -> the published table."""
    stamped = ranked.withColumns({"rank": F.col("rank").cast("int"), **run.stamp()})
    return schemas.conform(stamped, schemas.fallback(ranked.schema["item_id"].dataType), "fallback")


def similar_table(ranked: DataFrame, measure: str, run: Run) -> DataFrame:
    """``ranked`` as DeconfoundedMFModel.similarItems gives it -> the published table."""
    stamped = ranked.withColumns({"rank": F.col("rank").cast("int"), "measure": F.lit(measure), **run.stamp()})
    return schemas.conform(stamped, schemas.similar_items(ranked.schema["item_id"].dataType), "similar_items")


def overlap_table(seen: DataFrame, side: str, odds: float, run: Run) -> DataFrame:
    """``seen`` as DeconfoundedMFModel.overlap gives it for that side and these odds -> the published table."""
    stamped = seen.withColumns({"odds": F.lit(odds), **run.stamp()})
    return schemas.conform(stamped, schemas.overlap(side, seen.schema[f"{side}_id"].dataType), f"{side}_overlap")


def change_table(changed: DataFrame, since: str | None, run: Run) -> DataFrame:
    """Make the published table of what ``list_changes.changes`` gives, since the run of that id."""
    schema = schemas.changes(changed.schema["user_id"].dataType, changed.schema["item_id"].dataType)
    stamped = changed.withColumns({"since_run_id": F.lit(since).cast("string"), **run.stamp()})
    return schemas.conform(stamped, schema, "changes")


def factor_tables(model: DeconfoundedMFModel, run: Run) -> dict[str, DataFrame]:
    """Make the published tables of both sides' factors."""
    users, items = (table.withColumns(run.stamp()) for table in model.factorTables())
    user_schema = schemas.user_factors(users.schema["id"].dataType)
    item_schema = schemas.item_factors(items.schema["id"].dataType)
    return {
        "user_factors": schemas.conform(users, user_schema, "user_factors"),
        "item_factors": schemas.conform(items, item_schema, "item_factors"),
    }


def vector_tables(model: DeconfoundedMFModel, run: Run) -> dict[str, DataFrame]:
    """Make the published tables of the vectors whose inner products are the scores.

    Raises
    ------
    ConfigError : the model's scores are none.
    """
    scoring = model.scoringVectors()
    if not scoring.form.is_low_rank:
        raise ConfigError(
            "setting recommend.vectors: found true, expected false for a model with a link of the confounder, whose "
            "scores are no inner products"
        )
    sides = {"user_vectors": scoring.users, "item_vectors": scoring.items}
    return {name: _vector_table(name, vectors, run) for name, vectors in sides.items()}


def _vector_table(name: str, vectors: DataFrame, run: Run) -> DataFrame:
    both = F.concat("preference", "confounder").cast("array<float>")
    stamped = vectors.select("id", both.alias("vector")).withColumns(run.stamp())
    return schemas.conform(stamped, schemas.vectors(vectors.schema["id"].dataType), name)


def reject_table(valid: Validated, run: Run) -> DataFrame:
    """Make the published table of rows that were not used."""
    return schemas.conform(valid.rejects.withColumn("run_id", F.lit(run.run_id)), schemas.REJECTS, "rejects")


def text_file(spark: SparkSession, name: str, text: str) -> Save:
    """Return what writes a folder with one file of that name: ``text`` without the secrets that are known."""

    def save(uri: str) -> None:
        files, directory = open_files(uri, spark)
        files.make_directory(directory)
        files.write(f"{directory}/{name}", mask_known(text).encode())

    return save


def model_folder(model: DeconfoundedMFModel, spark: SparkSession) -> Save:
    """Return what writes a folder from which ``DeconfoundedMFModel.load`` reads the model."""
    return lambda uri: model.write().session(spark).save(uri)
