"""Gamma-Poisson factorization for the exposure model and the Poisson outcome: kernels of half-steps, and their sums.

    y_ui ~ Poisson(theta_u . beta_i [+ gamma_u a_hat_ui] [+ beta_0])        priors Gamma(shape, rate) on everything

With neither term this is stage 1: theta is pi, beta is lambda, y is a. The whole log likelihood of a pair, y log r - r,
has a weight: w_ui where it was observed (1, or an inverse propensity), w0 elsewhere. So each rate of q adds up
w0 sum_all E + sum_obs (w - w0) E, which takes the means of the other side at the nonzeros, unless all weights are 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self, TypeVar

import numpy as np
from scipy.special import gammaln

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.acceleration import PLAIN_STEP, REACHED, Stride
from dcrec_spark.engine.blocks import Pairs
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


@dataclass(frozen=True)
class HalfStep:
    """A block in a half-step of its side: the input of the kernel, the model, and what all pairs share."""

    inputs: KernelInput
    model: GammaPoisson
    shared: SharedGammas
    is_user: bool

    @property
    def has_gammas(self) -> bool:
        """Whether each row has a gamma."""
        return self.is_user and self.model.gamma_per_user

    @property
    def prior(self) -> Floats:
        """Prior shapes of a row, (F,): of the factors, and last of gamma where each row has one."""
        model = self.model
        own = [required(model.confounder).shape] if self.has_gammas else []
        return np.array([model.prior.shape] * model.rank + own, model.precision)

    def sources(self, mean: bool = False) -> tuple[Floats, Floats]:
        """Return :meth:`GammaPoisson.of_rows` of the inbox."""

        def split() -> tuple[Floats, Floats]:
            factors, gamma = self.model.of_rows(self.inputs.inbox, not self.is_user, mean)
            return np.ascontiguousarray(factors), gamma

        return self.inputs.once("means" if mean else "geometric means", split)

    def counts(self) -> CountBlock:
        """Return the kernel's view of the block: its counts, and what else its rates are made of."""
        model, pairs = self.model, self.inputs.block.fitted
        count = pairs.value(model.count).astype(model.precision)
        if pairs.has("weight"):
            count = count * pairs.value("weight").astype(model.precision)
        of_rows = offset = np.empty(0, model.precision)
        if model.intercept is not None:
            offset = np.full(len(pairs.col), required(self.shared.intercept).geometric_mean, model.precision)
        if model.confounder is not None:
            a_hat = pairs.value("a_hat").astype(model.precision)
            if self.has_gammas:
                of_rows = a_hat
            else:
                part = (self._gammas_of(pairs.col) * a_hat).astype(model.precision)
                offset = offset + part if len(offset) else part
        return CountBlock(pairs.row_ptr, pairs.col, count, of_rows, offset)

    def _gammas_of(self, col: Array, mean: bool = False) -> Floats | float:
        """Return the geometric means, or means, of gamma at these places of the inbox, or those of all pairs' one."""
        if self.model.gamma_per_user:
            return np.asarray(self.sources(mean)[1][:, 0][col])
        gamma = required(self.shared.gamma)
        return gamma.mean if mean else gamma.geometric_mean

    def excess(self) -> Floats | None:
        """Return w - w0 of the observed pairs, (nnz,). None where all pairs weigh 1."""
        if not self.model.reweighs:
            return None
        pairs = self.inputs.block.fitted
        weight = pairs.value("weight").astype(np.float64) if self.model.weighted else np.ones(len(pairs.col))
        return np.asarray(weight - self.model.unobserved)

    def rates(self) -> dict[str, Floats]:
        """Return "rate" of the factors, (K,) or (n, K), and "gamma_rate", (n, 1), where each row has a gamma.

        The prior's, and all that they are multiplied with, by the weights of the pairs.
        """
        model, inputs, pairs, excess = self.model, self.inputs, self.inputs.block.fitted, self.excess()
        # Items before they are divided by the scale; users as they have moved.
        scale = model.scale if self.is_user else 1.0
        rate = model.prior.rate + model.unobserved * inputs.source_sums["mean"] / scale
        if excess is not None:
            rate = rate + row_products(pairs.row_ptr, pairs.col, excess, self.sources(mean=True)[0]) / scale
            if inputs.parts:
                rate[inputs.block[heavy_items.ROW]] += inputs.parts["excess"]
        rates = {"rate": rate.astype(model.precision)}
        if self.has_gammas:
            exposure = inputs.block["exposure"].astype(np.float64)
            reach = model.unobserved * (exposure @ inputs.source_sums["exposure_total"])
            if excess is not None:
                reach += np.bincount(rows_of(pairs.row_ptr), excess * pairs.value("a_hat"), len(reach))
            gamma_rate = required(model.confounder).rate + reach[:, None]
            rates["gamma_rate"] = gamma_rate.astype(model.precision)
        return rates

    def moved(self, shape: Floats, rates: Mapping[str, Floats]) -> Update:
        """Return the update of rows with these shapes, (n, F), and :meth:`rates`."""
        memory = {"shape": shape[:, : self.model.rank], **rates}
        if self.has_gammas:
            memory["gamma_shape"] = shape[:, self.model.rank :]
        return self.posterior(memory)

    def posterior(self, memory: dict[str, Floats]) -> Update:
        """Return the rows as :meth:`GammaPoisson.of_rows` reads them, their sums, and the posterior as memory."""
        model, shape, rate = self.model, memory["shape"], memory["rate"]
        mean = shape / rate
        geometric, far = moments(shape, rate, model.prior.shape, model.prior.rate)
        sums = {
            "rows": np.array(float(len(shape))),
            "mean": mean.sum(axis=0, dtype=np.float64),
            "shape": shape.sum(axis=0, dtype=np.float64),
            "gram": (mean.T @ mean).astype(np.float64),
            "divergence": np.array(far),
        }
        sent, means = [geometric], [mean]
        if self.has_gammas:
            weight, gamma = required(model.confounder), (memory["gamma_shape"], memory["gamma_rate"])
            sums["divergence"] += divergence(*gamma, weight.shape, weight.rate)
            sent, means = [geometric, geometric_mean(*gamma)], [mean, gamma[0] / gamma[1]]
        if model.confounder is not None:
            exposure = self.inputs.block["exposure"].astype(np.float64)
            if self.has_gammas:
                exposure = exposure * means[1]
            sums["confounder_total" if self.is_user else "exposure_total"] = exposure.sum(axis=0)
        if model.validates or model.reweighs:
            sent += means
        return Update(np.hstack(sent), sums, memory)

    def sums_of_pairs(self, counts: CountBlock, rate: Floats, memory: Arrays) -> dict[str, Floats]:
        """Add up over the pairs of the block what the ELBO, the shared terms and the held-out loss need.

        rate : (nnz,) of the nonzeros, in geometric means. memory : the block's rows, as they have moved.
        """
        model, pairs, excess = self.model, self.inputs.block.fitted, self.excess()
        weight = pairs.value("weight") if pairs.has("weight") else None
        sums = {
            "log_rates": np.array(log_rates(counts, rate)),
            "log_factorial": np.array(_log_factorial(pairs.value(model.count), weight)),
        }
        if model.intercept is not None or model.confounder is not None:
            shares = counts.counts.astype(np.float64) / rate
            sums["shares"] = np.array(shares.sum())
            if model.confounder is not None:
                sums["confounder_shares"] = np.array(shares @ pairs.value("a_hat"))
        if excess is not None:
            sums["excess"] = np.array(excess.sum())
            sums["rate_excess"] = np.array(excess @ self.mean_rates(pairs, memory))
            if model.confounder is not None:
                sums["confounder_excess"] = np.array(excess @ pairs.value("a_hat"))
        if model.validates:  # rate - y log rate of the held-out pairs, by the posterior means of both sides
            pairs = self.inputs.block.held_out
            count, mean = pairs.value(model.count), self.mean_rates(pairs, memory)
            sums["held_out"] = np.array((mean - count.astype(np.float64) * np.log(mean)).sum())
            sums["held_out_pairs"] = np.array(float(len(pairs.col)))
        return sums

    def mean_rates(self, pairs: Pairs, memory: Arrays) -> Floats:
        """Return the mean rate of each pair of a block whose rows have just moved to ``memory``. (nnz,), float64."""
        others, _ = self.sources(mean=True)
        rate = inner_products(pairs.row_ptr, pairs.col, memory["shape"] / memory["rate"], others).astype(np.float64)
        if self.model.confounder is not None:
            if self.has_gammas:
                own = (memory["gamma_shape"] / memory["gamma_rate"])[:, 0]
                gamma: Floats | float = np.repeat(own, np.diff(pairs.row_ptr))
            else:
                gamma = self._gammas_of(pairs.col, mean=True)
            rate += gamma * pairs.value("a_hat")
        if self.shared.intercept is not None:
            rate += self.shared.intercept.mean
        return rate


