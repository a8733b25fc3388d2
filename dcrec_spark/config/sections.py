"""The settings of a run, section by section, with their defaults and their limits.

The defaults are here and nowhere else, so that ``ValidationConfig()`` means the same in a notebook, in a test
and in a job shipped as a zip. ``conf/base.yaml`` is their annotated print-out; a test holds the two equal.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from dcrec_spark.config.space import Choices, Range, read_space
from dcrec_spark.config.types import (
    AtLeastOne,
    AtLeastTwo,
    Metric,
    Natural,
    NonNegativeReal,
    Part,
    Positive,
    PositiveReal,
    Real,
    RunDate,
    RunName,
    Share,
    SomeShare,
    Text,
    TextMap,
)


class Section(BaseModel):
    """A group of settings: unknown names are refused, values never change after they are read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        validate_default=True,
    )


class RunSection(Section):
    """What the run is called, which day it stands for, where its randomness starts."""

    name: RunName = "dcrec"
    run_date: RunDate = Field(default=None, validate_default=True)  # null: today, UTC
    seed: Natural = 42


class SparkConfig(Section):
    """The session: where it runs, where it checkpoints, and any Spark property."""

    master: Text | None = None
    checkpoint_dir: Text | None = None
    conf: TextMap = {}


class ColumnNames(Section):
    """Which column of the input is which; ``None`` for one that the input lacks."""

    user: Text = "user"
    item: Text = "item"
    rating: Text = "rating"
    count: Text | None = None
    propensity: Text | None = None
    timestamp: Text | None = None

    def mapped(self) -> dict[str, str]:
        """``{"user": column, ...}`` for the columns that the input has."""
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

    format: InputFormat = "parquet"
    path: Text | None = None
    table: Text | None = None
    options: TextMap = {}
    columns: ColumnNames = ColumnNames()
    id_type: Literal["auto", "string", "long"] = "auto"
    header: bool = True
    delimiter: Text = ","


class ValidationConfig(Section):
    """Which rows are good, and how many bad ones a run puts up with."""

    kind: Literal["ratings", "counts"] = "ratings"
    scale_min: Real | None = None
    scale_max: Real | None = None
    duplicates: Literal["error", "last", "mean", "sum"] = "error"
    max_reject_share: Share = 0.05
    min_ratings_per_user: Positive = 1
    min_ratings_per_item: Positive = 1
    max_ratings_per_user: Positive | None = None
    max_ratings_policy: Literal["cap", "reject"] = "cap"
    future_timestamps: Literal["reject", "accept"] = "reject"
    future_tolerance_seconds: Natural = 86_400

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


class ExposureConfig(Section):
    """Stage 1, Poisson factorization of who was exposed to what."""

    kind: Literal["binary", "count"] = "binary"
    rank: Positive = 10
    max_iter: Positive = 100
    tol: NonNegativeReal = 1e-5
    user_shape_prior: PositiveReal = 0.3
    user_rate_prior: PositiveReal = 0.3
    item_shape_prior: PositiveReal = 0.3
    item_rate_prior: PositiveReal = 0.3
    restarts: Positive = 1


class OutcomeConfig(Section):
    """Stage 2, the rating model that conditions on the substitute confounder."""

    outcome: Literal["weighted", "probabilistic", "poisson"] = "weighted"
    adjustment: Literal["deconfounded", "none", "ipw"] = "deconfounded"
    confounder_weight: Literal["user", "global"] = "user"
    rank: Positive = 10
    alpha: NonNegativeReal = 40.0
    unobserved_weight: NonNegativeReal | None = None
    user_reg: NonNegativeReal = 1.0
    item_reg: NonNegativeReal = 1.0
    confounder_reg: NonNegativeReal = 1.0
    intercept_reg: NonNegativeReal = 1.0
    fit_intercept: bool = True
    user_shape_prior: PositiveReal = 0.3
    user_rate_prior: PositiveReal = 0.3
    item_shape_prior: PositiveReal = 0.3
    item_rate_prior: PositiveReal = 0.3
    confounder_shape_prior: PositiveReal = 1.0
    confounder_rate_prior: PositiveReal = 1.0
    intercept_shape_prior: PositiveReal = 0.3
    intercept_rate_prior: PositiveReal = 0.3
    propensity_mean: SomeShare = 0.05
    propensity_decay: SomeShare = 0.25
    propensity_pivot: Real = 4.0
    weight_cap: AtLeastOne | None = None
    max_iter: Positive = 20
    tol: NonNegativeReal = 1e-4
    restarts: Positive = 1


class EngineConfig(Section):
    """How the work is cut up; changes speed and memory, never the answer beyond rounding."""

    num_user_blocks: Positive | None = None
    num_item_blocks: Positive | None = None
    exchange: Literal["auto", "broadcast", "blocks"] = "auto"
    checkpoint_interval: Positive = 10
    precision: Literal["float64", "float32"] = "float64"


