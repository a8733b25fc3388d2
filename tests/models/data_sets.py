"""Two small simulated data sets with awkward ids, and the dense references of both stages on them."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.optimize import brentq
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization, PoissonFactorizationModel
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.models.families.gaussian import INTERCEPT_REG
from dcrec_spark.spark.compat import collect_arrow
from dcrec_spark.spark.lineage import unpersist_abandoned
from tests.frames import frame_of, persisted
from tests.reference import exposure as dense_exposure
from tests.reference import poisson, ridge
from tests.reference.poisson import Array, Side

PRIORS = poisson.Priors(0.3, 0.4, 0.3, 0.4)
EXPOSURE: dict[str, Any] = {"rank": 2, "maxIter": 2, "tol": 0.0, "seed": 17, "precision": "float64"}
EXPOSURE |= {"shapePrior": PRIORS.user_shape, "ratePrior": PRIORS.user_rate}
OUTCOME_PRIORS = poisson.Priors(0.4, 0.5, 0.4, 0.5)
# Without what only some models have: biases, a common gamma, leave-one-out.
OUTCOME: dict[str, Any] = {
    "outcome": "weighted",
    "confounder": "reconstruction",
    "confounderLink": "identity",
    "confounderWeight": "user",
    "leaveOneOut": False,
    "fitBiases": False,
    **{"rank": 3, "maxIter": 2, "tol": 0.0, "seed": 5, "precision": "float64"},
    **{"alpha": 5.0, "regParam": 0.7, "confounderReg": 0.4},
    **{"gammaShape": OUTCOME_PRIORS.user_shape, "gammaRate": OUTCOME_PRIORS.user_rate},
}
# With all of that.
ALL: dict[str, Any] = {
    **{"fitBiases": True, "biasReg": 0.9, "confounderWeight": "pooled", "leaveOneOut": True, "maxIter": 3}
}
RATED: dict[str, Any] = {**ALL, "outcome": "probabilistic", "confounderLink": "log", "regByCount": True}


Covariates = tuple[Array | None, Array | None]
FACTORS: dict[str, Any] = {**ALL, "outcome": "probabilistic", "confounder": "factors", "confounderReg": 2.0}


class Posterior(NamedTuple):
    """Shapes and rates of the exposure factors, of users and of items."""

    users: Side
    items: Side

    @classmethod
    def of(cls, model: PoissonFactorizationModel) -> "Posterior":
        users, items = by_id(model.userFactors), by_id(model.itemFactors)
        return cls((users["shape"], users["rate"]), (items["shape"], items["rate"]))

    @property
    def a_hat(self) -> Array:
        return np.asarray((self.users[0] / self.users[1]) @ (self.items[0] / self.items[1]).T)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Ids in the order of their index, and (U, I) tables of exposure counts and, where exposed, ratings."""

    users: list[Any]
    items: list[Any]
    id_types: tuple[str, str]
    counts: Array
    ratings: Array

    @property
    def observed(self) -> Array:
        return self.counts > 0

    def frame(self, spark: SparkSession, partitions: int = 3, seed: int = 0) -> DataFrame:
        """``user, item, rating, count`` of the exposed pairs, in the order that ``seed`` gives."""
        u, i = np.nonzero(self.counts)
        order = np.random.default_rng(seed).permutation(len(u))
        u, i = u[order], i[order]
        ids = [self.users[n] for n in u], [self.items[n] for n in i]
        rows = list(zip(*ids, self.ratings[u, i].tolist(), self.counts[u, i].astype(int).tolist(), strict=True))
        schema = f"user {self.id_types[0]}, item {self.id_types[1]}, rating double, count long"
        return frame_of(spark, rows, schema).repartition(partitions)

    def all_pairs(self, spark: SparkSession) -> DataFrame:
        types = f"user {self.id_types[0]}, item {self.id_types[1]}"
        return frame_of(spark, [(u, i) for u in self.users for i in self.items], types)

    def tables_of(self, frame: DataFrame) -> dict[str, Array]:
        """Each column as a table (U, I); ids of users and items are the first two."""
        found = {(row[0], row[1]): row for row in frame.collect()}
        return {c: np.array([[found[u, i][c] for i in self.items] for u in self.users]) for c in frame.columns[2:]}

    @cache  # noqa: B019 - of the two data sets of this module, which stay as they are
    def keys(self, spark: SparkSession) -> list[Array]:
        """The hash of each user's and each item's id: what a row's first noise comes from."""
        found = []
        for ids, id_type in zip((self.users, self.items), self.id_types, strict=True):
            frame = frame_of(spark, [(i,) for i in ids], f"id {id_type}").coalesce(1)
            hashed = frame.select(F.xxhash64(F.col("id").cast("string")).alias("key")).collect()
            found.append(np.array([row.key for row in hashed], np.int64))
        return found

    def exposure_reference(self, spark: SparkSession, counted: bool = False) -> tuple[poisson.State, list[float]]:
        """Stage 1 with the parameters of EXPOSURE, and its ELBOs; without ``counted`` each pair counts once."""
        data = poisson.exposures_of(self.counts if counted else self.observed.astype(float))
        users, items = (noise(EXPOSURE["seed"] + n, key, EXPOSURE["rank"]) for n, key in enumerate(self.keys(spark)))
        of_users = PRIORS.user_shape * (1.0 + users), np.full(users.shape, PRIORS.user_rate)
        of_items = PRIORS.item_shape * (1.0 + items), np.full(items.shape, PRIORS.item_rate)
        state, elbo = poisson.accelerated(poisson.State.of(of_users, of_items), data, EXPOSURE["maxIter"], PRIORS)
        state = poisson.converged_users(state, data, PRIORS, updates=200)
        return state, [*elbo[:-1], poisson.elbo(state, data, PRIORS)]

    def confounder(self, posterior: Posterior, settings: dict[str, Any]) -> tuple[Array, Array]:
        """h of the pairs as they are fitted, and as they are predicted; (U, I) each."""
        alone = a_hat = posterior.a_hat
        if settings.get("leaveOneOut"):
            alone = np.where(
                self.observed, dense_exposure.leave_one_out(*posterior, self.observed.astype(float)), a_hat
            )
        if settings.get("confounderLink") == "log":
            offset = a_hat.mean()
            a_hat, alone = np.log(a_hat + offset), np.log(alone + offset)
            mean, scale = dense_exposure.standardised(alone[self.observed])
        else:
            mean, scale = dense_exposure.standardised(a_hat)
        return (alone - mean) / scale, (a_hat - mean) / scale

    def problem(
        self, settings: dict[str, Any], h: Array | None = None, covariates: Covariates = (None, None)
    ) -> ridge.Problem:
        """What least squares with these settings minimise; without ``h`` there is no confounder."""
        s, observed, n = {**OUTCOME, **settings}, self.observed, self.counts.shape
        everywhere = s["outcome"] == "weighted"
        w0 = float(everywhere) if s.get("unobservedWeight") is None else s["unobservedWeight"]
        rated = 1.0 + s["alpha"] * self.ratings * everywhere
        rated = rated * (self.inverse_propensity() if s.get("adjustment") == "ipw" else 1.0)
        count = [observed.sum(axis=a) if s.get("regByCount") else np.ones(n[1 - a]) for a in (1, 0)]
        factor, gamma, bias = s["regParam"], s["confounderReg"], s.get("biasReg", 1.0)
        weight_of = "none" if h is None else s["confounderWeight"]
        return ridge.Problem(
            *(np.where(observed, self.ratings, 0.0), np.where(observed, rated, w0)),
            *(np.where(observed, 1.0, float(everywhere)), np.zeros(n) if h is None else h, weight_of, *count),
            *(s["fitBiases"], factor, factor, gamma, INTERCEPT_REG, bias, bias),
            *(s.get("fitIntercept", True), *covariates),
        )

    def reference(
        self,
        spark: SparkSession,
        settings: dict[str, Any],
        sweeps: int,
        posterior: Posterior | None = None,
        covariates: Covariates = (None, None),
    ) -> "OutcomeReference":
        """Stage 2; ``posterior`` where the settings have a confounder. The users are solved once more at the end."""
        s, keys = {**OUTCOME, **settings}, self.keys(spark)
        if s["outcome"] == "poisson":
            return self._poisson(keys, s, sweeps, posterior)
        return self._least_squares(keys, s, sweeps, posterior, covariates)

    def _least_squares(
        self, keys: list[Array], s: dict[str, Any], sweeps: int, posterior: Posterior | None, covariates: Covariates
    ) -> "OutcomeReference":
        h, predicted = (None, np.zeros(self.counts.shape)) if posterior is None else self.confounder(posterior, s)
        problem = self.problem(s, h, covariates)
        uniform = np.clip(noise(s["seed"], keys[1], s["rank"]), 2.0**-53, 1 - 2.0**-53)
        # The ridge of the mean rating on all pairs, without factors; an observed pair weighs as a mean one.
        mean = self.ratings[self.observed].mean()
        weight = self.observed.sum() * (1.0 + s["alpha"] * mean * (s["outcome"] == "weighted"))
        intercept = mean * weight / (weight + problem.weights[~self.observed].sum() + problem.intercept_reg)
        x = ridge.start(problem, 0.1 * ndtri(uniform), float(intercept) * problem.fit_intercept)
        objective = []
        for number in range(sweeps):
            x = ridge.long_sweep(problem, x, min(1.1**number, 1.7))
            objective.append(ridge.objective(problem, x))
        swept, x = ridge.predict(problem, x, predicted), ridge.update_users(problem, x)
        ends = [ridge.objective(problem, of) for of in (x, ridge.sweep(problem, x))]
        return OutcomeReference([*objective[:-1], ends[0]], ends, x, ridge.predict(problem, x, predicted), swept)

    def _poisson(
        self, keys: list[Array], s: dict[str, Any], sweeps: int, posterior: Posterior | None
    ) -> "OutcomeReference":
        weights = self.inverse_propensity() if s.get("adjustment") == "ipw" else np.ones(self.counts.shape)
        if s.get("unobservedWeight") is not None:
            weights = np.where(self.observed, weights, s["unobservedWeight"])
        a_hat = np.zeros(self.counts.shape) if posterior is None else posterior.a_hat
        data = poisson.Data(self.ratings, weights, a_hat, s["confounderWeight"], s.get("fitIntercept", True))
        of_data: dict[str, Any] = {"data": data, "priors": OUTCOME_PRIORS}
        state = poisson.initial_state(np.random.default_rng(0), rank=s["rank"], noise=0.0, **of_data)
        noises = [1.0 + noise(s["seed"] + n, key, s["rank"]) for n, key in enumerate(keys)]
        state = replace(state, user_shape=noises[0] * state.user_shape, item_shape=noises[1] * state.item_shape)

        objective = []
        for _ in range(sweeps):
            state = poisson.update_items(poisson.update_users(state, **of_data), **of_data)
            objective.append(poisson.elbo(state, **of_data))
            swept, state = poisson.predict(state, data), poisson.update_shared(state, **of_data)
        state = poisson.converged_users(state, **of_data)
        ends = [poisson.elbo(of, **of_data) for of in (state, poisson.sweep(state, **of_data))]
        gamma = np.zeros(len(self.users)) if posterior is None else state.confounder_mean
        return OutcomeReference(
            *([*objective[:-1], ends[0]], ends),
            ridge.Unknowns(
                *(state.user_mean, np.zeros(len(self.users)), np.broadcast_to(gamma, len(self.users))),
                *(state.item_mean, np.zeros(len(self.items)), state.intercept_mean * data.fit_intercept),
                *(0.0, np.zeros((len(self.users), 0)), np.zeros((len(self.items), 0))),
            ),
            *(poisson.predict(state, data), swept),
        )

    def inverse_propensity(self) -> Array:
        """(U, I), of the observed pairs: 1 / p by the paper's rule, normalised to mean 1; elsewhere 1."""
        relative = 0.25 ** np.maximum(0.0, 4.0 - self.ratings[self.observed])
        scale = brentq(lambda k: np.minimum(1.0, k * relative).mean() - 0.05, 0.0, 1e3, xtol=1e-15)
        weights = np.ones(self.ratings.shape)
        weights[self.observed] = 1.0 / np.minimum(1.0, scale * relative)
        weights[self.observed] /= weights[self.observed].mean()
        return weights


