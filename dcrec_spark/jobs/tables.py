"""Tables and files that jobs publish, in the schemas that readers rely on, each row with its run."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dcrec_spark.config.secrets import mask_values
from dcrec_spark.config.sections import ListsConfig, RankingConfig
from dcrec_spark.data.quoting import quoted
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import ConfigError
from dcrec_spark.jobs.inputs import id_columns
from dcrec_spark.jobs.job import TABLE, Catalogue, ConfigT, Context, last_lists
from dcrec_spark.jobs.run_record import Run
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel
from dcrec_spark.publish import schemas
from dcrec_spark.publish.audit import changes
from dcrec_spark.publish.protocol import Save
from dcrec_spark.storage.files import open_files

# Factor by which a hidden reason may change the odds of exposure, for mean_low and mean_high in the tables of overlap.
OVERLAP_ODDS = 2.0
SIMILARITY: Final = "cosine"


def require_exposure(wanted: ListsConfig, has_exposure: bool, found: str) -> None:
    """Refuse overlap and an exposure weight of ``found``, which has no exposure model. Raises ConfigError."""
    if "overlap" in wanted.extra and not has_exposure:
        raise ConfigError(
            f"setting recommend.extra: found overlap, expected a list without it for {found}, which has no exposure "
            "model to take propensities from; outcome.adjustment=deconfounded has one"
        )
    if wanted.exposure_weight and not has_exposure:
        raise ConfigError(
            f"setting recommend.exposure_weight: found {wanted.exposure_weight:g}, expected 0 for {found}, which has "
            "no exposure model; outcome.adjustment=deconfounded has one"
        )


def list_tables(
    context: Context[ConfigT],
    model: AnyModel,
    wanted: RankingConfig,
    catalogue: Catalogue,
    left_out: DataFrame | None,
    ratings: DataFrame | None = None,
    users: DataFrame | None = None,
) -> dict[str, DataFrame]:
    """Rank the catalogue for each user, and make the tables that the settings ask for.

    ratings : those of the fit, under the model's names. Intervals and overlap need them.
    users : those to serve, under the model's name. None: all.
    """
    if wanted.exposure_weight is not None and not (isinstance(model, BlendModel) and wanted.exposure_weight == 0):
        model = model.copy({model.exposureWeight: wanted.exposure_weight})
    run, items, most = context.run, catalogue.items_of(model), catalogue.max_per_category
    extra = wanted.extra if isinstance(wanted, ListsConfig) else ()
    seen = None if left_out is None else left_out.select(*id_columns(model))
    if "intervals" in extra and ratings is not None:
        if isinstance(model, BlendModel):
            raise ConfigError(
                "setting recommend.extra: found intervals, expected a list without it for a blend of models"
            )
        with context.reporter.step("compute intervals"):
            ranked = model.sureRecommendations(wanted.top_n, ratings, seen, users, items=items, maxPerCategory=most)
        context.resources.callback(ranked.unpersist)
    else:
        ranked = model.recommendationTable(wanted.top_n, seen, users, items, most)
    types, rank = {field.name: field.dataType for field in ranked.schema}, {"rank": F.col("rank").cast("int")}
    lists = schemas.recommendations(types["user_id"], types["item_id"], intervals="low" in types)
    tables = {TABLE: _stamp(ranked, run, lists, TABLE, rank)}
    if "fallback" in extra:
        fallback = model.fallbackTable(wanted.top_n, items, most)
        tables["fallback"] = _stamp(fallback, run, schemas.fallback(types["item_id"]), "fallback", rank)
    if "similar_items" in extra:
        similar, measure = model.similarItems(wanted.top_n, SIMILARITY, items), {"measure": F.lit(SIMILARITY)}
        schema = schemas.similar_items(types["item_id"])
        tables["similar_items"] = _stamp(similar, run, schema, "similar_items", rank | measure)
    if "vectors" in extra:
        tables |= _vector_tables(model, run)
    if "overlap" in extra and ratings is not None:
        if model.exposureModel is None:
            run.warnings.append("overlap is not published: no member of the blend with an exposure model has a weight")
        else:
            tables |= _overlap_tables(context, model, ratings, users)
    return _with_changes(context, tables) if "changes" in extra else tables


def _stamp(
    rows: DataFrame, run: Run, schema: StructType, name: str, columns: Mapping[str, Column] | None = None
) -> DataFrame:
    """Make the published table ``name``: rows with further columns and those of the run."""
    return schemas.conform(rows.withColumns({**(columns or {}), **run.stamp()}), schema, name)


def _vector_tables(model: AnyModel, run: Run) -> dict[str, DataFrame]:
    """Make the tables of the vectors whose inner products are the scores. Raises ConfigError: the scores are none."""
    scoring = model.scoringVectors()
    if not scoring.form.is_low_rank:
        raise ConfigError(
            "setting recommend.extra: found vectors, expected a list without it for a model with a link of the "
            "confounder, whose scores are no inner products"
        )
    vector, tables = F.concat("preference", "confounder").cast("array<float>").alias("vector"), {}
    for name, side in {"user_vectors": scoring.users, "item_vectors": scoring.items}.items():
        tables[name] = _stamp(side.select("id", vector), run, schemas.vectors(side.schema["id"].dataType), name)
    return tables


def _overlap_tables(
    context: Context[ConfigT], model: AnyModel, ratings: DataFrame, users: DataFrame | None
) -> dict[str, DataFrame]:
    """Make the published tables of both sides. Items are judged by the ratings of all users."""
    with context.reporter.step("compute overlap"):
        overlaps = dict(zip(("user", "item"), model.overlaps(ratings, OVERLAP_ODDS), strict=True))
    for table in overlaps.values():
        context.resources.callback(table.unpersist)
    if users is not None:
        wanted = users.select(quoted(model.getOrDefault("userCol")).alias("user_id"))
        overlaps["user"] = overlaps["user"].join(wanted, "user_id", "left_semi")
    tables = {}
    for side, table in overlaps.items():
        schema, name = schemas.overlap(side, table.schema[f"{side}_id"].dataType), f"{side}_overlap"
        tables[name] = _stamp(table, context.run, schema, name, {"odds": F.lit(OVERLAP_ODDS)})
    return tables


def _with_changes(context: Context[ConfigT], tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    run = context.run
    lists = context.cache(tables[TABLE])  # two tables need them
    before, kinds = last_lists(context), [lists.schema[name].dataType for name in ("user_id", "item_id")]
    if before is not None and [before.schema[name].dataType for name in ("user_id", "item_id")] != kinds:
        run.warnings.append("changes: the run before has ids of another type, so every row counts as added")
        before = None
    since = None if before is None or context.before is None else context.before.run_id
    changed, schema = changes(before, lists), schemas.changes(*kinds)
    since_run = {"since_run_id": F.lit(since).cast("string")}
    return {**tables, TABLE: lists, "changes": _stamp(changed, run, schema, "changes", since_run)}


def factor_tables(model: AnyModel, run: Run) -> dict[str, DataFrame]:
    """Make the published tables of both sides' factors."""
    return {
        f"{side}_factors": _stamp(table, run, schemas.factors(side, table.schema["id"].dataType), f"{side}_factors")
        for side, table in zip(("user", "item"), model.factorTables(), strict=True)
    }


def reject_table(valid: Validated, run: Run) -> DataFrame:
    """Make the published table of rows that were not used."""
    return schemas.conform(valid.rejects.withColumn("run_id", F.lit(run.run_id)), schemas.REJECTS, "rejects")


def text_file(spark: SparkSession, name: str, text: str) -> Save:
    """Return a function that writes a folder with one file: ``text`` without the secrets that are known."""

    def save(uri: str) -> None:
        files, directory = open_files(uri, spark)
        files.make_directory(directory)
        files.write(f"{directory}/{name}", mask_values(text).encode())

    return save


def model_folder(model: AnyModel, spark: SparkSession) -> Save:
    """Return a function that writes a folder from which the model can be loaded."""
    return lambda uri: model.write().session(spark).save(uri)
