"""Gamma-Poisson factorization for the exposure model and the Poisson outcome: kernels of half-steps, and their sums.

    y_ui ~ Poisson(theta_u . beta_i [+ gamma_u a_hat_ui] [+ beta_0])        priors Gamma(shape, rate) on everything

With neither term this is stage 1: theta is pi, beta is lambda, y is a. The whole log likelihood of a pair, y log r - r,
has a weight: w_ui where it was observed (1, or an inverse propensity), w0 elsewhere. So each rate of q adds up
w0 sum_all E + sum_obs (w - w0) E, which takes the means of the other side at the nonzeros, unless all weights are 1.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self, TypeVar

import numpy as np
from scipy.special import gammaln

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.acceleration import PLAIN_STEP, REACHED, Stride
from dcrec_spark.engine.blocks import Block, Pairs
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.steps import PartsOf, ScoresOf, Steps
from dcrec_spark.kernels.csr import CountBlock, inner_products, row_products, rows_of
from dcrec_spark.kernels.gamma import Floats, best_scale, divergence, geometric_mean, moments, noise, over_relax
from dcrec_spark.kernels.poisson import converge_shape, drawn_counts, log_rates, rates, update_shape

Term = TypeVar("Term")

# Users have converged when their shapes change by no more than this share. Maximum number of rounds of three updates.
CONVERGED, MOST_ROUNDS = 1e-6, 100
# The largest of many changes is bounded by their norm of this order, whose powers blocks can add up.
NORM = 8
# A component that explains nothing still gets a little of each count. In fits of ranks 10 and 30 to simulated data of
# lower rank (shapes 0.3) such components had 0.3 to 1 % beyond the prior's shapes and 0.004 to 0.02 % of the counts,
# others from 7 % and 0.1 % on. Both are required: strong priors leave little to all, and many counts little to a niche.
AT_PRIOR, NO_SHARE = 0.02, 1e-3


class Gamma(NamedTuple):
    """Shape and rate of a Gamma distribution: of a prior, or of q of one number that all pairs share."""

    shape: float
    rate: float

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    @property
    def geometric_mean(self) -> float:
        """exp(E[log x])."""
        return float(geometric_mean(np.array([self.shape]), np.array([self.rate]))[0])


class SharedGammas(NamedTuple):
    """q(beta_0) and q(gamma) where they are shared by all pairs, else None."""

    intercept: Gamma | None = None
    gamma: Gamma | None = None


@dataclass(frozen=True)
class GammaPoisson(Steps):
    """A Gamma-Poisson model of one array of counts.

    count : the block's array of counts, "exposure_count" or "rating". prior : of all factors.
    confounder, intercept : priors of gamma and beta_0, None where the model lacks them.
    per_user : whether each user has a gamma, not one gamma all users.
    n_pairs : U x I, what the intercept's rate adds up to. validates : whether there are held-out pairs.
    unobserved : w0, the weight of an unobserved pair. weighted : whether the observed pairs have weights of their own.
    accelerates : whether steps may go beyond the optimum. stride : how far they go.
    scale : (K,), what the users' factors are multiplied with before they move, and the items' divided by.
    """

    stage: str
    count: str
    rank: int
    prior: Gamma
    seed: int
    precision: str = "float64"
    confounder: Gamma | None = None
    per_user: bool = True
    intercept: Gamma | None = None
    n_pairs: float = 0.0
    validates: bool = False
    unobserved: float = 1.0
    weighted: bool = False
    accelerates: bool = False
    stride: Stride = PLAIN_STEP
    scale: Floats | float = 1.0

    rises = True
    # On MovieLens 100K no sweep of this length had to be undone; momentum beyond .95 was no faster.
    longest = Stride(1.9, 0.95)

    @property
    def reweighs(self) -> bool:
        """Whether some pair weighs something else than 1, so that the rows of a side have rates of their own."""
        return self.weighted or self.unobserved != 1.0

    @property
    def gamma_per_user(self) -> bool:
        return self.confounder is not None and self.per_user

    def of_rows(self, rows: Array, is_user: bool, mean: bool = False) -> tuple[Array, Array]:
        """Return views of the geometric means in a side's rows, or of the means: (n, K), and (n, 1) or (n, 0) of gamma.

        Rows have means only where single pairs are predicted. Of a user of rank 2 with a gamma they are::

            g_u0  g_u1  g_gamma_u   E_u0  E_u1  E_gamma_u
        """
        width = self.rank + (is_user and self.gamma_per_user)
        begin = width * mean
        return rows[:, begin : begin + self.rank], rows[:, begin + self.rank : begin + width]

    @property
    def shared(self) -> SharedGammas:
        return SharedGammas(self.intercept, None if self.gamma_per_user else self.confounder)

    def accelerated(self, stride: Stride, users: Arrays, items: Arrays) -> Self:
        """Return the same steps with another stride, from where each factor has its best scale."""
        sides = [(sums["mean"], float(sums["rows"]), self.prior.shape, self.prior.rate) for sums in (users, items)]
        return replace(self, stride=stride, scale=best_scale(sides[0], sides[1]).astype(self.precision))

    def start(self, is_user: bool) -> Kernel:
        return partial(start, model=self, is_user=is_user)

    def update(self, shared: SharedGammas, is_user: bool) -> Kernel:
        return partial(update, model=self, shared=shared, is_user=is_user)

    def converge(self, shared: SharedGammas, is_user: bool = True, scores: bool = False) -> Kernel:
        return partial(converge, model=self, shared=shared, is_user=is_user, scores=scores)

    def heavy_parts(self, shared: SharedGammas) -> PartsOf:
        return partial(heavy_parts, model=self, shared=shared)

    def heavy_scores(self, shared: SharedGammas) -> ScoresOf:
        return partial(heavy_scores, model=self, shared=shared)

    def conclude(self, users: Arrays, items: Arrays, shared: SharedGammas) -> tuple[float, SharedGammas]:
        """Return the ELBO with optimal responsibilities. Then q(beta_0) and a shared q(gamma) from those."""
        return self._elbo(users, items, shared), self._update_shared(users, items, shared)

    def movement(self, items: Arrays) -> float:
        """Return the norm of the relative changes of the items' shapes and rates, at least the largest of them."""
        return float(items["movement"] ** (1.0 / NORM))

    def converged_objective(self, users: Arrays, items: Arrays, shared: SharedGammas) -> float:
        own = {name: users[name] for name in ("log_rates", "rate_excess") if name in users}
        return self._elbo(users, {**items, **own}, shared)

    def _elbo(self, users: Arrays, items: Arrays, shared: SharedGammas) -> float:
        expected = float(users["mean"] @ items["mean"])
        far = float(users["divergence"]) + float(items["divergence"])
        if self.confounder is not None:
            attracted = float(users["confounder_total"] @ items["exposure_total"])
            expected += attracted * (shared.gamma.mean if shared.gamma else 1.0)
        if shared.intercept:
            expected += shared.intercept.mean * self.n_pairs
        expected = self._weighted(expected, items, "rate_excess")
        for q, prior in ((shared.intercept, self.intercept), (shared.gamma, self.confounder)):
            if q is not None and prior is not None:
                far += divergence(np.array([[q.shape]]), np.array([q.rate]), prior.shape, prior.rate)
        return float(items["log_rates"]) - float(items["log_factorial"]) - expected - far

    def _update_shared(self, users: Arrays, items: Arrays, shared: SharedGammas) -> SharedGammas:
        intercept, gamma = shared
        if intercept is not None and self.intercept is not None:
            shape = self.intercept.shape + intercept.geometric_mean * float(items["shares"])
            intercept = Gamma(shape, self.intercept.rate + self._weighted(self.n_pairs, items, "excess"))
        if gamma is not None and self.confounder is not None:
            shape = self.confounder.shape + gamma.geometric_mean * float(items["confounder_shares"])
            attracted = float(users["confounder_total"] @ items["exposure_total"])
            gamma = Gamma(shape, self.confounder.rate + self._weighted(attracted, items, "confounder_excess"))
        return SharedGammas(intercept, gamma)

    def _weighted(self, of_all: float, items: Arrays, excess: str) -> float:
        """Return w0 sum_all + sum_obs (w - w0), from a sum over all pairs and the name of one over the observed."""
        return self.unobserved * of_all + (float(items[excess]) if self.reweighs else 0.0)

    def held_out_loss(self, items: Arrays, shared: SharedGammas) -> float | None:
        """Return the held-out pairs' mean negative log likelihood under the posterior means, without log y!."""
        if "held_out" not in items:
            return None
        return float(items["held_out"]) / float(items["held_out_pairs"])


