"""The sections that several jobs have, and the configuration that every job starts from.

``JobConfig`` holds what each job has: the run, the Spark session, the output. ``ReadingConfig`` adds ratings that are
read and validated, ``FittingConfig`` the two stages that are fitted to them.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from dcrec_spark.config.section import Section
from dcrec_spark.config.stages import EngineConfig, ExposureConfig, OutcomeConfig
from dcrec_spark.config.types import (
    AtLeastOne,
    AtLeastTwo,
    Natural,
    NonNegativeReal,
    Place,
    Positive,
    Real,
    RunDate,
    RunName,
    Share,
    Snapshot,
    Text,
    TextMap,
    Whole,
)


class RunSection(Section):
    """What the run is called, which day it stands for, where its randomness starts."""

    name: RunName = Field(
        default="dcrec", description="letters, digits, '.', '_', '-'; the Spark application has this name"
    )
    run_date: RunDate = Field(
        default=None,
        validate_default=True,
        description="YYYY-MM-DD, the day that the tables stand for; null: today, in UTC",
    )
    seed: Whole = Field(
        default=42, ge=0, le=2**63 - 1, description="the same seed, input and settings give the same factors"
    )
    preset: Literal["counts"] | None = Field(
        default=None,
        description="defaults of the section outcome. counts: for plays and clicks; null: for ratings on a scale",
    )
    metrics_file: Place | None = Field(
        default=None,
        description="a local file *.prom that is replaced after each run, for Prometheus' textfile collector; null: "
        "none",
    )
    mlflow_uri: Text | None = Field(
        default=None,
        description="an MLflow server, or sqlite:///file.db, that is told of each run; one that does not answer is a "
        "warning and never fails a run; null: none",
    )
    mlflow_experiment: Text = Field(default="dcrec", description="the experiment there, made where it is missing")


class SparkConfig(Section):
    """The Spark session: where it runs, where it checkpoints, and any Spark property."""

    master: Text | None = Field(
        default=None,
        description="local[2], spark://..., yarn; null: as spark-submit has it, else every core of this machine",
    )
    checkpoint_dir: Place | None = Field(
        default=None,
        description="a directory that all executors reach; needed on a cluster, not in local mode. What the job writes "
        "there is removed when it ends",
    )
    conf: TextMap = Field(default={}, description="any Spark property, such as {spark.executor.memory: 8g}")


class ColumnNames(Section):
    """The name of each column of the input; movielens, coat and yahoo-r3 know theirs."""

    user: Text = Field(default="user", description="ids of users")
    item: Text = Field(default="item", description="ids of items")
    rating: Text = Field(default="rating", description="ratings, or numbers of events where validation.kind is counts")
    count: Text | None = Field(
        default=None, description="exposure counts, > 0: how often the item was shown to the user"
    )
    propensity: Text | None = Field(
        default=None, description="probability that the pair is rated, in (0, 1]; see outcome.adjustment"
    )
    timestamp: Text | None = Field(default=None, description="a timestamp, a date, or seconds since 1970")

    def mapped(self) -> dict[str, str]:
        """Map roles to columns, ``{"user": column, ...}``, for the columns that the input has."""
        return {role: column for role, column in self.model_dump().items() if column is not None}

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        columns = list(self.mapped().values())
        twice = sorted({column for column in columns if columns.count(column) > 1})
        if twice:
            raise ValueError(f"a different column for each of {', '.join(self.mapped())}; {twice} is named twice")
        return self


InputFormat = Literal["parquet", "csv", "table", "movielens", "coat", "yahoo-r3", "jdbc"]


class InputConfig(Section):
    """Where the ratings are and how they are laid out."""

    format: InputFormat = Field(default="parquet", description="how the ratings are stored")
    path: Place | None = Field(
        default=None, description="a file, a directory or a glob, for all formats but table and jdbc"
    )
    table: Text | None = Field(
        default=None, description="catalog.database.table where format is table; the table's name where it is jdbc"
    )
    snapshot: Snapshot | None = Field(
        default=None,
        description="id of an Iceberg table's snapshot, or a Delta table's version, that is read (format table); null: "
        "the current one, which the record names",
    )
    options: TextMap = Field(
        default={},
        description="options of Spark's reader (parquet, csv, jdbc), such as "
        '{url: "jdbc:...", password: "${oc.env:PASSWORD}"}',
    )
    columns: ColumnNames = ColumnNames()
    id_type: Literal["auto", "string", "long"] = Field(
        default="auto",
        description="type of the ids; auto: as stored, text for csv, whole numbers for movielens, coat and yahoo-r3",
    )
    header: bool = Field(
        default=True,
        description="whether the first line of a csv file names the columns; otherwise they are _c0, _c1, ...",
    )
    delimiter: Text = Field(default=",", description="what separates the columns of a csv file")
    encoding: Literal["utf-8", "iso-8859-1", "utf-16"] = Field(
        default="utf-8",
        description="how a csv file holds its characters; rows whose ids are not text in it are rejected. A file in "
        "utf-16 is read by one task",
    )


class ValidationConfig(Section):
    """Which rows are good; bad ones go to the table of rejects, each with all its reasons."""

    kind: Literal["ratings", "counts"] = Field(
        default="ratings",
        description="what input.columns.rating holds; counts are numbers of events and have to be > 0",
    )
    scale_min: Real | None = Field(default=None, description="smallest rating; null: no limit")
    scale_max: Real | None = Field(default=None, description="largest rating; null: no limit")
    duplicates: Literal["error", "last", "mean", "sum"] = Field(
        default="error",
        description="what several rows of one user and item become; last needs timestamps, sum needs counts",
    )
    max_reject_share: Share = Field(
        default=0.05,
        description="with a larger share of bad rows the run fails; rows left out by the limits on numbers of ratings "
        "are not bad",
    )
    min_ratings_per_user: Positive = Field(
        default=1, description="least number of different items of a user; counted once, before anything is left out"
    )
    min_ratings_per_item: Positive = Field(
        default=1, description="least number of different users of an item; counted once, before anything is left out"
    )
    max_ratings_per_user: Positive | None = Field(
        default=None, description="largest number of different items of a user; null: no limit"
    )
    max_ratings_policy: Literal["cap", "reject"] = Field(
        default="cap",
        description="what happens to users with more; cap keeps their most recent ratings (random ones, by run.seed, "
        "without timestamps), reject leaves them out",
    )
    future_timestamps: Literal["reject", "accept"] = Field(
        default="reject", description="what happens to ratings from the future"
    )
    future_tolerance_seconds: Natural = Field(
        default=86_400, description="how far ahead of this machine's clock is not yet the future"
    )

    @model_validator(mode="after")
    def _rules_agree(self) -> Self:
        low, high = self.scale_min, self.scale_max
        if low is not None and high is not None and low > high:
            raise ValueError(f"scale_min at most scale_max; found {low:g} and {high:g}")
        if self.duplicates == "sum" and self.kind == "ratings":
            raise ValueError(
                "kind=counts with duplicates=sum: the sum of two ratings is not a rating; use mean or last"
            )
        least, most = self.min_ratings_per_user, self.max_ratings_per_user
        if most is not None and most < least:
            raise ValueError(f"max_ratings_per_user at least min_ratings_per_user; found {most} and {least}")
        return self


class OutputConfig(Section):
    """Where the tables go."""

    path: Place | None = Field(default=None, description="directory in which each run gets a directory of its own")
    keep: AtLeastTwo | None = Field(
        default=None,
        description="newest runs that stay there, to go back to; older ones are removed when another is published; "
        "null: all stay",
    )


class ServedModelConfig(Section):
    """The saved model that is used as it is."""

    path: Place | None = Field(
        default=None,
        description="a saved model, a run's directory, or an output directory: then the model of its current run",
    )


class ListLengthConfig(Section):
    """How long a list of recommendations is."""

    top_n: Positive = Field(default=10, description="items recommended to each user")


class RankingConfig(ListLengthConfig):
    """How many recommendations a user gets, and of which items."""

    exclude_seen: bool = Field(default=True, description="whether items that the user has rated are left out")
    catalogue: Place | None = Field(
        default=None,
        description="the items that may be recommended tonight, in the column input.columns.item: Parquet or CSV, or a "
        "table where input.format is one; null: all items of the model",
    )
    exclude: Place | None = Field(
        default=None,
        description="pairs that are left out besides, in the columns input.columns.user and item, found as the "
        "catalogue is: bought elsewhere, blocked, shown too often",
    )
    category: Text = Field(default="category", description="column of the catalogue that max_per_category goes by")
    max_per_category: Positive | None = Field(
        default=None, description="items of one category in a list, at most; null: any number"
    )

    @model_validator(mode="after")
    def _categories_are_there(self) -> Self:
        if self.max_per_category is not None and self.catalogue is None:
            raise ValueError("catalogue set, whose column category says what max_per_category counts")
        return self


class ListsConfig(RankingConfig):
    """How many recommendations a user gets, of which items, how sure they are, and what is published beside them."""

    intervals: bool = Field(
        default=False,
        description="whether the table of recommendations says how sure each place is: low, high, extrapolates, "
        "odds_to_change; needs all ratings of the fit, and lays them out once more, which takes longer than a sweep "
        "(outcome=weighted or probabilistic)",
    )
    overlap: bool = Field(
        default=False,
        description="whether the tables user_overlap and item_overlap are published: how many ratings each user and "
        "item is worth, and what a hidden reason for choosing could do to their mean; needs a model with an exposure "
        "model (outcome.adjustment=deconfounded) and all ratings of the fit, and lays them out once more",
    )
    overlap_odds: AtLeastOne = Field(
        default=2.0,
        description="by what factor the odds of seeing an item may differ from those of the exposure model, for "
        "mean_low and mean_high in the tables of overlap; 1: not at all",
    )
    fallback: bool = Field(
        default=False,
        description="whether a table fallback is published: one list for users without ratings, of the items that all "
        "users together would like best",
    )
    similar_items: Natural = Field(
        default=0, description="items in the table similar_items for each item, at most; 0: no such table"
    )
    similarity: Literal["cosine", "inner_product"] = Field(
        default="cosine", description="what makes items similar: the direction of their factors, or their product"
    )
    vectors: bool = Field(
        default=False,
        description="whether the tables user_vectors and item_vectors are published, whose inner product is the score "
        "without the intercept, for an index of nearest neighbours (outcome.confounder_link=identity)",
    )
    changes: bool = Field(
        default=False,
        description="whether a table changes is published: the rows added, removed and moved since the run before",
    )


class MetricsConfig(Section):
    """Definition of a relevant item, and of the intervals."""

    relevant_from: NonNegativeReal = Field(default=3.0, description="a test rating from here on makes an item relevant")
    bootstrap: Natural = Field(default=200, description="resamples behind each interval; 0: no intervals")


class JobConfig(Section):
    """The settings that every job has."""

    job: ClassVar[str] = ""

    run: RunSection = RunSection()
    spark: SparkConfig = SparkConfig()
    output: OutputConfig = OutputConfig()

    # Dotted name -> text of the settings written with ${...}: what may be recorded in place of their values.
    _as_written: dict[str, str] = PrivateAttr(default_factory=dict)

    def as_written(self) -> dict[str, str]:
        """Give the text of each setting that was written with ``${...}``, by its dotted name."""
        return dict(self._as_written)

    def written_as(self, texts: dict[str, str]) -> Self:
        """Copy the settings, with the texts of those that were written with ``${...}``."""
        copy = self.model_copy()
        copy._as_written = dict(texts)
        return copy


class ReadingConfig(JobConfig):
    """The settings of a job that reads ratings."""

    input: InputConfig = InputConfig()
    validation: ValidationConfig = ValidationConfig()

    @model_validator(mode="after")
    def _last_has_timestamps(self) -> Self:
        brings_timestamps = self.input.format == "movielens" or self.input.columns.timestamp is not None
        if self.validation.duplicates == "last" and not brings_timestamps:
            raise ValueError("input.columns.timestamp set, for validation.duplicates=last keeps the most recent rating")
        return self


class FittingConfig(ReadingConfig):
    """The settings of a job that fits both stages to ratings."""

    exposure: ExposureConfig = ExposureConfig()
    outcome: OutcomeConfig = OutcomeConfig()
    engine: EngineConfig = EngineConfig()


class ServingConfig(ReadingConfig):
    """The settings of a job that ranks by a saved model, for users and ratings that it reads."""

    model: ServedModelConfig = ServedModelConfig()
