"""Blends: models of one set of ratings whose predictions are averaged, with weights that held-out ratings choose.

    score_ui = sum_m w_m score_ui^m         w_m >= 0, sum_m w_m = 1, least squares on held-out ratings

Models of different assumptions err differently: with and without the confounder, with its logarithm, with its factors.
A blend is one model: its scoring vectors are those of its members, one after the other, times their weights.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from pyspark.ml import Estimator, Model
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.engine.convergence import Listener
from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.kernels.exposure import PLAIN, Form
from dcrec_spark.kernels.solvers import least_squares_on_simplex
from dcrec_spark.models.explain.explain import plain_reason
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.exposure.model import PoissonFactorizationModel
from dcrec_spark.models.fitting.facts import Degeneracy
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.stages import FitCheckpoints, KeptSweep
from dcrec_spark.models.outcome.estimator import DeconfoundedMF, share_blocks
from dcrec_spark.models.outcome.lists import RankedLists
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.models.outcome.vectors import ScoringVectors, in_front_and_linked
from dcrec_spark.models.persistence.mlio import Persistent, Saved

_log = logging.getLogger(__name__)

# Members of a blend, where none are given: settings of DeconfoundedMF.
MEMBERS: dict[str, dict[str, Any]] = {
    "none": {"adjustment": "none"},
    "reconstruction": {"confounder": "reconstruction", "confounderLink": "identity"},
    "logarithm": {"confounder": "reconstruction", "confounderLink": "log"},
    "factors": {"confounder": "factors", "confounderLink": "log"},
    "factors_no_intercept": {"confounder": "factors", "confounderLink": "log", "fitIntercept": False},
}
_PARTS = 1 << 20
# Weights are found by trying every set of members.
MOST_MEMBERS = 10
# A table with vectors, and what each of them is multiplied with in the blend.
Weighted = tuple[DataFrame, Mapping[str, float]]
_SUMMED = ["score", "preference", "confounder", "intercept", "composition", "features"]
_SUMMED += ["user_bias", "item_bias", "baseline", "others"]


@dataclass(frozen=True)
class _MemberCheckpoints:
    """Checkpoints of one member's fit among those of a blend. Implements FitCheckpoints."""

    inner: FitCheckpoints
    fit: str

    def is_due(self, stage: str, is_last: bool) -> bool:
        return self.inner.is_due(stage, is_last)

    def keep(self, stage: str, sweep: KeptSweep) -> None:
        self.inner.keep(f"{self.fit}_{stage}", sweep)

    def kept(self, stage: str) -> KeptSweep | None:
        return self.inner.kept(f"{self.fit}_{stage}")