def start(inputs: KernelInput, *, model: GammaPoisson, is_user: bool) -> Update:
    """Shapes off the prior by noise that depends on (seed, side, id) alone. Equal ones would stay equal.

    With a memory, a row that it knows (finite) starts there.
    """
    seed = model.seed if is_user else model.seed + 1
    noisy = model.prior.shape * (1.0 + noise(seed, inputs.block.row_key, model.rank))
    memory: dict[str, Floats] = {
        "shape": noisy.astype(model.precision),
        "rate": np.full(model.rank, model.prior.rate, model.precision),
    }
    if is_user and model.gamma_per_user:
        weight, size = required(model.confounder), (len(noisy), 1)
        memory["gamma_shape"] = np.full(size, weight.shape, model.precision)
        memory["gamma_rate"] = np.full(size, weight.rate, model.precision)
    if len(inputs.memory.get("shape", ())):
        for name, new in memory.items():  # remembered rates are (n, K): folded-in rows have rates that differ
            remembered = inputs.memory[name].astype(model.precision)
            memory[name] = np.where(np.isfinite(remembered), remembered, new)
    begun = _posterior(inputs.block, model, is_user, memory)
    return _remember(begun, inputs.memory[REACHED].astype(model.precision)) if REACHED in inputs.memory else begun


