"""Sections of settings that jobs share, and the configuration types that jobs start from."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import PrivateAttr

from dcrec_spark.config import types as t
from dcrec_spark.config.stages import EngineConfig, ExposureConfig, OutcomeConfig
from dcrec_spark.config.types import Section, setting
from dcrec_spark.settings.tables import LEAST_SQUARES

BlendMember = Literal["none", "reconstruction", "logarithm", "factors", "factors_no_intercept"]
Extra = Literal["intervals", "overlap", "fallback", "similar_items", "vectors", "changes"]


class RunSection(Section):
    """Name, day and seed of the run."""

    name: t.RunName = setting("Name of the run and of the Spark application.", "dcrec")
    run_date: t.RunDate = setting("Day of the tables, YYYY-MM-DD; null: today in UTC.", validate_default=True)
    seed: t.Whole = setting("Random seed.", 42, ge=0, le=2**63 - 1)
    preset: Literal["counts"] | None = setting(
        "Defaults of outcome; counts: for plays and clicks; null: for ratings on a scale."
    )
    metrics_file: t.Place | None = setting("Local file *.prom for Prometheus' textfile collector; null: none.")


class SparkConfig(Section):
    """Spark session."""

    master: t.Text | None = setting(
        "Spark master, such as local[2] or yarn; null: that of spark-submit. Without spark-submit, null means all "
        "cores of this machine."
    )
    checkpoint_dir: t.Place | None = setting(
        "Directory that all executors reach; required on a cluster. The job removes its files at the end."
    )
    conf: t.TextMap = setting("Spark properties, such as {spark.executor.memory: 8g}.", {})


class ColumnNames(Section):
    """Names of the input's columns. Movielens, coat and yahoo-r3 have their own."""

    user: t.Text = setting("User ids.", "user")
    item: t.Text = setting("Item ids.", "item")
    rating: t.Text = setting("Ratings, or numbers of events (validation.kind=counts).", "rating")
    count: t.Text | None = setting("Exposure counts: how often the user was shown the item, > 0.")
    propensity: t.Text | None = setting("Probability that the pair is rated, in (0, 1] (outcome.adjustment=ipw).")
    timestamp: t.Text | None = setting("Timestamp, date, or seconds since 1970.")

    def mapped(self) -> dict[str, str]:
        """Map roles to columns, ``{"user": column, ...}``, for the columns that the input has."""
        return {role: column for role, column in self.model_dump().items() if column is not None}

    def _conflicts(self) -> Iterator[str]:
        columns = list(self.mapped().values())
        twice = sorted({column for column in columns if columns.count(column) > 1})
        if twice:
            yield f"a different column for each of {', '.join(self.mapped())}; {twice} is named twice"


InputFormat = Literal["parquet", "csv", "json", "orc", "avro", "table", "movielens", "coat", "yahoo-r3", "jdbc"]


class InputConfig(Section):
    """Location and layout of the ratings."""

    format: InputFormat = setting(
        "Format of the ratings. json: an object in each line. avro needs org.apache.spark:spark-avro_2.13 in "
        "spark.jars.packages. The files of parquet and orc may have different columns.",
        "parquet",
    )
    path: t.Place | None = setting("File, directory or glob. Not for the formats table and jdbc.")
    table: t.Text | None = setting("Name of the table (formats table and jdbc).")
    snapshot: t.Snapshot | None = setting(
        "Snapshot id of an Iceberg table, or version of a Delta table; null: the current one. The run's record names "
        "the snapshot that was read."
    )
    options: t.TextMap = setting(
        'Options of Spark\'s reader, such as {url: "jdbc:...", password: "${env:PASSWORD}"}. For csv: {header: '
        'false, sep: ";", encoding: iso-8859-1}. Without a header the columns are _c0, _c1, ... One task reads a '
        "file in utf-16, or with multiLine: true, which ids with line breaks need.",
        {},
    )
    columns: ColumnNames = ColumnNames()
    id_type: Literal["auto", "string", "long"] = setting(
        "Type of the ids; auto: as stored. With auto, ids of csv and in names of directories are text, and ids of "
        "movielens, coat and yahoo-r3 are whole numbers. Decimals and floating-point numbers become whole numbers. A "
        "row whose id would change is rejected.",
        "auto",
    )
    since: t.Day | None = setting("First day of the ratings to use; null: no limit. By input.columns.timestamp.")
    until: t.Day | None = setting(
        "Last day of the ratings to use; null: run.run_date. So null is no limit today, and a run for a past day never "
        "learns from later ratings. Rows without a timestamp are rejected where there is a limit. An input without "
        "timestamps has none."
    )

    def _conflicts(self) -> Iterator[str]:
        if self.format == "csv":
            given = {name.lower(): value.lower() for name, value in self.options.items()}
            allowed = {"header": ("true", "false"), "encoding": ("utf-8", "iso-8859-1", "utf-16")}
            for name, values in allowed.items():
                if name in given and given[name] not in values:
                    yield f"options.{name} one of {', '.join(values)}; found {given[name]!r}"
            if "sep" in given and not given["sep"]:
                yield "options.sep with a character or more; found ''"


