"""Configuration types of all jobs, their union that ``conf/base.yaml`` documents, and the dotted names of settings."""

import difflib
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, get_args, get_origin

from pydantic import BaseModel, field_validator

from dcrec_spark.config import sections
from dcrec_spark.config.space import Choices, Range, read_space
from dcrec_spark.config.stages import ExposureConfig, OutcomeConfig
from dcrec_spark.config.types import METRICS, Metric, Part, Place, Positive, Section, setting
from dcrec_spark.settings.tables import LEAST_SQUARES, OF_RATED_PAIRS


class RetrainConfig(sections.FittingConfig, sections.PlacesConfig):
    """The settings of ``jobs/retrain.py``."""

    job: ClassVar[str] = "retrain"

    input: sections.RetrainInputConfig = sections.RetrainInputConfig()
    model: sections.WarmStartConfig = sections.WarmStartConfig()
    recommend: sections.ListsConfig = sections.ListsConfig()
    audit: sections.RetrainAuditConfig = sections.RetrainAuditConfig()
    evaluation: sections.RelevanceConfig = sections.RelevanceConfig()

    def _conflicts(self) -> Iterator[str]:
        yield from super()._conflicts()
        others = [name for name in ("catalogue", "exclude") if getattr(self.recommend, name) is not None]
        if self.input.unchanged == "skip" and others:
            yield (
                f"input.unchanged run where recommend.{others[0]} is set: lists change with it, whatever the ratings do"
            )
        if self.model.blend:
            yield from self._conflicts_of_a_blend()
        outcome, link = self.outcome, self.outcome.confounder_link
        has_link = outcome.adjustment == "deconfounded" and link != "identity"
        is_of_rated = outcome.outcome in OF_RATED_PAIRS and not outcome.unobserved_weight
        if has_link and is_of_rated and "vectors" in self.recommend.extra:
            yield (
                f"recommend.extra without vectors for outcome.confounder_link={link}: vectors need scores that are "
                "inner products, as those of outcome.confounder_link=identity"
            )

    def _conflicts_of_a_blend(self) -> Iterator[str]:
        if self.outcome.adjustment != "deconfounded" or self.outcome.outcome not in LEAST_SQUARES:
            yield (
                f"outcome.adjustment=deconfounded and outcome.outcome={' or '.join(LEAST_SQUARES)} where model.blend "
                f"is set; found {self.outcome.adjustment} and {self.outcome.outcome}"
            )
        refused = {
            "model.warm_start null": self.model.warm_start is not None,
            "recommend.exposure_weight 0": bool(self.recommend.exposure_weight),
            "recommend.extra without intervals": "intervals" in self.recommend.extra,
            "recommend.extra without vectors": "vectors" in self.recommend.extra,
        }
        for expected, found in refused.items():
            if found:
                yield f"{expected} where model.blend is set: a blend has none"


class RecommendJobConfig(sections.ServingConfig, sections.PlacesConfig):
    """The settings of ``jobs/recommend.py``."""

    job: ClassVar[str] = "recommend"

    recommend: sections.RecommendConfig = sections.RecommendConfig()
    audit: sections.AuditConfig = sections.AuditConfig()


class FoldInConfig(sections.ServingConfig):
    """The settings of ``jobs/fold_in.py``."""

    job: ClassVar[str] = "fold_in"

    input: sections.ServedFeaturesConfig = sections.ServedFeaturesConfig()
    recommend: sections.RankingConfig = sections.RankingConfig()


class EvaluationConfig(sections.RelevanceConfig):
    """Held-out ratings, and what a saved model is compared with. Input is what the model was fitted to."""

    test_path: Place | None = setting(
        "held-out ratings, in the format and with the columns of input; a table's name for table and jdbc"
    )
    titles_path: Place | None = setting(
        "names of the items: u.item, movies.dat, or CSV or Parquet with the columns item and title"
    )
    compare_with: Place | None = setting(
        "a second saved model; null: a model with the same settings and no confounder is fitted"
    )


class EvaluateConfig(sections.ServingConfig):
    """The settings of ``jobs/evaluate.py``."""

    job: ClassVar[str] = "evaluate"

    input: sections.FeaturesConfig = sections.FeaturesConfig()
    recommend: sections.ListLengthConfig = sections.ListLengthConfig()
    evaluation: EvaluationConfig = EvaluationConfig()