def update(inputs: KernelInput, *, model: GammaPoisson, shared: SharedGammas, is_user: bool) -> Update:
    """One coordinate step of the rows. For items, also the sums that need the nonzeros."""
    before, memory = _shapes(inputs.memory), inputs.memory
    if not is_user:  # of users nothing is scaled here: their factors meet items', and the products are what they were
        memory = {**memory, "rate": memory["rate"] * model.scale}
    mean = _geometric_means(memory)
    cols, block = _sources(inputs, model, is_user)[0], count_block(inputs, model, shared, is_user)
    prior = prior_shapes(model, is_user)
    updated = update_shape(prior, block, mean, cols)
    if inputs.parts:  # of rows without a pair here
        updated[inputs.block[heavy_items.ROW]] += mean[inputs.block[heavy_items.ROW]] * inputs.parts["drawn"]
    length, momentum = model.stride
    longer = over_relax(before, updated, prior, length)
    shape = over_relax(inputs.memory.get(REACHED, before), longer, prior, 1.0 + momentum)
    result = _move(inputs, model, is_user, shape)
    if momentum:
        result = _remember(result, longer)
    if is_user:
        return result
    changes = [np.abs(result.memory[name] / inputs.memory[name] - 1.0) for name in ("shape", "rate")]
    movement = np.array(sum(float((change.astype(np.float64) ** NORM).sum()) for change in changes))
    reached = rates(block, model.of_rows(result.rows, False)[0], cols)
    sums = _sums_of_pairs(inputs, model, shared, block, reached, result.memory, is_user=False)
    return result._replace(sums={**result.sums, "movement": movement, **sums})


def heavy_parts(inputs: KernelInput, update: Update, *, model: GammaPoisson, shared: SharedGammas) -> dict[str, Floats]:
    """Add up drawn counts, and w - w0 times the users' means, of heavy items' pairs, (H, K) each (float64)."""
    of_items, _ = model.of_rows(inputs.inbox[inputs.block[heavy_items.AT]], is_user=False)
    met = KernelInput(heavy_items.transpose(inputs.block), {}, update.rows, {})
    counts, cols = count_block(met, model, shared, is_user=False), _sources(met, model, is_user=False)[0]
    parts: dict[str, Floats] = {"drawn": drawn_counts(counts, of_items / model.scale, cols).astype(np.float64)}
    excess = _excess(met.block, model)
    if excess is not None:
        means, _ = model.of_rows(update.rows, is_user=True, mean=True)
        parts["excess"] = row_products(counts.row_ptr, counts.col, excess, means)
    return parts


