"""Audit of a fit: enough ratings, exposures that look like draws from stage 1, a model no worse than the last one.

The held-out pairs are sampled by a hash of their ids alone, so they are the same in every run: neither this model nor
the last one was fitted to them.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.config.jobs import RetrainConfig
from dcrec_spark.config.load import resolved
from dcrec_spark.data.validation.several_rows import LIMITS
from dcrec_spark.data.validation.validate import UNTIMED
from dcrec_spark.errors import AuditError, DataError, FitError
from dcrec_spark.evaluation.baselines import POPULARITY, rank_by_popularity
from dcrec_spark.evaluation.measures import Columns, Measure, MeasureKind, MetricSettings
from dcrec_spark.evaluation.metrics import evaluate_ranking
from dcrec_spark.evaluation.result import Estimate, Metrics
from dcrec_spark.evaluation.splits import split_pairs
from dcrec_spark.jobs.job import Context
from dcrec_spark.jobs.run_record import Run, Verdict
from dcrec_spark.jobs.saved_model import load_previous
from dcrec_spark.kernels.bootstrap import percentile_interval
from dcrec_spark.local.data import gather
from dcrec_spark.local.fits import fit_exposure, fit_outcome
from dcrec_spark.local.lists import judge, rank_popular, rank_unseen
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.outcome.blend import AnyModel
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.vectors import ScoringVectors

COLUMNS = Columns("user_id", "item_id", "rating")
# A constant, so that the same pairs are held out whatever run.seed is.
_SEED = 20_260_101
# Warned of are a fall of the ratings by a tenth, and reasons of rejects that have grown by a tenth beyond all rows.
# New rows count as a hundred at least.
_WARNED_FALL, _GROWN, _FEW_ROWS = 0.1, 1.1, 100
NEW, LAST = "this model", "last model"
_PAIR = [COLUMNS.user, COLUMNS.item]
_LIST_LENGTH = 10
# Of the exposure check: share of the exposures held out, and draws from the model.
_CHECK_SHARE, _CHECK_DRAWS = 0.2, 100
# Of the check of the lists: share of the ratings held out, and what one process does in a minute: ratings to fit to,
# and scores of the users with held-out ratings.
_CHECKED_SHARE, _MOST_CHECKED, _MOST_SCORED = 0.05, 2_000_000, 100_000_000


def compare_input(context: Context[RetrainConfig]) -> None:
    """Compare ratings, rejects and missing timestamps with those of the run before. Warn of what has got worse.

    Raises DataError: a limit is exceeded, and not forced.
    """
    limits, run = context.config.audit, context.run
    last = {} if context.before is None else context.before.record
    before = last.get("counts", {})
    if not before.get("ratings") or not before.get("rows_in"):
        return
    if run.data_fingerprint == last["data_fingerprint"]:
        run.warnings.append(f"the ratings are those of run {last['run_id']}, the run before: no rating is new")
    old, new = int(before["ratings"]), run.counts["ratings"]
    fall = max(0.0, 1.0 - new / old)
    fewer = f"{new:,} ratings were accepted, and {old:,} in the run before, {fall:.1%} fewer"
    bad, grown = new_rejects(run, last, context.config.validation.max_reject_share)
    verdicts = []
    if (most := limits.max_volume_fall) is not None:
        verdicts.append(Verdict("max_volume_fall", fall, most, fall <= most, fewer))
    # By other rules, other rows are rejected: this is no news.
    same_rules = _rules(resolved(context.config)) == _rules(last["configuration"])
    if (most := limits.max_new_rejects) is not None and same_rules and grown:
        verdicts.append(Verdict("max_new_rejects", bad, most, bad <= most, "; ".join(grown)))
    failed = {verdict.check for verdict in verdicts if not verdict.passed}
    run.warnings += [fewer] if fall >= _WARNED_FALL and "max_volume_fall" not in failed else []
    run.warnings += grown if "max_new_rejects" not in failed else []
    run.enforce(verdicts, DataError)


def _rules(configuration: Mapping[str, Any]) -> list[Any]:
    """Return the settings by which rows are rejected, of a configuration as records hold it."""
    given = configuration["input"]
    return [configuration["validation"], *(given[name] for name in ("format", "options", "columns", "id_type"))]


def new_rejects(run: Run, last: Mapping[str, Any], warned: float) -> tuple[float, list[str]]:
    """Return the largest share of a reason among new rows, and a sentence for each reason that is new or has grown.

    At the rates of before, some of the new rows would be bad too: these do not count. Where old rows leave as new ones
    come, as from a window of days, the new ones are at least a thousandth of all. A few rows do not count as many.
    """
    rows, rows_before = run.counts["rows_in"], int(last["counts"]["rows_in"])
    new_rows, growth = max(rows - rows_before, rows / 1000, _FEW_ROWS), rows / rows_before
    now = {**run.reasons, UNTIMED: run.counts.get(UNTIMED, 0)}
    before = {**last["reasons"], UNTIMED: last["counts"].get(UNTIMED, 0)}
    largest, sentences = 0.0, []
    for reason, many in now.items():
        old = before.get(reason, 0)
        share = min(1.0, max(0.0, many - old * growth) / new_rows)
        if not many or reason in LIMITS:
            continue
        if not old:
            sentences.append(f"{many} rows are {reason}, and none was in the run before")
        elif share > warned and many > old * growth * _GROWN:
            sentences.append(f"{many} rows are {reason}, and {old} were in the run before")
        else:
            continue
        largest = max(largest, share)
    return largest, sentences


def hold_out(context: Context[RetrainConfig], ratings: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Split off the held-out pairs. A user or item with all of its pairs held out gets them back.

    Returns the ratings of the fit, and those that are held out, if any. Raises DataError: nothing is left of a part.
    """
    share = context.config.audit.held_out_share
    if share is None:
        return ratings, None
    rest, sample = split_pairs(ratings, (1 - share, share), _SEED, COLUMNS)
    for side in (COLUMNS.user, COLUMNS.item):
        sample = sample.join(rest.select(side).distinct(), side, "left_semi")
    held_out = context.cache(sample.select(ratings.columns))
    train = context.cache(ratings.join(held_out.select(*_PAIR), _PAIR, "left_anti").select(ratings.columns))
    context.run.counts["held_out"] = held_out.count()
    if not context.run.counts["held_out"]:
        raise DataError(
            f"setting audit.held_out_share={share:g} holds out none of the {context.run.counts['ratings']} ratings; "
            "expected a larger share, or null"
        )
    return train, held_out


