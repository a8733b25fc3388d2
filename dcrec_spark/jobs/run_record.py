"""Record of a run: settings, counts, figures of the fits and of the audit, and how it ended."""

import hashlib
import json
import platform
import secrets
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dcrec_spark.config.load import config_hash, resolved
from dcrec_spark.config.secrets import masked_leaves
from dcrec_spark.config.sections import AuditConfig, JobConfig
from dcrec_spark.data.validation.row_rules import ALL_DAYS, Window
from dcrec_spark.errors import AuditError, DcrecError, InterruptedRun, interruption
from dcrec_spark.evaluation.lists import ListComposition
from dcrec_spark.jobs.saved_model import SavedModel, Source
from dcrec_spark.kernels.exposure import PLAIN
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.outcome.blend import AnyModel, BlendModel, members_of
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.publish import schemas
from dcrec_spark.spark.failures import message_of
from dcrec_spark.version import __version__

RETRAIN = "retrain"
# Of the rejects in the record of a run that is refused.
_SAMPLED_ROWS, _SAMPLED_CHARACTERS = 10, 200
# Facts with texts that others wrote, with secrets perhaps. The configuration is masked already, the rest are numbers,
# names and times of this package.
_TEXTS = frozenset({"rejects", "name", "error", "warnings", "source", "audit", "features"})
# Facts that the record has as the run has them.
_AS_THEY_ARE = (
    *("model_version", "data_fingerprint", "counts", "reasons", "versions", "warnings", "intercept", "exposure_check"),
    *("input_snapshot", "input_table_id", "unchanged_since", "features", "since", "rejects", "blend"),
)
_PACKAGES = ("pyspark", "numpy", "scipy", "pandas", "pyarrow")


class StageFit(NamedTuple):
    """The objective after each iteration, and whether it converged."""

    values: Sequence[float]
    converged: bool

    def warning(self, stage: str, tol: float) -> str | None:
        """Warn of a fit that did not converge, with its remedy. None if it did, or if tol = 0 fixes the iterations."""
        values = self.values
        if self.converged or tol == 0 or not values:
            return None
        advice = f"raise {stage}.max_iter, or {stage}.tol if this is near enough"
        if len(values) == 1:
            return f"{stage} stopped after 1 iteration, too few to see whether it converged: {advice}"
        before, last = values[-2:]
        way = "rising" if last > before else "falling"
        share = f"{100 * abs(last - before) / abs(before):.2g}% an iteration"
        return f"{stage} stopped after {len(values)} iterations, the objective still {way} by {share}: {advice}"


@dataclass(frozen=True)
class Verdict:
    """One figure of the audit and its limit. check : its setting, without ``audit.``. low, high : its interval."""

    check: str
    found: float
    limit: float
    passed: bool
    about: str
    low: float | None = None
    high: float | None = None

    @property
    def use(self) -> float:
        """What share of the room up to the limit is taken: 1 at the limit."""
        ends = (self.limit, self.found) if self.check.startswith("min_") else (self.found, self.limit)
        return ends[0] / ends[1] if ends[1] > 0 else 1.0


