"""The record of a run: what was asked, what was read, what was done, how it ended."""

import hashlib
import json
import platform
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any

import structlog
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config import JobConfig, config_hash, masked_all, resolved
from dcrec_spark.data.validation.validate import Validated
from dcrec_spark.errors import DcrecError, InterruptedRun, interruption
from dcrec_spark.jobs.saved_model import SavedModel, Source
from dcrec_spark.jobs.settled import StageFit, unsettled
from dcrec_spark.jobs.verdicts import Verdicts
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.families.registry import family_of
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish import parquet, schemas
from dcrec_spark.spark.failures import said
from dcrec_spark.version import __version__

_log = structlog.get_logger()
RETRAIN = "retrain"
# Facts that hold what others wrote, secrets perhaps; the rest are this package's own numbers, names and times.
_TEXTS = frozenset({"name", "error", "configuration", "warnings", "source", "audit"})
_PACKAGES = ("pyspark", "numpy", "scipy", "pandas", "pyarrow")


@dataclass
class Run:
    """Facts of one run, gathered as it goes; ``run.json`` and the table ``runs`` say the same.

    job : retrain, recommend, fold_in, ... timings : seconds by step, shared with the reporter that
    measures them. exposure_check : figures of the predictive check, where it was made. source : the model that
    is served, or that the fit begins with. input_snapshot : of the table of ratings, where it has snapshots.
    input_table_id : tells that table from an earlier one of its name, where its snapshots do not.
    lists : figures of the staged lists. compared : a metric of this model, of the last one and of a baseline, on
    held-out ratings. verdicts : of the audit. since : the run whose ratings those of this one were compared with.
    unchanged_since : the run that stays, where this one found nothing new and ended.
    """

    run_id: str
    job: str
    config: JobConfig
    started_at: datetime
    versions: dict[str, str]
    timings: Mapping[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    fits: dict[str, StageFit] = field(default_factory=dict)
    exposure_check: dict[str, Any] | None = None
    data_fingerprint: str | None = None
    intercept: float | None = None
    source: Source | None = None
    input_snapshot: str | None = None
    lists: dict[str, float | None] | None = None
    compared: dict[str, Any] | None = None
    verdicts: Verdicts = field(default_factory=Verdicts)
    input_table_id: str | None = None
    since: str | None = None
    unchanged_since: str | None = None

    @classmethod
    def begin(cls, job: str, config: JobConfig, spark: SparkSession, timings: Mapping[str, float]) -> "Run":
        """Start the record of a run."""
        started = datetime.now(UTC)
        run_id = f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        return cls(run_id, job, config, started, _versions(spark), timings)

    @property
    def run_date(self) -> date:
        """The day that the tables stand for."""
        return date.fromisoformat(str(self.config.run.run_date))

    @property
    def model_version(self) -> str | None:
        """Name of the model, equal for equal settings, data and start; of the served one where nothing is fitted."""
        if self.job != RETRAIN:
            return None if self.source is None else self.source.model_version
        if self.data_fingerprint is None:
            return None
        settings = config_hash(self.config)
        if self.source is not None:
            settings = hashlib.sha256(f"{settings} {self.source.model_version}".encode()).hexdigest()
        return f"{settings[:12]}-{self.data_fingerprint[:12]}"

    def serves(self, saved: SavedModel) -> None:
        """Note the model that is served, and its size."""
        self.source = saved.source
        self.counts |= {"users": saved.model.numUsers, "items": saved.model.numItems}
        self.intercept = saved.model.intercept

    def took_in(self, valid: Validated) -> None:
        """Note how many rows there are, why some were rejected, and a fingerprint of the rest."""
        self.counts |= valid.counts
        self.reasons = dict(valid.reasons)
        self.warnings += valid.warnings
        self.data_fingerprint = fingerprint(valid.ratings)

    def fitted(self, model: DeconfoundedMFModel) -> None:
        """Note what the fits came to, and what is wrong with them."""
        self.counts |= {"users": model.numUsers, "items": model.numItems}
        self.intercept = model.intercept
        if (exposure := model.exposureModel) is not None:
            self._note_fit("exposure", exposure, StageFit("ELBO", exposure.elboHistory, exposure.converged))
        objective = family_of(model).objective.name
        self._note_fit("outcome", model, StageFit(objective, model.objectiveHistory, model.converged))

    def checked(self, check: PredictiveCheck) -> None:
        """Note how the predictive check of the exposure model ended."""
        self.exposure_check = {
            "passed": check.passed,
            "summary": check.summary,
            "p_value": check.pValue,
            "spread_p_value": check.spreadPValue,
            "mean_user_p_value": check.meanUserPValue,
            "held_out": check.n,
            "users": check.numUsers,
        }

    def _note_fit(self, stage: str, model: PoissonFactorizationModel | DeconfoundedMFModel, fit: StageFit) -> None:
        self.fits[stage] = fit
        warning = unsettled(stage, fit, model.getOrDefault("tol"))
        self.warnings += filter(None, [warning, *map(str, model.degeneracies)])

    def stamp(self) -> dict[str, Column]:
        """Return the columns that tie a row of a table to its run."""
        return {
            "model_version": F.lit(self.model_version),
            "run_id": F.lit(self.run_id),
            "run_date": F.lit(self.run_date),
        }

    def published(self, staged: parquet.StagedRun) -> dict[str, Any]:
        """run.json of a run whose tables are about to be committed."""
        tables = {name: files.rows for name, files in staged.tables.items()}
        return {**self.facts("published", 0, None), "tables": tables}

    def ended_well(self) -> dict[str, Any]:
        """Everything that is known of a run that published its tables, or found that there was nothing to publish."""
        return self.facts("published" if self.unchanged_since is None else "skipped", 0, None)

    def finished(self) -> dict[str, Any]:
        """run.json of a run that publishes no tables."""
        return self.facts("finished", 0, None)

    def as_row(self, spark: SparkSession) -> DataFrame:
        """Make the one row of the table ``runs``."""
        facts = self.facts("published", 0, None)
        row = {name: facts[name] for name in schemas.RUNS.fieldNames()}
        row |= {
            "run_date": self.run_date,
            "configuration": json.dumps(facts["configuration"], ensure_ascii=False),
        }
        row |= {name: datetime.fromisoformat(facts[name]) for name in ("started_at", "finished_at")}
        return spark.createDataFrame([row], schemas.RUNS)

    @contextmanager
    def recorded_on_failure(self, spark: SparkSession, output: str) -> Iterator[None]:
        """Leave run.json of a run that fails inside, and let the failure go on."""
        try:
            yield
        except BaseException as error:
            stop = interruption(error)
            status, code = ("failed", error.exit_code if isinstance(error, DcrecError) else 1)
            if stop is not None:
                status, code = "interrupted", InterruptedRun.exit_code
            message = f"{type(stop or error).__name__}: {said(stop or error)}"
            try:
                parquet.record_aside(output, self.run_id, self.facts(status, code, message), spark)
            except OSError as unwritten:
                _log.warning("the record of the failed run could not be written", reason=str(unwritten))
            raise

    def facts(self, status: str, exit_code: int, error: str | None) -> dict[str, Any]:
        """Everything that is known of the run, as run.json has it."""
        facts = {
            "run_id": self.run_id,
            "job": self.job,
            "run_date": self.run_date.isoformat(),
            "name": self.config.run.name,
            "status": status,
            "exit_code": exit_code,
            "error": error,
            "started_at": self.started_at.isoformat(),
            "finished_at": datetime.now(UTC).isoformat(),
            "model_version": self.model_version,
            "config_hash": config_hash(self.config),
            "data_fingerprint": self.data_fingerprint,
            "configuration": resolved(self.config),
            "counts": dict(self.counts),
            "reasons": dict(self.reasons),
            "timings": {name: round(seconds, 3) for name, seconds in self.timings.items()},
            "versions": self.versions,
            "warnings": list(self.warnings),
            "intercept": self.intercept,
            "objectives": {stage: fit.values for stage, fit in self.fits.items()},
            "converged": {stage: fit.converged for stage, fit in self.fits.items()},
            "iterations": {stage: len(fit.values) for stage, fit in self.fits.items()},
            "exposure_check": self.exposure_check,
            "input_snapshot": self.input_snapshot,
            "input_table_id": self.input_table_id,
            "since": self.since,
            "unchanged_since": self.unchanged_since,
            "audit": {
                "verdicts": list(map(asdict, self.verdicts.all)),
                "forced": list(self.verdicts.forced),
                "lists": self.lists,
                "compared": self.compared,
            },
            "source": None if self.source is None else asdict(self.source),
        }
        return {name: masked_all(fact) if name in _TEXTS else fact for name, fact in facts.items()}


def fingerprint(ratings: DataFrame) -> str:
    """Hash the set of ratings: equal in whatever order and partitions they come (hex, 38 digits at most)."""
    total = F.sum(F.xxhash64(*sorted(ratings.columns)).cast("decimal(38,0)"))
    sums = ratings.agg(total.alias("total"), F.count("*").alias("rows")).collect()[0]
    return f"{int(sums['total']) % 2**64:016x}{sums['rows']:08x}"


def _versions(spark: SparkSession) -> dict[str, str]:
    java = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0]
    packages = {name: version(name) for name in _PACKAGES}
    return {"dcrec-spark": __version__, "python": platform.python_version(), "java": java, **packages}