class BlendModel(RankedLists, Model, Persistent):
    """A fitted blend, as :class:`Blend` makes it.

    members : the models with a weight above 0, fitted to all ratings.
    weights : of every member that was tried. They sum to 1.
    validationErrors : mean squared error on the held-out ratings of every member, and of the blend under "blend".
    """

    def __init__(
        self, members: dict[str, DeconfoundedMFModel], weights: dict[str, float], validationErrors: dict[str, float]
    ) -> None:
        super().__init__()
        self.members, self.weights, self.validationErrors = members, weights, validationErrors
        first = next(iter(members.values()))
        self.numUsers, self.numItems, self.meanRating = first.numUsers, first.numItems, first.meanRating

    @property
    def intercept(self) -> float:
        """The members' beta_0, times their weights."""
        return sum(weight * model.intercept for weight, model in self._weighted())

    @property
    def exposureModel(self) -> PoissonFactorizationModel | None:
        """The stage 1 of the first member that has one."""
        return self._exposed.exposureModel

    @property
    def degeneracies(self) -> list[Degeneracy]:
        """What is wrong with the members' factors."""
        return [each for model in self.members.values() for each in model.degeneracies]

    @property
    def _exposed(self) -> DeconfoundedMFModel:
        """The first member with a stage 1, else the first."""
        return next((m for _, m in self._weighted() if m.exposureModel is not None), self._weighted()[0][1])

    def _weighted(self) -> list[tuple[float, DeconfoundedMFModel]]:
        return [(self.weights[name], model) for name, model in self.members.items()]

    def tables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items: ``idx, id, features``, the members' factors times the roots of their weights, in a row."""
        users, items = (
            _concatenated([(model.tables()[side], {"features": float(np.sqrt(w))}) for w, model in self._weighted()])
            for side in (0, 1)
        )
        return users, items

    def factorTables(self) -> tuple[DataFrame, DataFrame]:
        """Users and items, to be published, in the columns of :meth:`DeconfoundedMFModel.factorTables`.

        ``features`` are the members' factors times the roots of their weights, so that inner products are the weighted
        ones. ``bias`` is the weighted sum. Slopes and covariates are empty, and gamma is null: members have their own.
        The exposure columns are those of the exposure model.
        """
        known, sides = self._exposed.factorTables(), []
        for side, table in enumerate(self.tables()):
            biases = [
                model.tables()[side].select("id", (F.coalesce("bias", F.lit(0.0)) * F.lit(weight)).alias("bias"))
                for weight, model in self._weighted()
            ]
            bias = reduce(DataFrame.unionAll, biases).groupBy("id").agg(F.sum("bias").alias("bias"))
            nothing = {name: F.expr("cast(array() as array<double>)") for name in ("slopes", "covariates")}
            if "gamma" in known[side].columns:
                nothing["gamma"] = F.lit(None).cast("double")
            others = known[side].drop("features", "bias").withColumns(nothing)
            joined = table.select("id", "features").join(bias, "id").join(others, "id")
            sides.append(joined.select(*known[side].columns))
        return sides[0], sides[1]

    def overlaps(self, ratings: DataFrame, odds: float = 2.0) -> tuple[DataFrame, DataFrame]:
        """Say what :meth:`DeconfoundedMFModel.overlaps` says, by the exposure model."""
        return self._exposed.overlaps(ratings, odds)

    def scoringVectors(self) -> ScoringVectors:
        """Return the vectors whose inner products are the two parts of every score."""
        if self.isDefined("exposureWeight") and self.getExposureWeight() > 0:
            raise ConfigError("exposureWeight: expected 0 for a blend, whose lists are by potential rating alone")
        members = [(weight, model.scoringVectors()) for weight, model in self._weighted()]
        parts = ("preference", "confounder")
        users = _concatenated([(_with_link(v.users, v.form), dict.fromkeys(parts, w)) for w, v in members])
        items = _concatenated([(_with_link(v.items, v.form), dict.fromkeys(parts, 1.0)) for _, v in members])
        linked = [(at, weight, v.form) for at, (weight, v) in enumerate(members) if not v.form.is_low_rank]
        form = PLAIN
        if linked:
            forms = {form._replace(composition=None) for _, _, form in linked}
            if len(forms) > 1:
                raise ConfigError("members: found logarithms of several exposure models, expected one that they share")
            form = forms.pop()
            gamma = reduce(Column.__add__, [F.element_at(f"link_{at}", -1) * F.lit(w) for at, w, _ in linked])
            pi = F.col(f"link_{linked[0][0]}")
            front = F.slice(pi, 1, F.size(pi) - 1)
            users = users.withColumn("confounder", F.concat("confounder", front, F.array(gamma)))
            items = items.withColumn("confounder", F.concat("confounder", pi))
        sides = users.select("idx", "id", *parts), items.select("idx", "id", *parts)
        return ScoringVectors(*sides, self.numUsers, self.numItems, self.intercept, form)

    def explain(self, pairs: DataFrame, ratings: DataFrame, n: int = 5) -> DataFrame:
        """Explain what carries each score, as :meth:`DeconfoundedMFModel.explain` does: the members' sums, weighted.

        Parameters, errors and result are those of that method. A rating's contribution is the sum of its contributions
        in the members.
        """
        every, pair = 2**31 - 1, ["user_id", "item_id"]
        of_members = [model.explain(pairs, ratings, every) for model in self.members.values()]
        explained = []
        for (weight, _), member in zip(self._weighted(), of_members, strict=True):
            weighted = [(F.col(name) * F.lit(weight)).alias(name) for name in _SUMMED]
            explained.append(member.select(*pair, *weighted, "reasons", F.lit(weight)))
        whole = reduce(DataFrame.unionAll, explained).toDF(*pair, *_SUMMED, "reasons", "weight")
        summed = whole.groupBy(*pair).agg(*[F.sum(name).alias(name) for name in _SUMMED])
        reasons = (
            whole.select(*pair, "weight", F.explode("reasons").alias("reason"))
            .groupBy(*pair, F.col("reason.item_id").alias("rated"), "reason.rating")
            .agg(F.sum(F.col("reason.contribution") * F.col("weight")).alias("contribution"))
            .where("contribution != 0")
        )
        entry = F.struct(
            (-F.abs("contribution")).alias("order"), F.col("rated").alias("item_id"), "rating", "contribution"
        )
        ordered = reasons.groupBy(*pair).agg(F.array_sort(F.collect_list(entry)).alias("ordered"))
        left_out = F.aggregate(
            F.filter("ordered", lambda _, at: at >= n), F.lit(0.0), lambda sum_, of: sum_ + of["contribution"]
        )
        blended = summed.join(ordered, pair, "left").select(
            *[name for name in summed.columns if name != "others"],
            F.coalesce(F.transform(F.slice("ordered", 1, n), plain_reason), F.array()).alias("reasons"),
            (F.col("others") + F.coalesce(left_out, F.lit(0.0))).alias("others"),
        )
        return _in_place_of(of_members, blended)

    def foldInUsers(self, dataset: DataFrame, features: DataFrame | None = None) -> DataFrame:
        """Fold in new users by their ratings, in every member: ``id, member_0: struct, member_1: struct, ...``.

        See :meth:`DeconfoundedMFModel.foldInUsers`. To be handed to :meth:`withUsers`. Unpersist it when done.
        """
        folded = [model.foldInUsers(dataset, features) for model in self.members.values()]
        named = [rows.select("id", F.struct("*").alias(f"member_{at}")) for at, rows in enumerate(folded)]
        return _in_place_of(folded, reduce(lambda left, right: left.join(right, "id"), named))

    def withUsers(self, users: DataFrame) -> "BlendModel":
        """Make a blend with the users of a fold-in in place of this one's. This model has to outlive the new one."""
        members = {
            name: model.withUsers(users.select(f"member_{at}.*"))
            for at, (name, model) in enumerate(self.members.items())
        }
        blend = BlendModel(members, self.weights, self.validationErrors)
        self._copyValues(blend)
        return blend

    def release(self) -> None:
        """Unpersist what the members have cached. The model is of no further use."""
        for model in self.members.values():
            model.release()

    def _saved(self) -> Saved:
        facts = {"members": list(self.members), "weights": self.weights, "validationErrors": self.validationErrors}
        parts = {f"member_{at}": model for at, model in enumerate(self.members.values())}
        return Saved(facts=facts, parts=parts)

    @classmethod
    def _restored(cls, saved: Saved) -> "BlendModel":
        facts = saved.facts
        members = {name: saved.parts[f"member_{at}"] for at, name in enumerate(facts["members"])}
        return cls(members, dict(facts["weights"]), dict(facts["validationErrors"]))