def heavy_scores(inputs: KernelInput, items: Array, *, model: GammaPoisson, shared: SharedGammas) -> dict[str, Floats]:
    """Add up, over the pairs of a block of users with heavy items, what the step of items adds up over its pairs.

    items : (H, width) the heavy items as they have moved. The memory has the users.
    """
    met = KernelInput(heavy_items.heavy_pairs(inputs.block), inputs.memory, items, {})
    counts = count_block(met, model, shared, is_user=True)
    rate = rates(counts, _geometric_means(inputs.memory), _sources(met, model, is_user=True)[0])
    return _sums_of_pairs(met, model, shared, counts, rate, inputs.memory, is_user=True)


def converge(
    inputs: KernelInput, *, model: GammaPoisson, shared: SharedGammas, is_user: bool, scores: bool = False
) -> Update:
    """Rows as the other side determines them, started from equal shares: the same wherever they were before.

    scores : whether to add up the ELBO's parts of their nonzeros.
    """
    block, prior = count_block(inputs, model, shared, is_user), prior_shapes(model, is_user)
    totals = np.diff(np.concatenate([[0.0], np.cumsum(block.counts, dtype=np.float64)])[block.row_ptr])
    equal = (prior + totals[:, None] / len(prior)).astype(model.precision)
    rate, gamma_rate = _rates(inputs, model, is_user)
    full, cols = np.broadcast_to(rate, (len(equal), model.rank)), _sources(inputs, model, is_user)[0]
    if gamma_rate is not None:
        full = np.hstack([full, gamma_rate])
    shape = converge_shape(prior, block, equal, full, cols, CONVERGED, MOST_ROUNDS)
    result = _move(inputs, model, is_user, shape)
    if not scores:
        return result
    sums = {"log_rates": np.array(log_rates(block, rates(block, geometric_mean(shape, full), cols)))}
    excess = _excess(inputs.block, model)
    if excess is not None:
        mean = _mean_rates(inputs, inputs.block.fitted, model, shared, result.memory, is_user)
        sums["rate_excess"] = np.array(excess @ mean)
    return result._replace(sums={**result.sums, **sums})


def _shapes(memory: Arrays) -> Floats:
    """Return shapes of a block's rows, (n, F): of the factors, and last of gamma where each row has one."""
    shape: Floats = memory["shape"]
    return np.hstack([shape, memory["gamma_shape"]]) if "gamma_shape" in memory else shape


def posteriors(memory: Arrays) -> tuple[Floats, Floats]:
    """Return shapes and rates of a block's rows, (n, F) each: see :func:`_shapes`."""
    rate = np.broadcast_to(memory["rate"], memory["shape"].shape)
    return _shapes(memory), np.hstack([rate, memory["gamma_rate"]]) if "gamma_rate" in memory else rate


def _geometric_means(memory: Arrays) -> Floats:
    """Return exp(E[log x]) of a block's rows, (n, F): see :func:`_shapes`."""
    means = geometric_mean(memory["shape"], memory["rate"])
    if "gamma_shape" not in memory:
        return means
    return np.hstack([means, geometric_mean(memory["gamma_shape"], memory["gamma_rate"])])


def _sources(inputs: KernelInput, model: GammaPoisson, is_user: bool, mean: bool = False) -> tuple[Floats, Floats]:
    """Return :meth:`GammaPoisson.of_rows` of the inbox. is_user : whether its readers are users."""

    def split() -> tuple[Floats, Floats]:
        factors, gamma = model.of_rows(inputs.inbox, not is_user, mean)
        return np.ascontiguousarray(factors), gamma

    return inputs.once("means" if mean else "geometric means", split)


def count_block(inputs: KernelInput, model: GammaPoisson, shared: SharedGammas, is_user: bool) -> CountBlock:
    """Return the kernel's view of a block: its counts, and what else its rates are made of."""
    pairs = inputs.block.fitted
    count = pairs.value(model.count).astype(model.precision)
    if pairs.has("weight"):
        count = count * pairs.value("weight").astype(model.precision)
    of_rows = offset = np.empty(0, model.precision)
    if model.intercept is not None:
        offset = np.full(len(pairs.col), required(shared.intercept).geometric_mean, model.precision)
    if model.confounder is not None:
        a_hat = pairs.value("a_hat").astype(model.precision)
        if model.gamma_per_user and is_user:
            of_rows = a_hat
        else:
            part = (_gammas_of(inputs, pairs.col, model, shared) * a_hat).astype(model.precision)
            offset = offset + part if len(offset) else part
    return CountBlock(pairs.row_ptr, pairs.col, count, of_rows, offset)