def check_exposures(context: Context[RetrainConfig], ratings: DataFrame, exposure: PoissonFactorization) -> None:
    """Check the exposure model before it is fitted, by one more fit of stage 1. The record gets the figures.

    Raises AuditError: the check fails, audit.exposure_check is refuse, and audit.force is not set.
    """
    action = context.config.audit.exposure_check
    if action == "off" or context.config.outcome.adjustment != "deconfounded":
        return
    with context.reporter.step("check the exposures"):
        check = exposure.predictiveCheck(ratings, _CHECK_SHARE, _CHECK_DRAWS, context.config.run.seed)
    check.release()
    context.run.note_check(check)
    if check.passed:
        return
    why = f"{check.summary}; another exposure.rank may pass, or outcome.adjustment=none does without a_hat"
    if action == "refuse" and not context.config.audit.force:
        raise AuditError(f"setting audit.exposure_check=refuse: {why}; audit.exposure_check=warn publishes the run")
    context.run.warnings.append(why)


def compare_models(context: Context[RetrainConfig], model: AnyModel, train: DataFrame, held_out: DataFrame) -> None:
    """Compare with the last model and popularity on held-out ratings. Raises AuditError: too bad, and not forced."""
    with context.reporter.step("compare with the last model"):
        vectors = {NEW: model.scoringVectors()}
        last = _last_model(context, model)
        if last is not None:
            vectors[LAST] = last.scoringVectors()
        vectors[POPULARITY] = rank_by_popularity(vectors[NEW], train)
        metrics = _measure(context, vectors, train, held_out)
    measure, verdicts = _measure_of(metrics), []
    values = {name: metrics.estimates(name)[measure] for name in metrics.scores}
    _note_compared(context.run, values, None, measure)
    for check, name in (("max_loss", LAST), ("max_below_popularity", POPULARITY)):
        limit = getattr(context.config.audit, check)
        if limit is not None and name in values:
            difference = metrics.difference(NEW, name).estimates()[measure]
            verdicts.append(_compare(check, limit, measure, (name, values[name]), values[NEW], difference))
    context.run.enforce(verdicts)


def check_lists(context: Context[RetrainConfig], ratings: DataFrame, outcome: DeconfoundedMF) -> None:
    """Compare the lists with the most rated items on a twentieth of the ratings, and warn where they have half of it.

    A fit of its own, in this process, leaves these ratings out: the published model has them all.

    outcome : both stages as configured, from a cold start.
    """
    run = context.run
    if context.config.audit.list_check == "off":
        return
    beyond = [f"column {name}" for name in ("count", "propensity") if name in ratings.columns]
    beyond += ["features"] * (outcome.getUserFeatures() is not None or outcome.getItemFeatures() is not None)
    beyond += ["blend"] * bool(context.config.model.blend)
    beyond += [f"more than {_MOST_CHECKED:,} ratings"] * (run.counts["ratings"] > _MOST_CHECKED)
    if beyond:
        _note_compared(run, {}, f"the small fit for it takes no {beyond[0]}; set audit.held_out_share")
        return
    with context.reporter.step("compare the lists with popularity"):
        try:
            metrics = _without_some(context, ratings, outcome)
        except (DataError, FitError) as error:  # too few ratings to leave some out
            _note_compared(run, {}, str(error))
            return
    measure = _measure_of(metrics)
    new, popular = (metrics.scores[name][measure].resampled for name in (NEW, POPULARITY))
    _note_compared(run, {name: metrics.estimates(name)[measure] for name in metrics.scores}, None, measure)
    above = percentile_interval(new[1:] - popular[1:] / 2, metrics.settings.confidence)
    if new[0] < popular[0] / 2 and above is not None and above[1] < 0:  # all of the interval is below a half
        run.warnings.append(
            f"on a twentieth of the ratings, held out of a fit of its own, {measure} of the lists is {new[0]:.3f}, and "
            f"{popular[0]:.3f} of the most rated items, less than half of it. Lists by potential rating need not win "
            "where people chose what to rate. Look at them, and compare recommend.exposure_weight=0.25, which ranks by "
            "what people come across too"
        )


