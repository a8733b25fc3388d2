"""A small world of ratings with awkward ids, and the dense twins of both stages on it."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from scipy.special import ndtri

from dcrec_spark import DeconfoundedMF, DeconfoundedMFModel, PoissonFactorization
from dcrec_spark.kernels.exposure import Form
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.models.families.gamma_poisson import SharedGammas
from dcrec_spark.models.families.gaussian import INTERCEPT_REG
from dcrec_spark.spark.lineage import unpersist_abandoned
from tests.frames import frame_of
from tests.reference import poisson as dense_poisson
from tests.reference import poisson_outcome as dense_outcome
from tests.reference import ridge as dense
from tests.reference.poisson import Array

PRIORS = dense_poisson.Priors(0.3, 0.4, 0.3, 0.4)
EXPOSURE: dict[str, Any] = {
    "rank": 2,
    "maxIter": 2,
    "tol": 0.0,
    "shapePrior": PRIORS.user_shape,
    "ratePrior": PRIORS.user_rate,
    "seed": 17,
}
OUTCOME_PRIORS = dense_outcome.OutcomePriors(0.4, 0.5, 0.4, 0.5)
# Without what only some models have: biases, a common gamma, leave-one-out.
OUTCOME: dict[str, Any] = {
    "outcome": "weighted",
    "confounderWeight": "user",
    "leaveOneOut": False,
    "fitBiases": False,
    "rank": 3,
    "maxIter": 2,
    "tol": 0.0,
    "alpha": 5.0,
    "regParam": 0.7,
    "confounderReg": 0.4,
    "gammaShape": OUTCOME_PRIORS.user_shape,
    "gammaRate": OUTCOME_PRIORS.user_rate,
    "seed": 5,
}

# Outcome, adjustment, whose gamma, w0 where it is not the default, whether there is an intercept.
FAMILY = [
    ("weighted", "none", "user", None, True),
    ("weighted", "ipw", "user", None, True),
    ("weighted", "deconfounded", "user", None, True),
    ("weighted", "deconfounded", "global", None, True),
    ("probabilistic", "none", "user", None, True),
    ("probabilistic", "none", "user", 1.0, True),
    ("probabilistic", "ipw", "user", None, True),
    ("probabilistic", "deconfounded", "user", None, True),
    ("probabilistic", "deconfounded", "user", 1.0, True),
    ("probabilistic", "deconfounded", "global", None, True),
    ("poisson", "none", "user", None, True),
    ("poisson", "none", "user", 0.0, True),
    ("poisson", "ipw", "user", None, True),
    ("poisson", "ipw", "user", 0.2, True),
    ("poisson", "deconfounded", "user", None, True),
    ("poisson", "deconfounded", "user", 0.2, True),
    ("poisson", "deconfounded", "global", 0.0, True),
    ("probabilistic", "deconfounded", "global", None, False),
    ("poisson", "deconfounded", "user", None, False),
]
TOL = {"weighted": 0.03, "probabilistic": 0.01, "poisson": 0.003}


@dataclass(frozen=True, eq=False)
class World:
    """Ids in the order of their index, and (U, I) tables of exposure counts and, where exposed, ratings."""

    users: list[Any]
    items: list[Any]
    id_types: tuple[str, str]
    counts: Array
    ratings: Array

    def frame(self, spark: SparkSession, partitions: int = 3, seed: int = 0) -> DataFrame:
        """``user, item, rating, count`` of the exposed pairs, in the order that ``seed`` gives."""
        u, i = np.nonzero(self.counts)
        order = np.random.default_rng(seed).permutation(len(u))
        rows = [
            (self.users[u[n]], self.items[i[n]], float(self.ratings[u[n], i[n]]), int(self.counts[u[n], i[n]]))
            for n in order
        ]
        schema = f"user {self.id_types[0]}, item {self.id_types[1]}, rating double, count long"
        return frame_of(spark, rows, schema).repartition(partitions)

    def exposure_twin(self, spark: SparkSession, counted: bool) -> "ExposureTwin":
        """Stage 1 with the parameters of EXPOSURE; without ``counted`` each pair counts once."""
        exposures = self.counts if counted else (self.counts > 0).astype(float)
        keys = self.keys(spark)
        shapes = [
            prior * (1.0 + noise(EXPOSURE["seed"] + side, keys[side], EXPOSURE["rank"]))
            for side, prior in enumerate((PRIORS.user_shape, PRIORS.item_shape))
        ]
        rates = [np.full(shapes[side].shape, prior) for side, prior in enumerate((PRIORS.user_rate, PRIORS.item_rate))]
        state = dense_poisson.State(shapes[0], rates[0], shapes[1], rates[1])
        state, elbo = dense_poisson.accelerated(state, exposures, EXPOSURE["maxIter"], PRIORS)
        return ExposureTwin(dense_poisson.converged_users(state, exposures, PRIORS), elbo)

    def gaussian_twin(
        self, spark: SparkSession, outcome: str, a_hat: Array | None = None, sweeps: int = OUTCOME["maxIter"], **of: Any
    ) -> "OutcomeTwin":
        """Least squares with the parameters of OUTCOME; the users are solved once more at the end."""
        problem = self.problem(outcome, a_hat, **of)
        uniform = np.clip(noise(OUTCOME["seed"], self.keys(spark)[1], OUTCOME["rank"]), 2.0**-53, 1 - 2.0**-53)
        n_users, intercept = len(self.users), self.first_intercept(outcome, problem)
        nothing = np.zeros((n_users, OUTCOME["rank"]))
        factors = dense.Factors(nothing, 0.1 * ndtri(uniform), np.zeros(n_users), intercept)
        objective = []
        for _ in range(sweeps):
            factors = dense.sweep(problem, factors)
            objective.append(dense.objective(problem, factors))
        factors = dense.update_users(problem, factors)
        now = dense.objective(problem, factors)
        gain = (now - dense.objective(problem, dense.sweep(problem, factors))) / abs(now)
        return OutcomeTwin(
            objective,
            factors.user_preference,
            factors.confounder_weight,
            factors.item_attribute,
            factors.intercept,
            dense.predict(problem, factors),
            gain,
        )

    def first_intercept(self, outcome: str, problem: dense.Problem) -> float:
        """The ridge of the mean rating on all pairs, without factors; an observed pair weighs as a mean one."""
        if not problem.fit_intercept:
            return 0.0
        observed = self.counts > 0
        mean = self.ratings[observed].mean()
        weight = observed.sum() * (1.0 + OUTCOME["alpha"] * mean if outcome == "weighted" else 1.0)
        return float(mean * weight / (weight + problem.weights[~observed].sum() + problem.intercept_reg))

    def twin(
        self,
        spark: SparkSession,
        outcome: str,
        a_hat: Array | None,
        sweeps: int,
        confounder: str,
        unobserved_weight: float | None,
        ipw: bool,
        intercept: bool = True,
    ) -> "OutcomeTwin":
        """A member of the family."""
        inverse_propensity = self.inverse_propensity() if ipw else None
        if outcome == "poisson":
            return self.poisson_twin(spark, a_hat, sweeps, confounder, unobserved_weight, inverse_propensity, intercept)
        of = {
            "confounder": confounder,
            "unobserved_weight": unobserved_weight,
            "inverse_propensity": inverse_propensity,
            "fit_intercept": intercept,
        }
        return self.gaussian_twin(spark, outcome, a_hat, sweeps, **of)

    def poisson_twin(
        self,
        spark: SparkSession,
        a_hat: Array | None = None,
        sweeps: int = OUTCOME["maxIter"],
        confounder: str = "user",
        unobserved_weight: float | None = None,
        inverse_propensity: Array | None = None,
        intercept: bool = True,
    ) -> "OutcomeTwin":
        """The Poisson outcome with the parameters of OUTCOME; the users settle at the end."""
        drawn = np.zeros(self.ratings.shape) if a_hat is None else a_hat
        weights = np.ones(self.ratings.shape) if inverse_propensity is None else inverse_propensity
        if unobserved_weight is not None:
            weights = np.where(self.counts > 0, weights, unobserved_weight)
        data = dense_outcome.OutcomeData(self.ratings, weights, drawn, confounder, intercept)
        priors, keys = OUTCOME_PRIORS, self.keys(spark)
        state = dense_outcome.initial_outcome_state(np.random.default_rng(0), data, OUTCOME["rank"], priors, noise=0.0)
        state = replace(
            state,
            user_shape=priors.user_shape * (1.0 + noise(OUTCOME["seed"], keys[0], OUTCOME["rank"])),
            item_shape=priors.item_shape * (1.0 + noise(OUTCOME["seed"] + 1, keys[1], OUTCOME["rank"])),
        )
        objective = []
        for _ in range(sweeps):
            state = dense_outcome.update_items(dense_outcome.update_users(state, data, priors), data, priors)
            objective.append(dense_outcome.outcome_elbo(state, data, priors))
            state = dense_outcome.update_shared(state, data, priors)
        state = dense_outcome.converged_users(state, data, priors)
        now = dense_outcome.outcome_elbo(state, data, priors)
        more = dense_outcome.outcome_elbo(dense_outcome.outcome_sweep(state, data, priors), data, priors)
        gamma = np.zeros(len(self.users)) if a_hat is None else state.confounder_mean
        return OutcomeTwin(
            objective,
            state.user_mean,
            np.broadcast_to(gamma, len(self.users)),
            state.item_mean,
            state.intercept_mean if intercept else 0.0,
            dense_outcome.predict(state, data),
            (more - now) / abs(now),
        )

    def problem(
        self, outcome: str, a_hat: Array | None, confounder: str = "user", form: Form | None = None, **of: Any
    ) -> dense.Problem:
        """What least squares minimises, without ``a_hat`` classically. form : of a fit; None: standardised here."""
        settings = {
            "alpha": OUTCOME["alpha"],
            "user_reg": OUTCOME["regParam"],
            "item_reg": OUTCOME["regParam"],
            "confounder_reg": OUTCOME["confounderReg"],
            "intercept_reg": INTERCEPT_REG,
            **of,
        }
        if settings.get("unobserved_weight") is None:
            settings["unobserved_weight"] = 0.0 if outcome == "probabilistic" else 1.0
        confounder = "none" if a_hat is None else confounder
        if a_hat is not None:
            a_hat = (form or Form(mean=float(a_hat.mean()), scale=float(a_hat.std()))).of(a_hat)
        return dense.make_problem(outcome, confounder, self.ratings, self.counts > 0, a_hat, **settings)

    def inverse_propensity(self) -> Array:
        """(U, I), of the observed pairs: 1 / p by the paper's rule, normalised to mean 1; elsewhere 1."""
        observed = self.counts > 0
        relative = 0.25 ** np.maximum(0.0, 4.0 - self.ratings[observed])
        low, high = 0.0, 1e9
        for _ in range(200):
            middle = (low + high) / 2.0
            too_much = np.minimum(1.0, middle * relative).mean() > 0.05
            low, high = (low, middle) if too_much else (middle, high)
        weights = np.ones(self.ratings.shape)
        weights[observed] = 1.0 / np.minimum(1.0, low * relative)
        weights[observed] /= weights[observed].mean()
        return weights

    @cache  # noqa: B019 - of the two worlds of this module, which stay as they are
    def keys(self, spark: SparkSession) -> list[Array]:
        """The hash of each user's and each item's id: what a row's first noise comes from."""
        return [
            np.array(
                [row.key for row in ids.select(F.xxhash64(F.col("id").cast("string")).alias("key")).collect()], np.int64
            )
            for ids in (
                frame_of(spark, [(i,) for i in ids], f"id {id_type}").coalesce(1)
                for ids, id_type in zip((self.users, self.items), self.id_types, strict=True)
            )
        ]