class OutcomeReference(NamedTuple):
    """Objectives after each sweep, the last that of the end; the end's, and after one more sweep; factors.

    predicted, swept : (U, I) at the end, and after the last sweep, before the users are solved once more. The Poisson
    outcome's shared terms are those before the sweep, as its objective has them.
    """

    objective: list[float]
    ends: list[float]
    x: ridge.Unknowns
    predicted: Array
    swept: Array


def simulate(users: list[Any], items: list[Any], id_types: tuple[str, str]) -> DataSet:
    """Counts of 0 to 3 and ratings of 0 to 5; nobody and nothing is without a rating."""
    rng, n = np.random.default_rng(8), (len(users), len(items))
    counts = rng.integers(1, 4, n) * (rng.random(n) < 0.4)
    counts[np.arange(n[0]), np.arange(n[0]) % n[1]] = 1
    return DataSet(users, items, id_types, counts.astype(float), np.where(counts > 0, rng.integers(0, 6, n), 0.0))


# Sorted by UTF-8 bytes, as Spark sorts them. Among the items an accent, composed and not: two ids.
NAMES = simulate(
    ["", " a b ", "a`tick", "quote'\"", "zoë", "İ", "ж", "用户", "🦊"],
    ["1", "10", "2", "a.b", "e\u0301", "\u00e9", "用"],
    ("string", "string"),
)
NUMBERS = simulate([-7, 0, 1, 2, 3, 10, 11, 2**31 - 1], [-(2**40), 3, 5, 2**33, 2**62], ("int", "long"))