def _without_some(context: Context[RetrainConfig], ratings: DataFrame, outcome: DeconfoundedMF) -> Metrics:
    """Measure the lists of a fit in this process, and popularity's, by ratings that are left out of both."""
    rest, sample = split_pairs(ratings, (1 - _CHECKED_SHARE, _CHECKED_SHARE), _SEED, COLUMNS)
    train, held_out = gather(rest, sample, COLUMNS).select_known()
    is_deconfounded, exposure = outcome.getAdjustment() == "deconfounded", outcome.getOrDefault("exposureModel")
    stage_one = fit_exposure(train, exposure) if is_deconfounded else None
    model = fit_outcome(train, outcome, stage_one)
    # Users in the order of their hashes, as many as the catalogue allows.
    tested = np.unique(held_out["user"])
    tested = np.sort(tested[np.argsort(train.user_key[tested])[: max(1, _MOST_SCORED // len(train.item_key))]])
    test = {name: column[np.isin(held_out["user"], tested)] for name, column in held_out.items()}
    lists = {
        NEW: rank_unseen(model, train, _LIST_LENGTH, outcome.getExposureWeight(), tested),
        POPULARITY: rank_popular(train, _LIST_LENGTH, tested),
    }
    longest = min(int(places.rank.max(initial=1)) for places in lists.values())  # in a small catalogue
    settings = MetricSettings((longest,), context.config.evaluation.relevant_from)
    new, popular = (judge(places, test, train, settings, name) for name, places in lists.items())
    return new.join(popular)


def _measure_of(metrics: Metrics) -> Measure:
    return Measure(MeasureKind.NDCG, metrics.settings.ks[0], over_catalogue=True)


def _note_compared(
    run: Run, found: Mapping[str, Estimate], skipped: str | None = None, measure: Measure | None = None
) -> None:
    """Note a measure of each model on held-out ratings, or why there is none."""
    models = {name: value._asdict() for name, value in found.items()}
    run.compared = {"metric": measure and str(measure), "models": models, "skipped": skipped}


def _last_model(context: Context[RetrainConfig], model: AnyModel) -> AnyModel | None:
    saved = load_previous(context.spark, context.before, context.run.warnings)
    if saved is None:
        return None
    context.resources.callback(saved.model.release)
    last, this = ([table.schema["id"].dataType for table in of.tables()] for of in (saved.model, model))
    if last != this:
        context.run.warnings.append("the last published model has ids of another type: it was not compared with")
        return None
    return saved.model


def _measure(
    context: Context[RetrainConfig], vectors: dict[str, ScoringVectors], train: DataFrame, test: DataFrame
) -> Metrics:
    """Rank for the users with held-out ratings of pairs that all models know, and measure the lists."""
    for known in vectors.values():
        for side, table in ((COLUMNS.user, known.users), (COLUMNS.item, known.items)):
            test = test.join(table.select(F.col("id").alias(side)), side, "left_semi")
    test = context.cache(test.select(*_PAIR, COLUMNS.rating))
    context.run.counts["compared"] = test.count()
    if not context.run.counts["compared"]:
        raise DataError(
            "setting audit.held_out_share: the last model knows none of the held-out pairs' users and items"
        )
    users, seen = test.select(F.col(COLUMNS.user).alias("id")).distinct(), train.select(*_PAIR)
    settings = MetricSettings((_LIST_LENGTH,), context.config.evaluation.relevant_from)
    measured = (
        evaluate_ranking(known.best(_LIST_LENGTH, seen, users), test, known.n_items, name, COLUMNS, settings)
        for name, known in vectors.items()
    )
    return reduce(Metrics.join, measured)


def _compare(
    check: str, limit: float, measure: str, other: tuple[str, Estimate], new: Estimate, difference: Estimate
) -> Verdict:
    """Compare a model with another one. The interval is that of the paired difference, as a share of the other's."""
    name, old = other
    if old.value <= 0:
        return Verdict(check, 0.0, limit, True, f"{measure} of the {name} is 0, and {new.value:.4g} of this model")
    worse = [None if value is None else -value / old.value for value in (difference.ci_high, difference.ci_low)]
    loss = -difference.value / old.value
    about = f"{measure} is {new.value:.4g}, and {old.value:.4g} of the {name}"
    about += f", {loss:.1%} below" if loss > 0 else ""
    return Verdict(check, loss, limit, loss <= limit, about, *worse)