@dataclass
class Run:
    """Facts of one run. ``run.json`` and the table ``runs`` hold them.

    timings : seconds by step, shared with the reporter that measures them. source : the model that is served, or that
    the fit starts from. compared : a metric of this model, of the last one and of a baseline, on held-out ratings.
    unchanged_since : the run that stays published because the input has not changed. since : run_id and counts of the
    run before. features : side -> columns, rows and matched ids. blend : weights of the members, and mean squared
    errors on the ratings that chose them. parameters : numbers of the model that all pairs share. rejects : a sample.
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
    lists: ListComposition | None = None
    compared: dict[str, Any] | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    input_table_id: str | None = None
    unchanged_since: str | None = None
    features: dict[str, dict[str, Any]] = field(default_factory=dict)
    input_window: Window = ALL_DAYS
    blend: dict[str, dict[str, float]] | None = None
    parameters: dict[str, float] = field(default_factory=dict)
    since: dict[str, Any] | None = None
    rejects: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(cls, job: str, config: JobConfig, timings: Mapping[str, float]) -> "Run":
        started = datetime.now(UTC)
        packages = {name: version(name) for name in _PACKAGES}
        versions = {"dcrec-spark": __version__, "python": platform.python_version(), **packages}
        return cls(new_run_id(started, None), job, config, started, versions, timings)

    def follow(self, newest: str | None, spark: SparkSession) -> None:
        """Note the Java, and take a name that comes after the newest run that is published."""
        java = "select java_method('java.lang.System', 'getProperty', 'java.version')"
        self.versions["java"] = spark.sql(java).collect()[0][0]
        began = self.started_at
        if newest is not None and self.run_id <= newest:
            self.run_id = new_run_id(began, newest)
        if newest is not None and newest > f"{began:%Y%m%dT%H%M%S}~":
            self.warnings.append(
                f"a clock ran ahead or runs behind: it is {began:%Y-%m-%d %H:%M:%S} UTC here, and run {newest} was "
                f"published before this one began. This one is called {self.run_id}, so that names rise from run to run"
            )

    @property
    def run_date(self) -> date:
        return date.fromisoformat(str(self.config.run.run_date))

    @property
    def names(self) -> dict[str, str]:
        """What each line of its log has."""
        return {"run_id": self.run_id, "job": self.job, "run_date": self.run_date.isoformat()}

    @property
    def model_version(self) -> str | None:
        """Name of the model, equal for equal settings, data and start. Of the served one where nothing is fitted."""
        if self.job != RETRAIN:
            return None if self.source is None else self.source.model_version
        if self.data_fingerprint is None:
            return None
        settings = config_hash(self.config)
        if self.source is not None:
            settings = hashlib.sha256(f"{settings} {self.source.model_version}".encode()).hexdigest()
        return f"{settings[:12]}-{self.data_fingerprint[:12]}"

    def serves(self, saved: SavedModel) -> None:
        self.source = saved.source
        self.counts |= {"users": saved.model.numUsers, "items": saved.model.numItems}
        self._note_parameters(saved.model)

    def _note_parameters(self, model: AnyModel) -> None:
        """Note the numbers that all pairs share: from them and the factors anybody can make the scores."""
        self.intercept = model.intercept
        self.parameters = {"intercept": model.intercept}
        if isinstance(model, BlendModel):
            self.parameters |= {f"weight of {name}": weight for name, weight in model.weights.items()}
        else:
            form = model.facts.form or PLAIN
            self.parameters["confounder_is_log"] = float(form.link == "log")
            self.parameters |= {f"confounder_{name}": getattr(form, name) for name in ("offset", "mean", "scale")}

    def note_refusal(self, counts: dict[str, int], reasons: dict[str, int], rejects: DataFrame) -> None:
        """Note rows that are refused, with a sample of the rejects."""
        self.counts |= counts
        self.reasons = dict(reasons)
        rows = rejects.select(F.substring("raw", 1, _SAMPLED_CHARACTERS).alias("raw"), "reasons").limit(_SAMPLED_ROWS)
        self.rejects = [row.asDict() for row in rows.collect()]

    def note_fits(self, model: AnyModel) -> None:
        self.counts |= {"users": model.numUsers, "items": model.numItems}
        self._note_parameters(model)
        if isinstance(model, BlendModel):
            self.blend = {"weights": model.weights, "validation_mse": model.validationErrors}
        if (exposure := model.exposureModel) is not None:
            self._note_fit("exposure", exposure, exposure.elboHistory)
        for name, member in members_of(model).items():
            self._note_fit(f"outcome {name}".strip(), member, member.objectiveHistory)

    def _note_fit(
        self, stage: str, model: PoissonFactorizationModel | DeconfoundedMFModel, values: Sequence[float]
    ) -> None:
        fit = self.fits[stage] = StageFit(values, model.converged)
        warning = fit.warning(stage.partition(" ")[0], model.getOrDefault("tol"))
        self.warnings += filter(None, [warning, *map(str, model.degeneracies)])

    def note_check(self, check: PredictiveCheck) -> None:
        self.exposure_check = {
            "passed": check.passed,
            "summary": check.summary,
            "p_value": check.pValue,
            "spread_p_value": check.spreadPValue,
            "mean_user_p_value": check.meanUserPValue,
            "held_out": check.n,
            "users": check.numUsers,
        }

    @property
    def limits(self) -> AuditConfig:
        """The limits that the settings have, or the defaults."""
        return getattr(self.config, "audit", AuditConfig())

    def enforce(self, found: list[Verdict], error: type[DcrecError] = AuditError) -> None:
        """Record verdicts. Raises ``error`` if one has failed, and is not forced. If it is, there is a warning."""
        self.verdicts += found
        failed = [verdict for verdict in found if not verdict.passed]
        sentences = [f"{verdict.about} (setting audit.{verdict.check}={verdict.limit:g})" for verdict in failed]
        if failed and not self.limits.force:
            raise error(
                f"the run was not published: {'; '.join(sentences)}; check the input and recent changes, or "
                "publish with --force"
            )
        self.warnings += [f"published although a limit is exceeded (--force): {sentence}" for sentence in sentences]

    def stamp(self) -> dict[str, Column]:
        """Return the columns that tie a row of a table to its run."""
        return {name: F.lit(getattr(self, name)) for name in ("model_version", "run_id", "run_date")}

    def success_record(self) -> dict[str, Any]:
        """Return run.json of a run that published, or that found nothing new to publish."""
        return self.facts("published" if self.unchanged_since is None else "skipped", 0, None)

    def as_row(self, spark: SparkSession) -> DataFrame:
        facts = self.facts("published", 0, None)
        now = {"staged_at": facts["finished_at"], "parameters": self.parameters}
        row = {name: (facts | now)[name] for name in schemas.RUNS.fieldNames()}
        row |= {"run_date": self.run_date, "configuration": json.dumps(facts["configuration"], ensure_ascii=False)}
        row |= {name: datetime.fromisoformat(row[name]) for name in ("started_at", "staged_at")}
        return spark.createDataFrame([row], schemas.RUNS)

    def failure_record(self, error: BaseException) -> dict[str, Any]:
        stop = interruption(error)
        why = f"{type(stop or error).__name__}: {message_of(stop or error)}"
        if stop is not None:
            return self.facts("interrupted", InterruptedRun.exit_code, why)
        return self.facts("failed", error.exit_code if isinstance(error, DcrecError) else 1, why)

    def facts(self, status: str, exit_code: int, error: str | None) -> dict[str, Any]:
        """Return run.json of the run as it is now."""
        facts = {
            **self.names,
            "name": self.config.run.name,
            "status": status,
            "exit_code": exit_code,
            "error": error,
            "started_at": self.started_at.isoformat(),
            "finished_at": datetime.now(UTC).isoformat(),
            "config_hash": config_hash(self.config),
            "configuration": resolved(self.config),
            **{name: copy(getattr(self, name)) for name in _AS_THEY_ARE},
            "timings": {name: round(seconds, 3) for name, seconds in self.timings.items()},
            "objectives": {stage: fit.values for stage, fit in self.fits.items()},
            "converged": {stage: fit.converged for stage, fit in self.fits.items()},
            "iterations": {stage: len(fit.values) for stage, fit in self.fits.items()},
            "input_window": {name: day and day.isoformat() for name, day in self.input_window._asdict().items()},
            "audit": {
                "verdicts": list(map(asdict, self.verdicts)),
                "forced": [verdict.check for verdict in self.verdicts if self.limits.force and not verdict.passed],
                "lists": None if self.lists is None else self.lists._asdict(),
                "compared": self.compared,
            },
            "source": None if self.source is None else asdict(self.source),
        }
        return {name: masked_leaves(fact) if name in _TEXTS else fact for name, fact in facts.items()}


def new_run_id(started: datetime, newest: str | None) -> str:
    """Name a run by its time, or by a later one where the newest run would come after it.

    Examples
    --------
    >>> new_run_id(datetime(2026, 11, 20), "20270101T020059-5f3c1a")[:15]
    '20270101T020060'
    """
    stamp = f"{started:%Y%m%dT%H%M%S}"
    if newest is not None and newest[:15] >= stamp:
        digits = f"{int(newest[:8] + newest[9:15]) + 1:014d}"
        stamp = f"{digits[:8]}T{digits[8:]}"
    return f"{stamp}-{secrets.token_hex(3)}"


def fingerprint(ratings: DataFrame) -> str:
    """Hash the set of ratings: equal in whatever order and partitions they come (hex, 38 digits at most)."""
    total = F.sum(F.xxhash64(*sorted(ratings.columns)).cast("decimal(38,0)"))
    sums = ratings.agg(total.alias("total"), F.count("*").alias("rows")).collect()[0]
    return f"{int(sums['total']) % 2**64:016x}{sums['rows']:08x}"