class ServedFeaturesConfig(InputConfig):
    """Location and layout of the ratings."""

    user_features: t.Place | None = setting(
        "Features of users: Parquet, CSV or table; null: none. The column input.columns.user has the ids, each once, "
        "all others have numbers. Each item gets slopes on them (outcome=weighted or probabilistic). A user without a "
        "row, or with an empty cell, is at the mean."
    )


class FeaturesConfig(ServedFeaturesConfig):
    """Location and layout of the ratings."""

    item_features: t.Place | None = setting(
        "Features of items: Parquet, CSV or table; null: none. As user_features, with ids in input.columns.item."
    )


class RetrainInputConfig(FeaturesConfig):
    """Location and layout of the ratings."""

    unchanged: Literal["run", "skip"] = setting(
        "Action if nothing changed since the current run; skip: end with 0. Ratings, settings and version are "
        "compared. A run that skips leaves the published run in place. Iceberg and Delta tables are compared by their "
        "snapshot, other inputs after validation.",
        "run",
    )


class ValidationConfig(Section):
    """Rules for rows. Bad rows go to the table of rejects with all their reasons."""

    kind: Literal["ratings", "counts"] = setting(
        "Content of input.columns.rating; counts: numbers of events, > 0.", "ratings"
    )
    scale_min: t.Real | None = setting("Smallest rating; null: no limit.")
    scale_max: t.Real | None = setting("Largest rating; null: no limit.")
    duplicates: Literal["error", "last", "mean", "sum"] = setting(
        "Treatment of several rows of one pair. last needs timestamps, and rejects rows without; sum needs counts.",
        "error",
    )
    max_reject_share: t.Share = setting(
        "Largest share of bad rows. Rows left out by the limits on numbers of ratings do not count as bad.", 0.05
    )
    min_ratings_per_user: t.Positive = setting("Fewest items of a user. Counted once, before anything is left out.", 1)
    min_ratings_per_item: t.Positive = setting("Fewest users of an item. Counted once, before anything is left out.", 1)
    max_ratings_per_user: t.Positive | None = setting(
        "Most ratings used of a user; null: no limit. The most recent ones stay. Without timestamps random ones stay, "
        "by run.seed."
    )

    def _conflicts(self) -> Iterator[str]:
        low, high = self.scale_min, self.scale_max
        if low is not None and high is not None and low > high:
            yield f"scale_min at most scale_max; found {low:g} and {high:g}"
        if self.duplicates == "sum" and self.kind == "ratings":
            yield "kind=counts with duplicates=sum: the sum of two ratings is not a rating; use mean or last"
        least, most = self.min_ratings_per_user, self.max_ratings_per_user
        if most is not None and most < least:
            yield f"max_ratings_per_user at least min_ratings_per_user; found {most} and {least}"


class OutputConfig(Section):
    """Location of the published tables."""

    path: t.Place | None = setting("Output directory. Each run gets a directory in it.")
    keep: t.AtLeastTwo | None = setting(
        "Runs to keep for rollback; null: all in output.path, 7 in warehouses. Publishing a run removes older ones. A "
        "Delta table keeps its own history."
    )


class PostgresqlConfig(Section):
    """PostgreSQL database. Needs pip install 'dcrec-spark[warehouse]' and the JDBC driver in spark.jars."""

    url: t.Text | None = setting("jdbc:postgresql://host:port/database, without password; null: not used.")
    user: t.Text | None = setting("Database user; null: the user of this process.")
    password_file: t.Text | None = setting(
        "File whose first line is the password; null: environment variable PGPASSWORD."
    )
    namespace: t.Text = setting("Schema of the tables. Created if missing.", "public")