class TuningConfig(Section):
    """Which settings of both stages are tried, how they are drawn, and by what they are chosen."""

    space: dict[str, Any] = setting(  # of Choices
        "settings and their choices, such as {exposure.rank: [5, 10], outcome.alpha: [1, 40]}; with trials "
        "ranges too: {outcome.rank: {low: 2, high: 50, log: true, int: true}}",
        {},
    )
    trials: Positive | None = setting(
        "number of trials of a random search, by run.seed, which ranges need; null: every combination"
    )
    metric: Metric = setting(f"{METRICS}; errors, rare_share, rarest_share and largest_share are made small", "ndcg")
    weights: Literal["none", "exposure"] = setting(
        "exposure: in mse and mae a held-out rating weighs the inverse of its propensity, 1 - exp(-a_hat) by the "
        "exposure model that the section exposure describes: so they stand for random pairs",
        "none",
    )
    split: Literal["within_users", "time"] = setting(
        "what is held out; within_users: some of each user's ratings, by hash; time: the latest of all, by "
        "input.columns.timestamp",
        "within_users",
    )
    validation_share: Part = setting("share of the ratings that is held out to choose by", 0.2)
    validation_path: Place | None = setting(
        "ratings to choose by, such as a small random sample, in the format and with the columns of input (a table's "
        "name for table and jdbc); null: held out of the input, by split and validation_share"
    )

    @field_validator("space", mode="before")
    @classmethod
    def _choices(cls, given: Any) -> dict[str, Choices]:
        return read_space(given, {"exposure": ExposureConfig, "outcome": OutcomeConfig})

    def _conflicts(self) -> Iterator[str]:
        ranges = [name for name, choices in self.space.items() if isinstance(choices, Range)]
        if self.trials is None and ranges:
            yield f"trials set for the range of {ranges[0]}: only lists have every combination"
        if self.weights != "none" and self.metric not in ("mse", "mae"):
            yield f"metric=mse or mae where weights={self.weights}: {self.metric} has no use for weights"


class TuneConfig(sections.FittingConfig):
    """The settings of ``jobs/tune.py``."""

    job: ClassVar[str] = "tune"

    evaluation: sections.RelevanceConfig = sections.RelevanceConfig()
    tuning: TuningConfig = TuningConfig()


JOB_CONFIGS: tuple[type[sections.JobConfig], ...] = (
    RetrainConfig,
    RecommendJobConfig,
    FoldInConfig,
    EvaluateConfig,
    TuneConfig,
)


class ModelConfig(sections.WarmStartConfig, sections.ServedModelConfig):
    """Saved models, start of the fit, and resumption."""


class AllSettings(RetrainConfig):
    """Every setting of every job: what a file that several jobs share may hold."""

    job: ClassVar[str] = ""

    model: ModelConfig = ModelConfig()
    recommend: sections.RecommendConfig = sections.RecommendConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    tuning: TuningConfig = TuningConfig()


def section_type(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Look up the type of the section ``name``. None if ``model`` has a setting of that name, or nothing."""
    field = model.model_fields.get(name)
    kind = None if field is None else field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def known_settings(model: type[BaseModel] = AllSettings, prefix: str = "") -> dict[str, Any]:
    """Map the dotted name of every setting of a configuration, section by section, to its type."""
    kinds: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        section, dotted = section_type(model, name), f"{prefix}{name}"
        kinds |= {dotted: field.annotation} if section is None else known_settings(section, f"{dotted}.")
    return kinds


def jobs_with(name: str) -> list[str]:
    """List the jobs that have a setting or a section of this dotted name, or one that begins with it."""
    given, known = f"{name}.", {kind.job: [f"{one}." for one in known_settings(kind)] for kind in JOB_CONFIGS}
    return [job for job, names in known.items() if any(one.startswith(given) or given.startswith(one) for one in names)]


def nearest_settings(name: str, model: type[BaseModel] = AllSettings) -> list[str]:
    """Guess the settings meant by ``name``: those with its last word, else the one with the nearest name."""
    known = known_settings(model)
    sections = sorted({setting.rpartition(".")[0] for setting in known})
    last_word = name.rpartition(".")[2]
    same_last_word = [setting for setting in known if setting.rpartition(".")[2] == last_word]
    return same_last_word or difflib.get_close_matches(name, [*known, *sections], n=1, cutoff=0.6)


def is_free_text(name: str) -> bool:
    """Tell whether the setting of this dotted name, or that it is inside of, takes any text. True if there is none."""
    return all(_takes_text(kind) for known, kind in known_settings().items() if f"{name}.".startswith(f"{known}."))


def _takes_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return annotation is str or any(_takes_text(inner) for inner in get_args(annotation))
