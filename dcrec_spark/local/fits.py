"""Both stages in this process, without Spark: the same kernels, the same loop, one block a side.

For data that one task can work on, where Spark's own steps would take most of the time. Studies and searches run many
such fits side by side, one in each task. From the same keys, seeds and settings come the factors that the estimators
find, up to rounding; the estimators stand here for their parameters alone.
"""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dcrec_spark.engine.ascent import Fit, alternate
from dcrec_spark.engine.blocks import LocalSide, local_side
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.half_step import State, half_step, held_memory, memory_of
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.gamma import Floats
from dcrec_spark.kernels.propensity import raw_weights, relative_propensity, solve_scale
from dcrec_spark.models.exposure.estimator import PoissonFactorization
from dcrec_spark.models.families.gamma_poisson import SharedGammas
from dcrec_spark.models.families.select import outcome_steps, require_consistent, steps_for
from dcrec_spark.models.fitting.restarts import best_of, stopping
from dcrec_spark.models.outcome.confounder import attach_confounder
from dcrec_spark.models.outcome.estimator import DeconfoundedMF
from dcrec_spark.models.outcome.tables import has_own_weights, intercept_of, shared_gamma_of

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ratings:
    """Ratings by dense indices; who is who, the caller knows.

    user, item : (n,) places in the keys. rating : (n,) >= 0. user_key, item_key : (U,), (I,) hashes of the ids, the
    seeds of the starts. A user or item without ratings gets factors too.
    """

    user: Ints
    item: Ints
    rating: Floats
    user_key: Ints
    item_key: Ints

    def only(self, chosen: npt.NDArray[Any]) -> "Ratings":
        """Some of the ratings, of the same users and items."""
        return replace(self, user=self.user[chosen], item=self.item[chosen], rating=self.rating[chosen])

    def of_users(self, users: Ints) -> "Ratings":
        """The same ratings where only ``users``, sorted places of all that have any, are users."""
        return replace(self, user=np.searchsorted(users, self.user), user_key=self.user_key[users])

    def of_items(self, items: Ints) -> "Ratings":
        """The same for items."""
        return replace(self, item=np.searchsorted(items, self.item), item_key=self.item_key[items])


@dataclass(frozen=True)
class Exposure:
    """Posterior means of the exposure model, (U, K) and (I, K): a_hat_ui = users[u] . items[i]. elbo : by iteration."""

    users: Floats
    items: Floats
    elbo: tuple[float, ...] = ()

    def at(self, user: Ints, item: Ints) -> Floats:
        """a_hat of these pairs, (n,)."""
        return _pair_products(self.users, self.items, user, item)


@dataclass(frozen=True)
class Outcome:
    """A fitted outcome model: y_ui(1) = users[u] . items[i] + gamma[u] a_hat_ui + intercept.

    users : (U, K). items : (I, K). gamma : (U,), all equal for a global one, 0 without a confounder.
    objective : after each sweep.
    """

    users: Floats
    items: Floats
    gamma: Floats
    intercept: float
    exposure: Exposure | None
    objective: tuple[float, ...]

    def scores(self, user: Ints, item: Ints) -> Floats:
        """The potential rating of these pairs, (n,)."""
        preference = _pair_products(self.users, self.items, user, item) + self.intercept
        return preference if self.exposure is None else preference + self.gamma[user] * self.exposure.at(user, item)


def fit_exposure(ratings: Ratings, estimator: PoissonFactorization) -> Exposure:
    """Stage 1: every rating is one exposure."""
    fit = _fit_exposure(_exposure_blocks(ratings, estimator), estimator)
    return _exposure(fit.users, fit.items, fit.objective)