class WarehousesConfig(Section):
    """Warehouses that also receive the tables. spark.conf sets up the catalogs."""

    hive: t.Text | None = setting("Database of Spark's session catalog; null: not used.")
    iceberg: t.Text | None = setting("catalog.database of Iceberg tables; null: not used.")
    delta: t.Text | None = setting("[catalog.]database of Delta tables; null: not used.")
    postgresql: PostgresqlConfig = PostgresqlConfig()
    other: dict[str, dict[str, Any]] = setting(
        "Sinks of other packages, {name: {setting: value}}. A sink is found by its name in the entry point group "
        "dcrec_spark.sinks, and checks its own settings.",
        {},
    )

    def _conflicts(self) -> Iterator[str]:
        if self.hive is not None and self.hive == self.delta:
            yield f"two namespaces for hive and delta; found {self.hive!r} for both"


class AuditConfig(Section):
    """Limits that a run must keep to be published. Otherwise the job ends with exit code 4."""

    max_churn: t.Share | None = setting(
        "Largest share of list places whose item changed; null: no limit. Compared with the run before, for users of "
        "both runs."
    )
    min_coverage: t.Share | None = setting("Smallest share of the catalogue that is in some list; null: no limit.")
    force: bool = setting(
        "Publish even if a limit is exceeded. The record says so. --force sets it. Damaged tables are never published.",
        False,
    )


class RetrainAuditConfig(AuditConfig):
    """Limits that a run must keep to be published. Otherwise the job ends with exit code 4."""

    max_volume_fall: t.Share | None = setting(
        "Largest relative fall of the number of ratings; null: no limit. Compared with the run before. A fall by a "
        "tenth is a warning. Beyond the limit the job ends with exit code 3 before any fit.",
        0.5,
    )
    max_new_rejects: t.Share | None = setting(
        "Largest share of bad rows among new ones; null: no limit. For each reason, and for rows without a timestamp, "
        "compared with the run before. validation.max_reject_share is where warnings begin. Beyond the limit the job "
        "ends with exit code 3 before any fit.",
        0.5,
    )
    held_out_share: t.Part | None = setting(
        "Share of ratings held out to compare models; null: no comparison. The same pairs in every run. Models are "
        "compared by NDCG@10 over the whole catalogue."
    )
    max_loss: t.Share | None = setting("Largest relative loss of NDCG@10 to the last model; null: no limit.", 0.1)
    max_below_popularity: t.Share | None = setting(
        "Largest relative loss of NDCG@10 to popularity; null: no limit. Popularity recommends the most rated items "
        "to all.",
        0.0,
    )
    list_check: Literal["off", "warn"] = setting(
        "Comparison of the lists with popularity; warn: where they have less than half of its NDCG@10 on held-out "
        "ratings. It fits both stages once more, without a twentieth of the ratings, in this process. So it is skipped "
        "beyond 2 million ratings, and where held_out_share compares anyway. It ranks for the users with held-out "
        "ratings, of a large catalogue for a sample of them. The published model has all ratings.",
        "warn",
    )
    exposure_check: Literal["off", "warn", "refuse"] = setting(
        "Predictive check of the exposure model; refuse: end if it fails. The check fits stage 1 once more with a "
        "fifth of the exposures held out, and compares these with 100 draws for all pairs. On small data it takes "
        "longer than both fits.",
        "warn",
    )


class ServedModelConfig(Section):
    """Saved model."""

    path: t.Place | None = setting(
        "Saved model, run directory, or output directory. An output directory stands for its current run."
    )


class WarmStartConfig(Section):
    """Start of the fit, and resumption."""

    warm_start: t.Place | None = setting(
        "Saved model to start from, or previous; null: cold start. previous is the model of the current run under "
        "output.path, if there is one."
    )
    blend: tuple[BlendMember, ...] = setting(
        "Members of a blend, the weighted mean of several models whose weights a fifth of the ratings chooses; []: one "
        "model. Each member is fitted twice. It needs outcome.adjustment=deconfounded, and outcome=weighted or "
        "probabilistic.",
        (),
    )
    checkpoint_seconds: t.Natural = setting(
        "Seconds between checkpoints of a fit under output.path; 0: none. An interrupted run that is started again "
        "resumes from the last one.",
        300,
    )


class ListLengthConfig(Section):
    """Lists of recommendations."""

    top_n: t.Positive = setting("Number of items per user.", 10)