class ExposureTwin(NamedTuple):
    state: dense_poisson.State
    elbo: list[float]


class OutcomeTwin(NamedTuple):
    """Objectives after each sweep; the final factors; predictions (U, I); relative gain of one more sweep."""

    objective: list[float]
    user_features: Array
    gamma: Array
    item_features: Array
    intercept: float
    predicted: Array
    gain: float


def tables(n_users: int, n_items: int) -> tuple[Array, Array]:
    """Counts of 0 to 3 and ratings of 0 to 5; nobody and nothing is without a rating."""
    rng = np.random.default_rng(8)
    counts = rng.integers(1, 4, (n_users, n_items)) * (rng.random((n_users, n_items)) < 0.4)
    counts[np.arange(n_users), np.arange(n_users) % n_items] = 1
    return counts.astype(float), np.where(counts > 0, rng.integers(0, 6, counts.shape), 0.0)


# Sorted by UTF-8 bytes, as Spark sorts them.
NAMES = World(
    users=["", " a b ", "a`tick", "quote'\"", "zoë", "İ", "ж", "用户", "🦊"],
    items=["1", "10", "2", "a.b", "e\u0301", "\u00e9", "用"],  # an accent, composed and not: two ids
    id_types=("string", "string"),
    counts=tables(9, 7)[0],
    ratings=tables(9, 7)[1],
)
NUMBERS = World(
    users=[-7, 0, 1, 2, 3, 10, 11, 2**31 - 1],
    items=[-(2**40), 3, 5, 2**33, 2**62],
    id_types=("int", "long"),
    counts=tables(8, 5)[0],
    ratings=tables(8, 5)[1],
)