AnyModel = DeconfoundedMFModel | BlendModel


def members_of(model: AnyModel) -> dict[str, DeconfoundedMFModel]:
    """Return the members of a blend, or a single model under the empty name."""
    return model.members if isinstance(model, BlendModel) else {"": model}


class Blend(Estimator[BlendModel]):
    """Estimator of a blend of models, with weights that held-out ratings choose.

    Each member is fitted twice: without the held-out ratings, by which the weights are chosen, and then, where its
    weight is above 0, to all ratings. Members with the same exposure model share one fit of it. Members that differ in
    their assumptions alone share the blocks of the ratings. All have to name their columns alike.

    members : name -> estimator, at most 10. None: without the confounder, with its reconstruction, with its logarithm,
        with logarithm and factors (the defaults of :class:`DeconfoundedMF`), and these without an intercept.
    validationShare : share of the ratings that are held out, by a hash of the ids.
    seed : of the split, and of the members where these are not given.

    Examples
    --------
    >>> from dcrec_spark import Blend, DeconfoundedMF
    >>> rows = [(u, i, float((u * i) % 5 + 1)) for u in range(9) for i in range(9) if u // 5 == i // 5 or u == i - 5]
    >>> ratings = spark.createDataFrame(rows, "user int, item int, rating double")
    >>> members = {"none": DeconfoundedMF(adjustment="none", maxIter=3), "factors": DeconfoundedMF(maxIter=3)}
    >>> model = Blend(members).fit(ratings)
    >>> round(sum(model.weights.values()), 6)
    1.0
    >>> model.recommendationTable(2, seen=ratings).columns
    ['user_id', 'rank', 'item_id', 'score', 'preference', 'confounder']
    >>> model.release()
    """

    def __init__(
        self, members: dict[str, DeconfoundedMF] | None = None, validationShare: float = 0.2, seed: int = 0
    ) -> None:
        super().__init__()
        made = {name: DeconfoundedMF(seed=seed, **settings) for name, settings in MEMBERS.items()}
        self.members = made if members is None else dict(members)
        self.listener: Listener | None = None
        self.checkpoints: FitCheckpoints | None = None
        self.validationShare, self.seed = validationShare, seed
        if not 1 <= len(self.members) <= MOST_MEMBERS:
            raise ValueError(f"members: found {len(self.members)}, expected 1 to {MOST_MEMBERS}")

    def _fit(self, dataset: DataFrame) -> BlendModel:
        every = {(e.getUserCol(), e.getItemCol(), e.getRatingCol()) for e in self.members.values()}
        if len(every) > 1:
            raise ConfigError(f"members: found the columns {sorted(every)}, expected the same user, item and rating")
        user, item, rating = every.pop()
        # By the ids alone: the same pairs are held out, whatever the partitions.
        ids = [quoted(name).cast("string") for name in (user, item)]
        is_held_out = F.pmod(F.xxhash64(F.lit(self.seed), *ids), F.lit(_PARTS)) < self.validationShare * _PARTS
        first = self._fit_members(self.members, dataset.where(~is_held_out), "weights")
        with FitResources() as resources:
            for model in first.values():
                resources.add(model)
            weights, errors = self._choose(first, dataset.where(is_held_out), rating)
        chosen = {name: self.members[name] for name, weight in weights.items() if weight > 0}
        members = self._fit_members(chosen, dataset, "blend")
        blend = BlendModel(members, weights, errors)
        next(iter(members.values()))._copyValues(blend)
        return blend

    def _fit_members(
        self, members: dict[str, DeconfoundedMF], dataset: DataFrame, fit: str
    ) -> dict[str, DeconfoundedMFModel]:
        """Fit the members. Those whose stage 1 has the same settings share it, and the first of them owns it.

        fit : distinguishes the checkpoints of fits to different ratings.
        """
        stages: dict[tuple[Any, ...], PoissonFactorizationModel] = {}
        estimators = {name: member.copy() for name, member in members.items()}
        models = {}
        with FitResources() as resources:
            share_blocks(list(estimators.values()), dataset, resources)
            for name, estimator in estimators.items():
                given, key = estimator.getExposureModel(), _stage_one(estimator)
                if key in stages:
                    estimator.setExposureModel(stages[key])
                self._observe(estimator, f"{fit}_{name}")
                models[name] = resources.result(estimator.fit(dataset))
                stage_one = models[name].exposureModel
                if stage_one is not None and not isinstance(given, PoissonFactorizationModel):
                    stages.setdefault(key, stage_one)
        return models

    def _observe(self, member: DeconfoundedMF, fit: str) -> None:
        stages: list[DeconfoundedMF | PoissonFactorization] = [member]
        if isinstance(stage_one := member.getExposureModel(), PoissonFactorization):
            stages.append(stage_one.copy())
            member.setExposureModel(stages[-1])
        for stage in stages:
            stage.listener = self.listener or stage.listener
            stage.checkpoints = None if self.checkpoints is None else _MemberCheckpoints(self.checkpoints, fit)

    def _choose(
        self, models: dict[str, DeconfoundedMFModel], held_out: DataFrame, rating: str
    ) -> tuple[dict[str, float], dict[str, float]]:
        predicted, columns = held_out, []
        for at, model in enumerate(models.values()):
            columns.append(f"__prediction_{at}")
            predicted = model.copy({model.predictionCol: columns[-1]}).transform(predicted)
        known = reduce(Column.__and__, [~F.isnan(column) for column in columns])
        numbers = [*map(F.col, columns), quoted(rating).cast("double")]
        products = [F.sum(a * b) for at, a in enumerate(numbers) for b in numbers[: at + 1]]
        count, *sums = predicted.where(known).agg(F.count("*"), *products).collect()[0]
        if not count:
            raise DataError(
                f"no held-out rating of a known user and item is left to choose weights by: of validationShare="
                f"{self.validationShare:g}, expected more ratings a user, or a larger share"
            )
        gram = np.zeros((len(numbers), len(numbers)))
        gram[np.tril_indices(len(numbers))] = sums
        gram = gram + np.tril(gram, -1).T
        weights = least_squares_on_simplex(gram)
        each = [*np.eye(len(models)), weights]
        errors = [float(w @ gram[:-1, :-1] @ w - 2 * w @ gram[:-1, -1] + gram[-1, -1]) / count for w in each]
        by_name = dict(zip(models, map(float, weights), strict=True))
        _log.info("weights of the blend: %s", ", ".join(f"{name} {weight:.2f}" for name, weight in by_name.items()))
        return by_name, dict(zip([*models, "blend"], errors, strict=True))