def fit_outcome(ratings: Ratings, estimator: DeconfoundedMF, exposure: Exposure | None = None) -> Outcome:
    """Stage 2: classical, inverse-propensity or, with ``exposure``, deconfounded.

    Raises
    ------
    ConfigError : the estimator's adjustment needs an exposure and has none, or has one that it does not use; or it asks
        for what only the distributed fit has (a propensity column, an initial model, held-out pairs).
    """
    _require_local(estimator, exposure)
    weights = _Weights.fitted(ratings, estimator)
    with ExitStack() as kept:
        blocks = _outcome_blocks(ratings, estimator, weights, exposure, kept)
        return _outcome(estimator, _fit_outcome(blocks, estimator), exposure)


def fit_and_fold_in(
    ratings: Ratings, estimator: DeconfoundedMF, stage_one: PoissonFactorization | None, new: Ratings
) -> Outcome:
    """Fit to ``ratings``, then fold in the users of ``new``: the model of the new users.

    new : its items are those of ``ratings``, its users others. stage_one : for adjustment="deconfounded", else None.
    """
    weights = _Weights.fitted(ratings, estimator)
    known = folded = None
    with ExitStack() as kept:
        if stage_one is not None:
            fit = _fit_exposure(_exposure_blocks(ratings, stage_one), stage_one)
            known = _exposure(fit.users, fit.items, fit.objective)
            users, items = _fold_in(_exposure_blocks(new, stage_one), stage_one.steps(), fit.items, SharedGammas())
            folded = _exposure(users, items, fit.objective)
        _require_local(estimator, known)
        fit = _fit_outcome(_outcome_blocks(ratings, estimator, weights, known, kept), estimator)
        blocks = _outcome_blocks(new, estimator, weights, folded, kept)
        users, items = _fold_in(blocks, steps_for(estimator, blocks.n_pairs), fit.items, fit.shared)
        return _outcome(estimator, replace(fit, users=users, items=items), folded)


# ---- blocks


@dataclass(frozen=True)
class _Blocks:
    """Both sides in this process; the facts are those of a Layout."""

    users: LocalSide
    items: LocalSide
    nonzeros: int
    means: dict[str, float]
    held_out = False

    @property
    def n_pairs(self) -> float:
        return float(self.users.n_rows) * self.items.n_rows


def _exposure_blocks(ratings: Ratings, estimator: PoissonFactorization) -> _Blocks:
    return _blocks(ratings, {"exposure_count": np.ones(len(ratings.rating))}, estimator.getOrDefault("precision"))


def _outcome_blocks(
    ratings: Ratings,
    estimator: DeconfoundedMF,
    weights: "_Weights | None",
    exposure: Exposure | None,
    kept: ExitStack,
) -> _Blocks:
    values = {"rating": ratings.rating}
    if weights is not None:
        values["weight"] = weights.of(ratings.rating)
    blocks = _blocks(ratings, values, estimator.getOrDefault("precision"))
    if exposure is None:
        return blocks
    users, items = attach_confounder(
        blocks.users, blocks.items, _as_state(exposure.users), _as_state(exposure.items), kept
    )
    return replace(blocks, users=users, items=items)


def _blocks(ratings: Ratings, values: dict[str, Floats], precision: str) -> _Blocks:
    sides = []
    for name, row, col, key, n_source in (
        ("user", ratings.user, ratings.item, ratings.user_key, len(ratings.item_key)),
        ("item", ratings.item, ratings.user, ratings.item_key, len(ratings.user_key)),
    ):
        sides.append(local_side(name, {"row": row, "col": col, **values}, key, n_source, list(values), precision))
    means = {name: float(value.mean()) for name, value in values.items()}
    return _Blocks(sides[0], sides[1], len(ratings.rating), means)