def start(inputs: KernelInput, *, model: GammaPoisson, is_user: bool) -> Update:
    """Shapes off the prior by noise that depends on (seed, side, id) alone. Equal ones would stay equal.

    With a memory, a row that it knows (finite) starts there.
    """
    half = HalfStep(inputs, model, model.shared, is_user)
    noisy = model.prior.shape * (1.0 + noise(model.seed + (not is_user), inputs.block.row_key, model.rank))
    memory: dict[str, Floats] = {
        "shape": noisy.astype(model.precision),
        "rate": np.full(model.rank, model.prior.rate, model.precision),
    }
    if half.has_gammas:
        weight, size = required(model.confounder), (len(noisy), 1)
        memory["gamma_shape"] = np.full(size, weight.shape, model.precision)
        memory["gamma_rate"] = np.full(size, weight.rate, model.precision)
    if len(inputs.memory.get("shape", ())):
        for name, new in memory.items():  # remembered rates are (n, K): folded-in rows have rates that differ
            remembered = inputs.memory[name].astype(model.precision)
            memory[name] = np.where(np.isfinite(remembered), remembered, new)
    begun = half.posterior(memory)
    return _remember(begun, inputs.memory[REACHED].astype(model.precision)) if REACHED in inputs.memory else begun


def update(inputs: KernelInput, *, model: GammaPoisson, shared: SharedGammas, is_user: bool) -> Update:
    """One coordinate step of the rows. For items, also the sums that need the nonzeros."""
    half, before, memory = HalfStep(inputs, model, shared, is_user), _shapes(inputs.memory), inputs.memory
    if not is_user:  # of users nothing is scaled here: their factors meet items', and the products are what they were
        memory = {**memory, "rate": memory["rate"] * model.scale}
    mean, prior, counts, (cols, _) = _geometric_means(memory), half.prior, half.counts(), half.sources()
    updated = update_shape(prior, counts, mean, cols)
    if inputs.parts:  # of rows without a pair here
        updated[inputs.block[heavy_items.ROW]] += mean[inputs.block[heavy_items.ROW]] * inputs.parts["drawn"]
    length, momentum = model.stride
    longer = over_relax(before, updated, prior, length)
    result = half.moved(over_relax(inputs.memory.get(REACHED, before), longer, prior, 1.0 + momentum), half.rates())
    if momentum:
        result = _remember(result, longer)
    if is_user:
        return result
    changes = [np.abs(result.memory[name] / inputs.memory[name] - 1.0) for name in ("shape", "rate")]
    movement = np.array(sum(float((change.astype(np.float64) ** NORM).sum()) for change in changes))
    reached = rates(counts, model.of_rows(result.rows, False)[0], cols)
    sums = half.sums_of_pairs(counts, reached, result.memory)
    return result._replace(sums={**result.sums, "movement": movement, **sums})