def _gammas_of(
    inputs: KernelInput, col: Array, model: GammaPoisson, shared: SharedGammas, mean: bool = False
) -> Floats | float:
    """Return the geometric means, or means, of the sources' gamma at these places of the inbox, or the one of all."""
    if model.gamma_per_user:
        return np.asarray(_sources(inputs, model, False, mean)[1][:, 0][col])
    gamma = required(shared.gamma)
    return gamma.mean if mean else gamma.geometric_mean


def prior_shapes(model: GammaPoisson, is_user: bool) -> Floats:
    """(K,), or (K + 1,) where the rows have a gamma each."""
    prior = [model.prior.shape] * model.rank
    if is_user and model.gamma_per_user:
        prior.append(required(model.confounder).shape)
    return np.array(prior, model.precision)


def _rates(inputs: KernelInput, model: GammaPoisson, is_user: bool) -> tuple[Floats, Floats | None]:
    """Return rates of the factors, (K,) or (n, K), and of the gammas, (n, 1).

    The prior's, and all that they are multiplied with, by the weights of the pairs.
    """
    prior = model.prior
    # Items before they are divided by the scale; users as they have moved.
    scale = model.scale if is_user else 1.0
    rate = prior.rate + model.unobserved * inputs.source_sums["mean"] / scale
    excess, pairs = _excess(inputs.block, model), inputs.block.fitted
    if excess is not None:
        means, _ = _sources(inputs, model, is_user, mean=True)
        rate = rate + row_products(pairs.row_ptr, pairs.col, excess, means) / scale
        if inputs.parts:
            rate[inputs.block[heavy_items.ROW]] += inputs.parts["excess"]
    if not (is_user and model.gamma_per_user):
        return rate.astype(model.precision), None
    reach = model.unobserved * (inputs.block["exposure"].astype(np.float64) @ inputs.source_sums["exposure_total"])
    if excess is not None:
        reach += np.bincount(rows_of(pairs.row_ptr), excess * pairs.value("a_hat"), len(reach))
    gamma_rate = required(model.confounder).rate + reach[:, None]
    return rate.astype(model.precision), gamma_rate.astype(model.precision)


def _excess(block: Block, model: GammaPoisson) -> Floats | None:
    """Return w - w0 of the observed pairs, (nnz,). None where all pairs weigh 1."""
    if not model.reweighs:
        return None
    pairs = block.fitted
    weight = pairs.value("weight").astype(np.float64) if model.weighted else np.ones(len(pairs.col))
    return np.asarray(weight - model.unobserved)


def _move(inputs: KernelInput, model: GammaPoisson, is_user: bool, shape: Floats) -> Update:
    rate, gamma_rate = _rates(inputs, model, is_user)
    memory = {"shape": shape[:, : model.rank], "rate": rate}
    if gamma_rate is not None:
        memory |= {"gamma_shape": shape[:, model.rank :], "gamma_rate": gamma_rate}
    return _posterior(inputs.block, model, is_user, memory)


def _remember(update: Update, reached: Floats) -> Update:
    return update._replace(memory={**update.memory, REACHED: reached})


def _posterior(block: Block, model: GammaPoisson, is_user: bool, memory: dict[str, Floats]) -> Update:
    """Return the rows as :meth:`GammaPoisson.of_rows` reads them, their sums, and the posterior as memory."""
    prior, shape, rate = model.prior, memory["shape"], memory["rate"]
    mean = shape / rate
    geometric, far = moments(shape, rate, prior.shape, prior.rate)
    sums = {
        "rows": np.array(float(len(shape))),
        "mean": mean.sum(axis=0, dtype=np.float64),
        "shape": shape.sum(axis=0, dtype=np.float64),
        "gram": (mean.T @ mean).astype(np.float64),
        "divergence": np.array(far),
    }
    sent, means = [geometric], [mean]
    if "gamma_shape" in memory:
        weight, gamma = required(model.confounder), (memory["gamma_shape"], memory["gamma_rate"])
        sums["divergence"] += divergence(*gamma, weight.shape, weight.rate)
        sent, means = [geometric, geometric_mean(*gamma)], [mean, gamma[0] / gamma[1]]
    if model.confounder is not None:
        exposure = block["exposure"].astype(np.float64)
        if "gamma_shape" in memory:
            exposure = exposure * means[1]
        sums["confounder_total" if is_user else "exposure_total"] = exposure.sum(axis=0)
    if model.validates or model.reweighs:
        sent += means
    return Update(np.hstack(sent), sums, memory)


