"""Both stages in this process, without Spark: the same stages of a fit, over blocks that are here.

For data that one task can work on, where Spark's own steps would take most of the time. Studies and searches run many
such fits side by side, one in each task. From the same keys, seeds and settings come the factors that the estimators
find, up to rounding. Only the parameters of the estimators are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dcrec_spark.engine.build import build_process_side
from dcrec_spark.engine.sides import State
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.exposure import PLAIN, Form, Scaling
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.families.gaussian import FEATURES
from dcrec_spark.models.families.poisson import PoissonExposure
from dcrec_spark.models.families.registry import consistent_family_of
from dcrec_spark.models.fitting.attach import Covariates, attach_confounder, attach_feature_state
from dcrec_spark.models.fitting.facts import FitFacts
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.process_layout import ProcessLayout
from dcrec_spark.models.fitting.propensity import PropensitySettings, propensity_from_counts
from dcrec_spark.models.fitting.stages import fit_factors
from dcrec_spark.models.outcome.estimator import DeconfoundedMF

Ints = npt.NDArray[np.int64]
# Of all users and of all items, (U, numbers) and (I, numbers).
Features = tuple[Floats | None, Floats | None]
NO_FEATURES: Features = (None, None)


@dataclass(frozen=True)
class Ratings:
    """Ratings by dense indices. The caller has the ids.

    A user or item without ratings gets factors too.

    user, item : (n,) places in the keys. rating : (n,) >= 0. user_key, item_key : (U,), (I,) hashes of the ids, the
    seeds of the starts.
    """

    user: Ints
    item: Ints
    rating: Floats
    user_key: Ints
    item_key: Ints

    def only(self, chosen: npt.NDArray[Any]) -> "Ratings":
        return replace(self, user=self.user[chosen], item=self.item[chosen], rating=self.rating[chosen])

    def among(self, users: Ints, items: Ints) -> "Ratings":
        """Return the same ratings where only ``users`` and ``items``, sorted places of all that have any, are some."""
        user, item = np.searchsorted(users, self.user), np.searchsorted(items, self.item)
        return Ratings(user, item, self.rating, self.user_key[users], self.item_key[items])


def lay_out(ratings: Ratings, values: Mapping[str, Floats], precision: str) -> ProcessLayout:
    """Return the blocks of ratings. values : name of a block's array -> one number for each rating."""
    users, items = (
        build_process_side(name, {"row": row, "col": col, **values}, key, n_source, list(values), precision)
        for name, row, col, key, n_source in (
            ("user", ratings.user, ratings.item, ratings.user_key, len(ratings.item_key)),
            ("item", ratings.item, ratings.user, ratings.item_key, len(ratings.user_key)),
        )
    )
    means = {name: float(value.mean()) for name, value in values.items()}
    return ProcessLayout(users, items, len(ratings.rating), means)


@dataclass(frozen=True)
class Exposure:
    """Posterior means of the exposure model: a_hat_ui = users[u] . items[i]."""

    users: Floats  # (U, L)
    items: Floats  # (I, L)
    elbo: tuple[float, ...] = ()  # after each iteration
    user_rate: Floats | None = None  # (U, L). None without a posterior: no exposure to leave out
    item_rate: Floats | None = None  # (I, L), or None

    def memories(self) -> tuple[State, State]:
        states = []
        for mean, given in ((self.users, self.user_rate), (self.items, self.item_rate)):
            rate = np.ones_like(mean) if given is None else given
            states.append(State.of_memory({"shape": mean * rate, "rate": rate}))
        return states[0], states[1]

    def at(self, user: Ints, item: Ints) -> Floats:
        """a_hat of these pairs, (n,)."""
        return _pair_products(self.users, self.items, user, item)


@dataclass(frozen=True)
class Outcome:
    """A fitted outcome model: y_ui(1) = users[u] . items[i] + biases + gamma[u] a_hat_ui + intercept."""

    users: Floats  # (U, K), with covariates [theta_u, kappa_u, p_u]
    items: Floats  # (I, K), with covariates [beta_i, q_i, rho_i]
    gamma: Floats  # (U,), all equal for a global one, 0 without a confounder
    intercept: float
    exposure: Exposure | None
    facts: FitFacts  # how the fit went
    user_bias: Floats | None = None  # (U,), or None without biases
    item_bias: Floats | None = None  # (I,), or None
    form: Form = PLAIN

    @property
    def objective(self) -> tuple[float, ...]:
        """J, or the ELBO, after each sweep."""
        return tuple(self.facts.objective)

    def scores(self, user: Ints, item: Ints) -> Floats:
        preference = _pair_products(self.users, self.items, user, item) + self.intercept
        if self.user_bias is not None and self.item_bias is not None:
            preference += self.user_bias[user] + self.item_bias[item]
        if self.exposure is not None:
            preference += self.gamma[user] * self.form.of(self.exposure.at(user, item))
        return preference