class RankingConfig(ListLengthConfig):
    """Lists of recommendations."""

    exclude_seen: bool = setting("Leave out items that the user has rated.", True)
    exposure_weight: t.Share | None = setting(
        "Order of lists; 0: by potential rating; up to 1: by (score - the user's baseline) * P(exposure)^weight; null: "
        "as the saved model has it, 0 in retraining. The column score stays the potential rating, the column rank is "
        "the order. Above 0 it needs outcome.adjustment=deconfounded."
    )
    catalogue: t.Place | None = setting(
        "Items that may be recommended: Parquet, CSV or table; null: all items. They are in the column "
        "input.columns.item. A table where input.format is one."
    )
    exclude: t.Place | None = setting(
        "Pairs that must not be recommended: Parquet, CSV or table; null: none. They are in the columns "
        "input.columns.user and input.columns.item."
    )
    max_per_category: t.Positive | None = setting(
        "Most items of one category in a list; null: any number. The category is the catalogue's column category."
    )

    def _conflicts(self) -> Iterator[str]:
        if self.max_per_category is not None and self.catalogue is None:
            yield "catalogue set, whose column category says what max_per_category counts"


class ListsConfig(RankingConfig):
    """Lists of recommendations, and tables published with them."""

    extra: tuple[Extra, ...] = setting(
        "More to publish. intervals: columns low, high, extrapolates and odds_to_change in recommendations "
        "(outcome=weighted or probabilistic). overlap: tables user_overlap and item_overlap, which say how many "
        "ratings each user and item is worth, and what a hidden reason for exposure could do to their mean (models "
        "with an exposure model). fallback: one list for users without ratings. similar_items: for each item the "
        "top_n items with the most similar factors, by cosine. vectors: tables user_vectors and item_vectors, whose "
        "inner product is the score without the intercept (confounder_link=identity). changes: rows added, removed "
        "and moved since the run before. intervals and overlap need all ratings of the fit.",
        (),
    )


class RecommendConfig(ListsConfig):
    """Lists of recommendations, and tables published with them."""

    users: t.Place | None = setting(
        "Users to serve, as Parquet or CSV; null: all users. They are in the column input.columns.user."
    )


class RelevanceConfig(Section):
    """Relevance of held-out ratings."""

    relevant_from: t.NonNegativeReal = setting("Smallest rating of a relevant item.", 3.0)


class JobConfig(Section):
    """The settings of every job: the run, the Spark session, the output."""

    job: ClassVar[str] = ""

    run: RunSection = RunSection()
    spark: SparkConfig = SparkConfig()
    output: OutputConfig = OutputConfig()

    _as_written: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def as_written(self) -> dict[str, str]:
        """Dotted name -> text of the settings written with ``${env:...}``: recorded in place of their values."""
        return self._as_written


class PlacesConfig(JobConfig):
    """The settings of commands that look at published runs: ``dcrec runs`` and ``dcrec rollback``."""

    job: ClassVar[str] = "runs"

    warehouses: WarehousesConfig = WarehousesConfig()


class ReadingConfig(JobConfig):
    """The settings of a job that reads ratings."""

    input: InputConfig = InputConfig()
    validation: ValidationConfig = ValidationConfig()

    def _conflicts(self) -> Iterator[str]:
        brings_timestamps = self.input.format == "movielens" or self.input.columns.timestamp is not None
        if self.validation.duplicates == "last" and not brings_timestamps:
            yield "input.columns.timestamp set, for validation.duplicates=last keeps the most recent rating"
        for name in ("since", "until"):
            if getattr(self.input, name) is not None and not brings_timestamps:
                yield f"input.columns.timestamp set, by which input.{name} chooses rows"


class FittingConfig(ReadingConfig):
    """The settings of a job that fits both stages to ratings."""

    input: FeaturesConfig = FeaturesConfig()
    exposure: ExposureConfig = ExposureConfig()
    outcome: OutcomeConfig = OutcomeConfig()
    engine: EngineConfig = EngineConfig()

    def _conflicts(self) -> Iterator[str]:
        yield from super()._conflicts()
        given = [name for name in ("user_features", "item_features") if getattr(self.input, name) is not None]
        outcome = self.outcome.outcome
        if given and outcome not in LEAST_SQUARES:
            yield f"outcome.outcome={' or '.join(LEAST_SQUARES)} where input.{given[0]} is set; found {outcome}"


class ServingConfig(ReadingConfig):
    """The settings of a job that ranks by a saved model, for users and ratings that it reads."""

    model: ServedModelConfig = ServedModelConfig()