def exposure(**changes: Any) -> PoissonFactorization:
    return PoissonFactorization(**{**EXPOSURE, **changes})


def outcome(**changes: Any) -> DeconfoundedMF:
    return DeconfoundedMF(**{**OUTCOME, **changes})


def dense_posterior(
    model: DeconfoundedMFModel, items: DataFrame | None = None
) -> tuple[dense_outcome.OutcomeState, dense_outcome.OutcomeData]:
    """A Poisson model of NAMES with a gamma per user, and its data, as the dense twin has them.

    items : those of a fold-in, in place of the model's own.
    """
    of_users, of_items = (by_id(table) for table in (model.tables()[0], model.tables()[1] if items is None else items))
    pi, lam = (side["exposure_shape"] / side["exposure_rate"] for side in (of_users, of_items))
    data = dense_outcome.OutcomeData(NAMES.ratings, np.ones(NAMES.ratings.shape), pi @ lam.T)
    assert isinstance(model.facts.shared, SharedGammas)
    intercept = model.facts.shared.intercept
    assert intercept is not None
    users = of_users["outcome_shape"], of_users["outcome_rate"]  # gamma's at their ends
    return dense_outcome.OutcomeState(
        *(q[:, :-1] for q in users),
        *(of_items["outcome_shape"], of_items["outcome_rate"]),
        *(q[:, -1] for q in users),
        *(np.array([value]) for value in intercept),
    ), data


def by_id(factors: DataFrame) -> dict[str, Any]:
    """The columns of a table of factors, its rows in the order of the ids; arrays as matrices."""
    table: pa.Table = factors.orderBy("id").toArrow()
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return {name: values if name == "id" else np.array(values) for name, values in columns.items()}


def cached(spark: SparkSession) -> tuple[bool, set[int]]:
    """Whether Spark caches no plan, and the numbers of the persisted RDDs; what fits left behind is let go of first."""
    unpersist_abandoned()
    nothing = spark._jsparkSession.sharedState().cacheManager().isEmpty()
    return nothing, set(spark.sparkContext._jsc.getPersistentRDDs().keySet())