def fit_exposure(ratings: Ratings, estimator: PoissonFactorization) -> Exposure:
    """Fit stage 1. Every rating is one exposure."""
    family = PoissonExposure.of(estimator)
    layout = lay_out(ratings, {"exposure_count": np.ones(len(ratings.rating))}, estimator.getOrDefault("precision"))
    fit = fit_factors(estimator, family, layout, ignore_progress)
    sides = (True, fit.users), (False, fit.items)
    tables = [layout.arrays(is_user, state, family, fit.shared) for is_user, state in sides]
    means = [np.asarray(table["shape"] / table["rate"]) for table in tables]
    return Exposure(means[0], means[1], tuple(fit.objective), tables[0]["rate"], tables[1]["rate"])


def fit_outcome(
    ratings: Ratings,
    estimator: DeconfoundedMF,
    exposure: Exposure | None = None,
    standardize: bool = True,
    features: Features = NO_FEATURES,
) -> Outcome:
    """Fit stage 2: without the confounder, by inverse propensities or, with ``exposure``, deconfounded.

    features : of all users, (U, numbers), and of all items, (I, numbers), NaN where one is missing.

    standardize : whether least squares have the confounder at mean 0 and standard deviation 1, as the estimator's do.
        The paper's models have a_hat itself.

    Raises ConfigError: the estimator's adjustment needs an exposure and has none, or has one that it does not use. Or
    it asks for what only the distributed fit has (a propensity column, an initial model, held-out pairs).
    """
    family, get = consistent_family_of(estimator), estimator.getOrDefault
    if family.has_confounder != (exposure is not None):
        given = "none" if exposure is None else "an exposure model"
        raise ConfigError(f"adjustment={get('adjustment')} with {given}: deconfounded needs one, the others have none")
    beyond = [name for name in ("propensityCol", "initialModel", "validationIndicatorCol") if get(name) is not None]
    if beyond:
        raise ConfigError(f"{beyond[0]}: a fit in memory has none; fit with the estimator itself")
    values: dict[str, Floats] = {"rating": ratings.rating, "exposure_count": np.ones(len(ratings.rating))}
    if get("adjustment") == "ipw":
        value, count = np.unique(ratings.rating, return_counts=True)
        propensity = propensity_from_counts(value, count.astype(np.float64), PropensitySettings.of(estimator))
        values["weight"] = propensity.weights(ratings.rating)
    layout, form, scalings = lay_out(ratings, values, get("precision")), PLAIN, [Scaling(), Scaling()]
    with FitResources() as resources:
        if exposure is not None:
            term = family.exposure_term
            leave_one_out = term.leave_one_out and exposure.user_rate is not None
            term = term._replace(standardize=term.standardize and standardize, leave_one_out=leave_one_out)
            layout, form = attach_confounder(layout, *exposure.memories(), term, resources)
        for side, numbers in enumerate(features):
            if numbers is not None:
                state, names = State.of_memory({FEATURES: numbers}), tuple(map(str, range(numbers.shape[1])))
                layout, scalings[side] = attach_feature_state(layout, side == 0, state, names, resources)
        family = Covariates(*scalings).of_family(family, form)
        fit = fit_factors(estimator, family, layout, ignore_progress)
    user, item = (layout.arrays(*side, family, fit.shared) for side in ((True, fit.users), (False, fit.items)))
    of_users, of_items = user["features"], item["features"]
    if "slopes" in user:
        of_users = np.hstack([of_users, user["slopes"], user["covariates"]])
        of_items = np.hstack([of_items, item["covariates"], item["slopes"]])
    facts, intercept = FitFacts.of(family, layout, fit), family.shared_numbers(fit.shared).intercept
    biases = user.get("bias"), item.get("bias")
    return Outcome(of_users, of_items, user["gamma"], intercept, exposure, facts, *biases, form)


def ignore_progress(stage: str, iteration: int, objective: float) -> None:
    """Ignore an iteration: nobody follows a single one of many fits."""


def _pair_products(users: Floats, items: Floats, user: Ints, item: Ints) -> Floats:
    return np.asarray(np.einsum("nk,nk->n", users[user], items[item]))