def _sums_of_pairs(
    inputs: KernelInput,
    model: GammaPoisson,
    shared: SharedGammas,
    block: CountBlock,
    rate: Floats,
    memory: Arrays,
    is_user: bool,
) -> dict[str, Floats]:
    """Add up over the pairs of a block what the ELBO, the shared terms and the held-out loss need.

    rate : (nnz,) of the nonzeros, in geometric means. memory : the block's rows, as they have moved.
    """
    pairs = inputs.block.fitted
    weight = pairs.value("weight") if pairs.has("weight") else None
    sums = {
        "log_rates": np.array(log_rates(block, rate)),
        "log_factorial": np.array(_log_factorial(pairs.value(model.count), weight)),
    }
    if model.intercept is not None or model.confounder is not None:
        shares = block.counts.astype(np.float64) / rate
        sums["shares"] = np.array(shares.sum())
        if model.confounder is not None:
            sums["confounder_shares"] = np.array(shares @ pairs.value("a_hat"))
    excess = _excess(inputs.block, model)
    if excess is not None:
        sums["excess"] = np.array(excess.sum())
        sums["rate_excess"] = np.array(excess @ _mean_rates(inputs, pairs, model, shared, memory, is_user))
        if model.confounder is not None:
            sums["confounder_excess"] = np.array(excess @ pairs.value("a_hat"))
    if model.validates:  # rate - y log rate of the held-out pairs, by the posterior means of both sides
        pairs = inputs.block.held_out
        count, mean = pairs.value(model.count), _mean_rates(inputs, pairs, model, shared, memory, is_user)
        sums["held_out"] = np.array((mean - count.astype(np.float64) * np.log(mean)).sum())
        sums["held_out_pairs"] = np.array(float(len(pairs.col)))
    return sums


def _mean_rates(
    inputs: KernelInput, pairs: Pairs, model: GammaPoisson, shared: SharedGammas, memory: Arrays, is_user: bool
) -> Floats:
    """Return the mean rate of each pair of a block whose rows have just moved to ``memory``. (nnz,), float64."""
    others, _ = _sources(inputs, model, is_user, mean=True)
    rate = inner_products(pairs.row_ptr, pairs.col, memory["shape"] / memory["rate"], others).astype(np.float64)
    if model.confounder is not None:
        if "gamma_shape" in memory:
            own = (memory["gamma_shape"] / memory["gamma_rate"])[:, 0]
            gamma: Floats | float = np.repeat(own, np.diff(pairs.row_ptr))
        else:
            gamma = _gammas_of(inputs, pairs.col, model, shared, mean=True)
        rate += gamma * pairs.value("a_hat")
    if shared.intercept is not None:
        rate += shared.intercept.mean
    return rate


def _log_factorial(count: Floats, weight: Floats | None) -> float:
    """sum (weight) log y!. Counts stored as single bytes are looked up."""
    if count.dtype == np.uint8:
        return float(np.bincount(count, weight, minlength=256) @ gammaln(np.arange(256) + 1.0))
    logs = gammaln(count.astype(np.float64) + 1.0)
    return float(logs.sum() if weight is None else weight @ logs)


def required(value: Term | None) -> Term:
    """Return a term that the model has, as its caller knows and the types don't."""
    if value is None:
        raise AssertionError("the model has this term")
    return value


def at_prior(prior: Gamma, users: Arrays, n_users: int, total: float) -> Array:
    """Whether each component explains nothing, (K,): the users' shapes have converged hardly above their prior's.

    total : of the counts.
    """
    shape = n_users * prior.shape
    return np.asarray(users["shape"] - shape <= np.minimum(AT_PRIOR * shape, NO_SHARE * total))