class _Weights(NamedTuple):
    """Inverse propensities from ratings, as in :mod:`dcrec_spark.models.outcome.propensity`, normalised to mean 1."""

    scale: float
    decay: float
    pivot: float
    cap: float | None
    mean: float

    @classmethod
    def fitted(cls, ratings: Ratings, estimator: DeconfoundedMF) -> "_Weights | None":
        get = estimator.getOrDefault
        if get("adjustment") != "ipw":
            return None
        decay, pivot, cap = get("propensityDecay"), get("propensityPivot"), get("weightCap")
        value, count = np.unique(ratings.rating, return_counts=True)
        scale = solve_scale(relative_propensity(value, decay, pivot), count.astype(np.float64), get("propensityMean"))
        return cls(scale, decay, pivot, cap, float(raw_weights(ratings.rating, scale, decay, pivot, cap).mean()))

    def of(self, rating: Floats) -> Floats:
        return raw_weights(rating, self.scale, self.decay, self.pivot, self.cap) / self.mean


# ---- fits


def _fit_exposure(blocks: _Blocks, estimator: PoissonFactorization) -> Fit:
    def fit(again: int) -> Fit:
        return alternate(blocks.users, blocks.items, estimator.steps(again=again), stopping(estimator), _quiet)

    return best_of(estimator, fit, rises=True)


def _fit_outcome(blocks: _Blocks, estimator: DeconfoundedMF) -> Fit:
    def fit(again: int) -> Fit:
        steps = outcome_steps(estimator, blocks, again)
        return alternate(blocks.users, blocks.items, steps, stopping(estimator), _quiet)

    return best_of(estimator, fit, estimator.getOrDefault("outcome") == "poisson")


def _fold_in(blocks: _Blocks, steps: Any, items: State, shared: Any) -> tuple[State, State]:
    """New users, the items as they were fitted."""
    frozen = half_step(blocks.items, steps.start_items(), previous=held_memory(memory_of(items)))
    return half_step(blocks.users, steps.settle(shared), frozen), frozen


def _require_local(estimator: DeconfoundedMF, exposure: Exposure | None) -> None:
    require_consistent(estimator)
    get = estimator.getOrDefault
    if (get("adjustment") == "deconfounded") != (exposure is not None):
        found = "none" if exposure is None else "an exposure model"
        raise ConfigError(f"adjustment={get('adjustment')} with {found}: deconfounded needs one, the others have none")
    given = [n for n in ("propensityCol", "initialModel", "validationIndicatorCol") if get(n) is not None]
    if given:
        raise ConfigError(f"{given[0]}: a fit in memory has none; fit with the estimator itself")


def _quiet(stage: str, iteration: int, objective: float) -> None:
    """Nobody follows a single one of many fits."""


# ---- states


def _as_state(means: Floats) -> State:
    """An exposure model's side of which only the posterior means matter."""
    return held_memory({"shape": means, "rate": np.ones_like(means)})


def _exposure(users: State, items: State, elbo: list[float]) -> Exposure:
    return Exposure(_posterior_mean(memory_of(users)), _posterior_mean(memory_of(items)), tuple(elbo))


def _posterior_mean(memory: dict[str, Array], prefix: str = "") -> Floats:
    return np.asarray(memory[f"{prefix}shape"] / memory[f"{prefix}rate"], np.float64)


def _outcome(estimator: DeconfoundedMF, fit: Fit, exposure: Exposure | None) -> Outcome:
    users, items = memory_of(fit.users), memory_of(fit.items)
    is_poisson, rank = estimator.getOrDefault("outcome") == "poisson", estimator.getOrDefault("rank")
    features = [_posterior_mean(side) if is_poisson else side["rows"].astype(np.float64) for side in (users, items)]
    gamma = np.full(len(features[0]), shared_gamma_of(fit.shared))
    if has_own_weights(estimator):
        gamma = _posterior_mean(users, "gamma_")[:, 0] if is_poisson else features[0][:, rank]
    intercept = intercept_of(fit.shared)
    return Outcome(features[0][:, :rank], features[1], gamma, intercept, exposure, tuple(fit.objective))


def _pair_products(users: Floats, items: Floats, user: Ints, item: Ints) -> Floats:
    return np.asarray(np.einsum("nk,nk->n", users[user], items[item]))