def _stage_one(member: DeconfoundedMF) -> tuple[Any, ...]:
    """Return the settings of a member's stage 1. Members that agree in them can share it."""
    names = ["userCol", "itemCol", "validationIndicatorCol", "patience", "seed", "exposureRank"]
    names += ["numBlocks", "exchange", "precision"]
    if member.getInitialModel() is not None or member.getAdjustment() != "deconfounded":
        return (id(member),)
    return id(member.getExposureModel()), *(member.getOrDefault(name) for name in names)


def _in_place_of(cached: Sequence[DataFrame], made: DataFrame) -> DataFrame:
    """Cache a frame, and release the cached ones that it is made of."""
    made = made.persist()
    made.count()
    for frame in cached:
        frame.unpersist()
    return made


def _concatenated(tables: Sequence[Weighted]) -> DataFrame:
    """Return ``idx, id`` of the first table, its vectors followed by those of the others, and each ``link_{place}``."""
    joined, names = tables[0][0].select("idx", "id"), list(tables[0][1])
    for at, (table, weights) in enumerate(tables):
        columns = [_times(F.col(name), weight).alias(f"{name}_{at}") for name, weight in weights.items()]
        links = [F.col("link").alias(f"link_{at}")] if "link" in table.columns else []
        joined = joined.join(table.select("id", *columns, *links), "id")
    vectors = [F.concat(*[f"{name}_{at}" for at in range(len(tables))]).alias(name) for name in names]
    return joined.select("idx", "id", *vectors, *[name for name in joined.columns if name.startswith("link_")])


def _with_link(vectors: DataFrame, form: Form) -> DataFrame:
    """Return the vectors with what the products of a link are made of in a column ``link``: [E[pi_u], gamma_u]."""
    if form.is_low_rank:
        return vectors
    front, link = in_front_and_linked("confounder", form)
    return vectors.select("idx", "id", "preference", front.alias("confounder"), link.alias("link"))


def _times(vector: Column, weight: float) -> Column:
    return vector if weight == 1.0 else F.transform(vector, lambda x: x * F.lit(weight))