class ModelConfig(Section):
    """Saved models: the one that is served, and the one that a fit starts from."""

    path: Text | None = None
    warm_start: Text | None = None


class RecommendConfig(Section):
    """Who gets recommendations, how many, and whether items already rated are left out."""

    users: Text | None = None
    top_n: Positive = 10
    exclude_seen: bool = True


class SimulationConfig(Section):
    """The world that jobs/simulate.py draws; its seed is run.seed."""

    n_users: Positive = 5000
    n_items: Positive = 5000
    n_factors: Positive = 10
    confounding_preference: Share = 0.6
    confounding_outcome: NonNegativeReal = 3.0
    gamma_shape: PositiveReal = 0.3
    gamma_spread: PositiveReal = 0.3
    gamma_reading: Literal["rate", "scale"] = "scale"
    test_pairs_per_user: Natural = 20
    test_pairs: Literal["all", "unseen", "withheld"] = "all"


class EvaluationConfig(Section):
    """What a saved model is judged by, and what goes into the report."""

    test_path: Text | None = None
    titles_path: Text | None = None
    compare_with: Text | None = None
    cuts: Annotated[tuple[Positive, ...], Field(min_length=1)] = (5, 10)
    relevant_from: NonNegativeReal = 3.0
    gain: Literal["2^rel-1", "2^(rel-1)", "rel"] = "2^rel-1"
    bootstrap: Natural = 200
    predictive_check: bool = True
    sample_users: Natural = 3
    reasons: Natural = 3


class TuningConfig(Section):
    """Which settings of both stages are tried, how they are drawn, and by what they are chosen."""

    space: dict[str, Any] = {}  # of Choices
    search: Literal["grid", "random", "halving"] = "grid"
    trials: Positive = 30
    metric: Metric = "ndcg"
    split: Literal["within_users", "time"] = "within_users"
    validation_share: Part = 0.2
    side_by_side: Literal["auto", True, False] = "auto"
    reduction_factor: AtLeastTwo = 3
    min_iter: Positive = 5

    @field_validator("space", mode="before")
    @classmethod
    def _choices(cls, given: Any) -> dict[str, Choices]:
        return read_space(given, {"exposure": ExposureConfig, "outcome": OutcomeConfig})

    @model_validator(mode="after")
    def _search_fits_its_space(self) -> Self:
        ranges = [name for name, choices in self.space.items() if isinstance(choices, Range)]
        if self.search == "grid" and ranges:
            raise ValueError(f"search=random or halving for the range of {ranges[0]}: a grid is made of lists")
        if self.search == "halving" and "outcome.max_iter" in self.space:
            raise ValueError("no outcome.max_iter in space where search=halving, which sets it itself")
        return self


class StudiesConfig(Section):
    """Which of the paper's studies jobs/reproduce.py runs, on which data sets."""

    data: Text | None = None
    profile: Literal["quick", "full"] = "quick"
    only: tuple[Text, ...] = ()
    work: Text | None = None


class OutputConfig(Section):
    """Where the tables go."""

    path: Text | None = None


class RunConfig(Section):
    """Everything that a job can be told."""

    run: RunSection = RunSection()
    spark: SparkConfig = SparkConfig()
    input: InputConfig = InputConfig()
    validation: ValidationConfig = ValidationConfig()
    exposure: ExposureConfig = ExposureConfig()
    outcome: OutcomeConfig = OutcomeConfig()
    engine: EngineConfig = EngineConfig()
    model: ModelConfig = ModelConfig()
    recommend: RecommendConfig = RecommendConfig()
    simulation: SimulationConfig = SimulationConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tuning: TuningConfig = TuningConfig()
    studies: StudiesConfig = StudiesConfig()
    output: OutputConfig = OutputConfig()

    # Dotted name -> text of the settings written with ${...}: what may be recorded in place of their values.
    _as_written: dict[str, str] = PrivateAttr(default_factory=dict)

    def as_written(self) -> dict[str, str]:
        """The text of each setting that was given by interpolation, by its dotted name."""
        return dict(self._as_written)

    def written_as(self, texts: dict[str, str]) -> Self:
        """The same settings, remembering that some were given by interpolation."""
        copy = self.model_copy()
        copy._as_written = dict(texts)
        return copy

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        brings_timestamps = self.input.format == "movielens" or self.input.columns.timestamp is not None
        if self.validation.duplicates == "last" and not brings_timestamps:
            raise ValueError("input.columns.timestamp set, for validation.duplicates=last keeps the most recent rating")
        if self.outcome.outcome == "poisson" and self.outcome.unobserved_weight not in (None, 1.0):
            raise ValueError(
                "outcome.unobserved_weight null for outcome.outcome=poisson, where an unrated pair counts 0"
            )
        brings_counts = self.validation.kind == "counts" or self.input.columns.count is not None
        if self.exposure.kind == "count" and not brings_counts:
            raise ValueError("input.columns.count set, or validation.kind=counts, for exposure.kind=count")
        return self