def marked(spark: SparkSession) -> DataFrame:
    return NAMES.frame(spark).withColumn("held", F.pmod(F.xxhash64("user", "item"), F.lit(4)) == 0)


# Features of the users and items of NAMES. One number is missing, and one user has none.
USER_FEATURES = np.column_stack([np.arange(9.0) % 4, np.cos(np.arange(9.0))])
USER_FEATURES[3, 0] = np.nan
USER_FEATURES[7] = np.nan
ITEM_FEATURES = np.array([[0.0], [1], [1], [0], [0], [1], [0]])


def feature_frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    users = [(u, *map(float, row)) for u, row in zip(NAMES.users, USER_FEATURES, strict=True) if u != NAMES.users[7]]
    items = [(i, int(x)) for i, (x,) in zip(NAMES.items, ITEM_FEATURES, strict=True)]
    of_users = frame_of(spark, users, "user string, age double, `a.b` double")
    return of_users, frame_of(spark, items, "item string, new int")


def covariates_of(posterior: Posterior, settings: dict[str, Any], has_features: bool = False) -> Covariates:
    """p (U, P) and q (I, Q): composition of exposure at one scale, each feature at a scale of its own."""
    if settings.get("confounder") != "factors":
        return None, None
    both = []
    for (shape, rate), features in zip(posterior, (USER_FEATURES, ITEM_FEATURES), strict=True):
        composition = shape / rate / (shape / rate).sum(axis=1, keepdims=True)
        composition = composition - composition.mean(axis=0)
        scaled = np.nan_to_num((features - np.nanmean(features, axis=0)) / np.nanstd(features, axis=0))
        both.append(np.hstack([composition / composition.std(), *[scaled] * has_features]))
    return both[0], both[1]


