"""Stage 1: the exposure model's coordinate ascent, laid over the distributed half-step."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import gammaln

from dcrec_spark.blocks import Side
from dcrec_spark.engine.half_step import Arrays, State, Turn, Update, end_lineage, half_step, released_on_failure
from dcrec_spark.kernels.gamma import Floats, divergence, geometric_mean, noise
from dcrec_spark.kernels.poisson import CountBlock, log_rates, update_shape
from dcrec_spark.models.history import SLACK, History, Listener


@dataclass(frozen=True)
class GammaPrior:
    """Shape and rate of one side's Gamma prior."""

    shape: float
    rate: float


@dataclass(frozen=True)
class ExposureSettings:
    """What stage 1 is told."""

    rank: int
    max_iter: int
    tol: float
    users: GammaPrior
    items: GammaPrior
    seed: int
    checkpoint_interval: int = 10
    precision: str = "float64"


@dataclass(frozen=True)
class ExposureFit:
    """The last states of both sides, their memories the posterior, and the ELBO after each iteration."""

    users: State
    items: State
    elbo: list[float]


def fit_exposure(users: Side, items: Side, settings: ExposureSettings, listener: Listener) -> ExposureFit:
    """Alternate users and items until the ELBO settles (math: q(pi), q(lambda) of Poisson factorization)."""
    history = History("exposure", True, settings.tol, SLACK[settings.precision], listener)
    seeded = partial(start, rank=settings.rank, dtype=settings.precision)
    user_state = half_step(users, partial(seeded, prior=settings.users, seed=settings.seed))
    item_state = half_step(items, partial(seeded, prior=settings.items, seed=settings.seed + 1))
    constant = item_state.sums["log_factorial"]
    for iteration in range(1, settings.max_iter + 1):
        before = user_state, item_state
        user_state = half_step(users, partial(update, prior=settings.users), item_state, user_state)
        item_state = half_step(items, partial(update, prior=settings.items, score=True), user_state, item_state)
        for state in before:
            state.release()
        with released_on_failure(user_state, item_state):
            settled = history.settled_at(elbo(user_state.sums, item_state.sums) - float(constant))
        if settled:
            break
        if iteration % settings.checkpoint_interval == 0:
            user_state, item_state = end_lineage(user_state, item_state)
    return ExposureFit(user_state, item_state, history.values)


def elbo(users: Arrays, items: Arrays) -> float:
    """sum_obs a log(g_u . g_i) - (sum E pi) . (sum E lambda) - KL(users) - KL(items); without log a!."""
    expected = float(users["mean"] @ items["mean"])
    return float(items["log_rates"]) - expected - float(users["divergence"]) - float(items["divergence"])


def start(turn: Turn, *, prior: GammaPrior, rank: int, seed: int, dtype: str = "float64") -> Update:
    """Factors off the prior by noise that depends on (seed, side, id) alone; equal ones would stay equal."""
    shape = (prior.shape * (1.0 + noise(seed, turn.block["row_key"], rank))).astype(dtype)
    rate = np.full(rank, prior.rate, dtype)
    posterior = _posterior(shape, rate, prior)
    log_factorial = np.array(gammaln(turn.block["exposure_count"] + 1.0).sum())
    return posterior._replace(sums={**posterior.sums, "log_factorial": log_factorial})


def update(turn: Turn, *, prior: GammaPrior, score: bool = False) -> Update:
    """One coordinate step of the rows; with ``score``, also the part of the ELBO that needs the nonzeros."""
    before = geometric_mean(turn.memory["shape"], turn.memory["rate"])
    exposure = turn.block["exposure_count"].astype(before.dtype)
    counts = CountBlock(turn.block["row_ptr"], turn.block["col"], exposure)
    shape = update_shape(prior.shape, counts, before, turn.inbox)
    result = _posterior(shape, (prior.rate + turn.source_sums["mean"]).astype(shape.dtype), prior)
    if not score:
        return result
    rates = np.array(log_rates(counts, result.rows, turn.inbox))
    return result._replace(sums={**result.sums, "log_rates": rates})


def _posterior(shape: Floats, rate: Floats, prior: GammaPrior) -> Update:
    geometric = geometric_mean(shape, rate)
    sums = {
        "mean": (shape / rate).sum(axis=0, dtype=np.float64),
        "divergence": np.array(divergence(shape, rate, prior.shape, prior.rate)),
    }
    return Update(geometric, sums, {"shape": shape, "rate": rate})


def means(turn: Turn) -> Update:
    """The posterior means, as what the other side asks for."""
    return Update(turn.memory["shape"] / turn.memory["rate"], {}, {})