def heavy_parts(inputs: KernelInput, update: Update, *, model: GammaPoisson, shared: SharedGammas) -> dict[str, Floats]:
    """Add up drawn counts, and w - w0 times the users' means, of heavy items' pairs, (H, K) each (float64)."""
    of_items, _ = model.of_rows(inputs.inbox[inputs.block[heavy_items.AT]], is_user=False)
    pairs = heavy_items.transpose(inputs.block)
    half = HalfStep(KernelInput(pairs, {}, update.rows, {}), model, shared, is_user=False)
    counts, excess = half.counts(), half.excess()
    drawn = drawn_counts(counts, of_items / model.scale, half.sources()[0])
    parts: dict[str, Floats] = {"drawn": drawn.astype(np.float64)}
    if excess is not None:
        means, _ = model.of_rows(update.rows, is_user=True, mean=True)
        parts["excess"] = row_products(counts.row_ptr, counts.col, excess, means)
    return parts


def heavy_scores(inputs: KernelInput, items: Array, *, model: GammaPoisson, shared: SharedGammas) -> dict[str, Floats]:
    """Add up, over the pairs of a block of users with heavy items, what the step of items adds up over its pairs.

    items : (H, width) the heavy items as they have moved. The memory has the users.
    """
    pairs = heavy_items.heavy_pairs(inputs.block)
    half = HalfStep(KernelInput(pairs, inputs.memory, items, {}), model, shared, is_user=True)
    counts = half.counts()
    rate = rates(counts, _geometric_means(inputs.memory), half.sources()[0])
    return half.sums_of_pairs(counts, rate, inputs.memory)


def converge(
    inputs: KernelInput, *, model: GammaPoisson, shared: SharedGammas, is_user: bool, scores: bool = False
) -> Update:
    """Rows as the other side determines them, started from equal shares: the same wherever they were before.

    scores : whether to add up the ELBO's parts of their nonzeros.
    """
    half = HalfStep(inputs, model, shared, is_user)
    counts, prior, given, (cols, _) = half.counts(), half.prior, half.rates(), half.sources()
    totals = np.diff(np.concatenate([[0.0], np.cumsum(counts.counts, dtype=np.float64)])[counts.row_ptr])
    equal = (prior + totals[:, None] / len(prior)).astype(model.precision)
    full = np.broadcast_to(given["rate"], (len(equal), model.rank))
    if half.has_gammas:
        full = np.hstack([full, given["gamma_rate"]])
    shape = converge_shape(prior, counts, equal, full, cols, CONVERGED, MOST_ROUNDS)
    result = half.moved(shape, given)
    if not scores:
        return result
    reached, excess = rates(counts, geometric_mean(shape, full), cols), half.excess()
    sums = {"log_rates": np.array(log_rates(counts, reached))}
    if excess is not None:
        sums["rate_excess"] = np.array(excess @ half.mean_rates(inputs.block.fitted, result.memory))
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


def _remember(update: Update, reached: Floats) -> Update:
    return update._replace(memory={**update.memory, REACHED: reached})


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