def exposure(**changes: Any) -> PoissonFactorization:
    return PoissonFactorization(**{**EXPOSURE, **changes})


def outcome(**changes: Any) -> DeconfoundedMF:
    return DeconfoundedMF(**{**OUTCOME, **changes})


def unknowns_of(model: DeconfoundedMFModel) -> ridge.Unknowns:
    users, items, shared = by_id(model.userFactors), by_id(model.itemFactors), model.facts.shared
    biases = [side["bias"] if model.getOrDefault("fitBiases") else np.zeros(len(side["id"])) for side in (users, items)]
    sides = users["features"], biases[0], users["gamma"], items["features"], biases[1]
    slopes = [by_id(table)["slopes"] for table in model.tables()]
    return ridge.Unknowns(*sides, shared.intercept, shared.gamma, *slopes)


def dense_posterior(model: DeconfoundedMFModel, items: DataFrame | None = None) -> tuple[poisson.State, poisson.Data]:
    """A Poisson model of NAMES with a gamma per user, and its data, as the dense reference has them.

    items : those of a fold-in, in place of the model's own.
    """
    of_users, of_items = (by_id(table) for table in (model.tables()[0], model.tables()[1] if items is None else items))
    pi, lam = (side["exposure_shape"] / side["exposure_rate"] for side in (of_users, of_items))
    data = poisson.Data(NAMES.ratings, np.ones(NAMES.ratings.shape), pi @ lam.T)
    users = of_users["outcome_shape"], of_users["outcome_rate"]  # gamma's at their ends
    return poisson.State(
        *(q[:, :-1] for q in users),
        *(of_items["outcome_shape"], of_items["outcome_rate"]),
        *(q[:, -1] for q in users),
        *(np.array([value]) for value in model.facts.shared.intercept),
    ), data


def by_id(factors: DataFrame) -> dict[str, Any]:
    """The columns of a table of factors, its rows in the order of the ids; arrays as matrices."""
    table: pa.Table = collect_arrow(factors.orderBy("id"))
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return {name: values if name == "id" else np.array(values) for name, values in columns.items()}


def cached(spark: SparkSession) -> tuple[bool, set[int]]:
    """Whether Spark caches no plan, and the numbers of the persisted RDDs; what fits left behind is let go of first."""
    unpersist_abandoned()
    return spark._jsparkSession.sharedState().cacheManager().isEmpty(), persisted(spark)
