"""Weighted and probabilistic matrix factorization: alternating least squares, exact over all pairs.

Steps go beyond each row's solution as long as J falls, so blocks remember the rows where they begin.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from pyspark.ml.param import Params
from scipy.special import ndtri

from dcrec_spark.engine import heavy_items
from dcrec_spark.engine.acceleration import PLAIN_STEP, Stride
from dcrec_spark.engine.blocks import Block
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.steps import PartsOf, ScoresOf, Steps
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels import certainty, ridge, ridge_sums, solvers
from dcrec_spark.kernels.csr import inner_products, rows_of
from dcrec_spark.kernels.explain import Wanted, explain_ridge
from dcrec_spark.kernels.gamma import Floats, noise
from dcrec_spark.kernels.ridge import ratings_and_weights
from dcrec_spark.kernels.ridge_terms import Design, RatingBlock, Regulariser, RowSystems, Shared
from dcrec_spark.models.families import base

_START_SCALE = 0.1
# 1 / prior variance of the intercept: next to any number of ratings it is nothing.
INTERCEPT_REG = 1.0
# Arrays of a block with the covariates of its rows.
COMPOSITION, FEATURES = "composition", "features"
# Steps of conjugate gradients that a row takes in a sweep.
GRADIENT_STEPS = 3


class LeastSquares(base.OutcomeFamily):
    """Gaussian models of the ratings. They differ in which pairs theta . beta and a weight of the rating reach.

    everywhere : whether theta . beta is part of the mean of unobserved pairs too.
    """

    objective = "J"
    everywhere: ClassVar[bool]
    splits = True
    reads = (
        *("alpha", "unobservedWeight", "regParam", "biasReg", "confounderReg", "regByCount"),
        *("fitIntercept", "fitBiases", "confounder", "confounderLink", "leaveOneOut", "solver"),
    )
    warm_start_settings = ("outcome", "rank", "fitBiases", "confounder")

    @classmethod
    def of(cls, params: Params) -> Self:
        """Return the family. Unless they are set, a model of all pairs has the paper's form of the confounder."""
        family = super().of(params)
        if family.unobserved_weight > 0:
            paper = {"confounder": "reconstruction", "confounderLink": "identity"}
            family.settings |= {name: value for name, value in paper.items() if not params.isSet(name)}
        return family

    @property
    def alpha(self) -> float:
        """How much an observed rating weighs beyond 1, for each of its units, in a model of all pairs."""
        return float(self.settings["alpha"]) if self.everywhere else 0.0

    def steps(self, observed: base.Observed, precision: str | None = None) -> "GaussianSteps":
        """Alternating least squares. A fit begins at :meth:`first_intercept`."""
        get = self.settings.__getitem__
        unobserved, weight = self.unobserved_weight, get("confounderWeight")
        reg = Regulariser(get("regParam"), get("confounderReg"), INTERCEPT_REG, get("biasReg"), get("regByCount"))
        which = unobserved, self.everywhere, weight != "global", weight == "pooled", self.has_biases
        return GaussianSteps(
            design=Design(self.rank, reg, *which, *self.covariates),
            alpha=self.alpha,
            fit_intercept=get("fitIntercept"),
            seed=get("seed"),
            precision=precision or get("precision"),
            validates=observed.held_out,
            first_intercept=self.first_intercept(observed, unobserved) if get("fitIntercept") else 0.0,
            gradients=GRADIENT_STEPS if get("solver") == "cg" else 0,
            composition=self.composition,
        )

    @property
    def has_biases(self) -> bool:
        return bool(self.settings["fitBiases"])

    @property
    def row_width(self) -> int:
        """Factors, covariates, slopes, bias and gamma travel."""
        return super().row_width + sum(self.covariates)

    @property
    def exposure_term(self) -> base.ExposureTerm:
        """As set, and standardised: the prior of gamma is meant for a confounder of unit scale."""
        link, leave_one_out = self.settings["confounderLink"], self.settings["leaveOneOut"]
        composition = self.has_confounder and self.settings["confounder"] == "factors"
        return base.ExposureTerm(link, True, leave_one_out, self.unobserved_weight > 0, composition)

    def require_consistent(self) -> None:
        """Refuse a link where all pairs take part: it is no product of vectors, and no sum over all pairs is exact."""
        link = self.settings["confounderLink"]
        if self.has_confounder and link != "identity" and self.unobserved_weight > 0:
            raise ConfigError(
                f"confounderLink={link} with unobservedWeight={self.unobserved_weight:g}: only the identity adds up "
                "over all pairs; set unobservedWeight=0, or leave confounderLink out"
            )

    def first_intercept(self, observed: base.Observed, unobserved_weight: float) -> float:
        """About where J is smallest while all factors are 0, every rating taken for a mean one.

        From 0 the factors and gamma take up the level of the ratings, and hand it over to the intercept only slowly:
        after 20 sweeps of probabilistic MF, rank 10, on MovieLens 100K, J is 59,339 to 62,286 from 0 (three seeds), and
        54,609 to 54,719 from here. Not everywhere: of weighted MF with alpha = 1 J is 0.4 % larger from here.
        """
        mean = observed.means[self.value]
        weight = observed.nonzeros * (1.0 + self.alpha * mean)
        unobserved = unobserved_weight * (observed.n_pairs - observed.nonzeros)
        return mean * weight / (weight + unobserved + INTERCEPT_REG)

    def columns(self, is_user: bool) -> tuple[base.TableColumn, ...]:
        bias = [base.TableColumn("bias", None)] if self.has_biases else []
        own, others = self.covariates if is_user else self.covariates[::-1]
        slopes = [base.TableColumn("slopes", others), base.TableColumn("covariates", own)] if own + others else []
        gamma = [base.TableColumn("gamma", None, remembered=self.gamma_per_user)] if is_user else []
        posterior = [base.TableColumn(name, 0, remembered=False) for name in ("outcome_shape", "outcome_rate")]
        return (base.TableColumn("features", self.rank), *bias, *slopes, *gamma, *posterior)

    def table_of(self, memory: Arrays, is_user: bool, shared: Shared) -> dict[str, Array]:
        """Rows are [kappa, theta, p (, b) (, gamma)], [q, beta, rho (, c)]."""
        rows, (p, q) = memory["rows"], self.covariates
        empty, width = np.empty((len(rows), 0)), q + self.rank + p
        table = {"features": rows[:, q : q + self.rank], "outcome_shape": empty, "outcome_rate": empty}
        if p + q:
            ends = rows[:, :q], rows[:, q + self.rank : width]
            table["slopes"], table["covariates"] = ends if is_user else ends[::-1]
        if self.has_biases:
            table["bias"] = rows[:, width]
        if is_user:
            table["gamma"] = rows[:, -1] if self.gamma_per_user else np.full(len(rows), shared.gamma)
        return table

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        names = ["slopes", "features", "covariates"] if is_user else ["covariates", "features", "slopes"]
        names = names if any(self.covariates) else ["features"]
        names += ["bias"] * self.has_biases + ["gamma"] * (is_user and self.gamma_per_user)
        return {"rows": np.column_stack([columns[name] for name in names])}

    @classmethod
    def shared_from_json(cls, values: Mapping[str, Any]) -> Shared:
        return Shared(**values)

    @classmethod
    def shared_numbers(cls, shared: Shared) -> base.SharedNumbers:
        return base.SharedNumbers(shared.intercept, shared.gamma)

    def explainer(self, steps: "GaussianSteps", shared: Shared) -> base.Explainer | None:
        return partial(explain_rows, model=steps, shared=shared)

    def assessor(self, steps: "GaussianSteps", shared: Shared, is_user: bool) -> base.Assessor:
        return partial(assess_rows, model=steps, shared=shared, is_user=is_user)


class Weighted(LeastSquares):
    """Weighted matrix factorization (Hu, Koren, Volinsky 2008): all pairs, an observed one weighs 1 + alpha y."""

    everywhere = unrated_are_zeros = True


class Probabilistic(LeastSquares):
    """Probabilistic matrix factorization (Mnih, Salakhutdinov 2008): theta and beta on the observed pairs alone.

    The paper fits gamma to all pairs, with a weight of 1. Here unobserved pairs have none unless it is set.
    """

    everywhere = unrated_are_zeros = False
    default_unobserved_weight = 0.0


@dataclass(frozen=True)
class GaussianSteps(Steps):
    """The steps of a least-squares model.

    alpha : an observed pair weighs 1 + alpha * rating, times its inverse propensity where there is one.
    validates : whether there are held-out pairs. first_intercept : beta_0 where a fit begins.
    gradients : steps of conjugate gradients that a row takes. 0: each is solved by Cholesky's method.
    composition : how many covariates of each side, the first ones, are the composition of its exposure.
    stride : how far each step goes.
    """

    design: Design
    alpha: float
    fit_intercept: bool
    seed: int
    precision: str = "float64"
    validates: bool = False
    first_intercept: float = 0.0
    gradients: int = 0
    composition: int = 0
    stride: Stride = PLAIN_STEP
    stage: str = "outcome"

    rises = False
    accelerates = True
    # Of the lengths from 1.3 to 1.9 the best for most models of MovieLens 100K. Momentum after it needs more sweeps.
    longest = Stride(1.7)

    def accelerated(self, stride: Stride, users: Arrays, items: Arrays) -> Self:
        return replace(self, stride=stride)

    def solve(self, system: RowSystems, before: Floats | None) -> Floats:
        """Return the rows of a system after a step from where they were. None: from zeros, by conjugate gradients."""
        if self.gradients:
            begin = np.zeros(system.shape, system.right.dtype) if before is None else before
            solved = solvers.descend(system, begin, self.gradients)
        else:
            solved = solvers.solve_rows(system)
        return solved if before is None else solvers.over_relax(before, solved, self.stride.length)

    def sums_of_pairs(
        self, block: Block, ratings: RatingBlock, rows: Floats, others: Floats, shared: Shared, is_user: bool
    ) -> dict[str, Array]:
        """Add up over a block's pairs what J and the held-out error need."""
        sums = ridge_sums.observed_sums(ratings, rows, others, shared, self.design, is_user)
        if self.validates:
            held_out = rating_block(block, self, held_out=True)
            sums |= ridge_sums.held_out_sums(held_out, rows, others, shared, self.design, is_user)
        return sums

    @property
    def shared(self) -> Shared:
        return Shared(self.first_intercept)

    def start(self, is_user: bool) -> Kernel:
        return partial(start, model=self, is_user=is_user)

    def update(self, shared: Shared, is_user: bool) -> Kernel:
        return partial(step, model=self, shared=shared, is_user=is_user, scores=not is_user)

    def heavy_parts(self, shared: Shared) -> PartsOf:
        return partial(heavy_parts, model=self, shared=shared)

    def heavy_scores(self, shared: Shared) -> ScoresOf:
        return partial(heavy_scores, model=self, shared=shared)

    def converge(self, shared: Shared, is_user: bool = True, scores: bool = False) -> Kernel:
        """One solve, whatever took the steps: given the other side, the minimiser is where it is.

        The items' sweep has judged the held-out pairs.
        """
        model = replace(self, gradients=0, stride=PLAIN_STEP, validates=False)
        return partial(step, model=model, shared=shared, is_user=is_user, scores=scores)

    def converged_objective(self, users: Arrays, items: Arrays, shared: Shared) -> float:
        of_ratings = {name: users[name] for name in ("square", "linear", "curvature")}
        return ridge_sums.objective(users, {**items, **of_ratings}, shared, self.design)

    def conclude(self, users: Arrays, items: Arrays, shared: Shared) -> tuple[float, Shared]:
        best, objective = ridge_sums.shared_and_objective(users, items, shared, self.design, self.fit_intercept)
        return objective, best

    def held_out_loss(self, items: Arrays, shared: Shared) -> float | None:
        return ridge_sums.held_out_error(items, shared) if "held_square" in items else None


def start(inputs: KernelInput, *, model: GaussianSteps, is_user: bool) -> Update:
    """Rows that the memory knows. Other users at zero, other items with small normal factors by (seed, id) alone."""
    block, design = inputs.block, model.design
    exposure = _exposure(block, model.precision)
    own_weight = is_user and exposure.shape[1] > 0 and design.per_user
    rows = np.zeros((len(exposure), design.width + design.biases + own_weight), model.precision)
    if not is_user:
        uniform = np.clip(noise(model.seed, block.row_key, design.rank), 2.0**-53, 1 - 2.0**-53)
        rows[:, design.factors] = _START_SCALE * ndtri(uniform)
    if inputs.memory:
        known = np.isfinite(inputs.memory["rows"]).all(axis=1)
        rows[known] = inputs.memory["rows"][known]
    # Known rows have the slopes of the model that they come from, and covariates of this fit.
    rows[:, design.slopes(not is_user)] = covariates_of(block)
    return Update(rows, ridge_sums.side_sums(rows, exposure, design, is_user), {"rows": rows})


def step(inputs: KernelInput, *, model: GaussianSteps, shared: Shared, is_user: bool, scores: bool) -> Update:
    """One side given the other. scores : whether to add up what the observed pairs then add to the objective."""
    ratings, design = rating_block(inputs.block, model), model.design
    system = system_of(inputs, ratings, model, shared, is_user)
    before = None
    if inputs.memory:  # where the last step left the rows, the users' weights moved along with the common one
        left: Floats = inputs.memory["rows"].astype(model.precision, copy=False)
        if shared.moved and is_user and ratings.has_confounder and design.per_user:
            left = np.hstack([left[:, :-1], left[:, -1:] + left.dtype.type(shared.moved)])
        before = design.unknowns(left, is_user)
    rows = model.solve(system, before)
    if inputs.parts:
        for row, half, right in zip(
            inputs.block[heavy_items.ROW], inputs.parts["half"], inputs.parts["right"], strict=True
        ):
            own = slice(row, row + 1)
            rows[own] = model.solve(system.of_row(row, half, right), None if before is None else before[own])
    del system, before  # numbers of each pair: what adds up below takes as many
    rows = design.rows_of(rows, covariates_of(inputs.block), is_user)
    sums = ridge_sums.side_sums(rows, ratings.exposure, design, is_user)
    sums |= ridge_sums.penalty(rows, ratings, is_user, shared, design)
    if scores:
        sums |= model.sums_of_pairs(inputs.block, ratings, rows, inputs.inbox, shared, is_user)
    return Update(rows, sums, {"rows": rows})  # the next half-step begins at the rows


def heavy_parts(inputs: KernelInput, update: Update, *, model: GaussianSteps, shared: Shared) -> dict[str, Array]:
    """Add up what the pairs of a block of users add to the normal equations of heavy items."""
    ratings = rating_block(heavy_items.transpose(inputs.block), model)
    # What users have slopes on travels with the items.
    of_items = inputs.inbox[inputs.block[heavy_items.AT], : model.design.item_covariates]
    ratings = ratings._replace(covariates=of_items)
    half, right = solvers.sums_over_pairs(ratings, update.rows, update.sums["augmented"], shared, model.design)
    return {"half": half, "right": right}


def heavy_scores(inputs: KernelInput, items: Array, *, model: GaussianSteps, shared: Shared) -> dict[str, Array]:
    """Add up, over the pairs of a block of users with heavy items, (H, K (+ 1)), what a step of items adds up."""
    block, users = heavy_items.heavy_pairs(inputs.block), inputs.memory["rows"]
    return model.sums_of_pairs(block, rating_block(block, model), users, items, shared, True)


def explain_rows(inputs: KernelInput, wanted: Wanted, *, model: GaussianSteps, shared: Shared) -> base.BlockExplanation:
    """Explain the wanted pairs of a block of users, who are solved anew. The memory is what the model has of them."""
    ratings, rows = rating_block(inputs.block, model), inputs.memory["rows"]
    system = system_of(inputs, ratings, model, shared, is_user=True)
    factors = model.design.factors
    parts = explain_ridge(system, wanted, factors)
    theta, beta = (np.ascontiguousarray(side[:, factors]) for side in (rows, inputs.inbox))
    has_weight = ratings.has_confounder and model.design.per_user
    gamma = rows[:, -1] if has_weight else np.full(len(rows), shared.gamma)
    fitted = inner_products(wanted.row_ptr, wanted.col, theta, beta)
    linear = _covariate_parts(wanted, rows, inputs.inbox, model)
    if model.design.biases:
        at = model.design.width
        linear |= {"user_bias": rows[rows_of(wanted.row_ptr), at], "item_bias": inputs.inbox[wanted.col, at]}
    return base.BlockExplanation(parts, gamma, theta, beta, parts.preference, fitted, linear)


def _covariate_parts(wanted: Wanted, users: Floats, items: Floats, model: GaussianSteps) -> dict[str, Floats]:
    """Return kappa . q + rho . p of each wanted pair, (P,) each: of the exposure's composition, and of features."""
    parts, factors = dict[str, Floats](), model.design.factors
    if not model.design.user_covariates + model.design.item_covariates:
        return parts
    # Covariates of items are before the factors, those of users after them, and the composition comes first in both.
    item_end, user_end = model.composition, factors.stop + model.composition
    first = [*range(item_end), *range(factors.stop, user_end)]
    rest = [*range(item_end, factors.start), *range(user_end, model.design.width)]
    for name, columns in ((COMPOSITION, first), (FEATURES, rest)):
        of_users, of_items = (np.ascontiguousarray(side[:, columns], np.float64) for side in (users, items))
        parts[name] = inner_products(wanted.row_ptr, wanted.col, of_users, of_items)
    return parts


def assess_rows(inputs: KernelInput, *, model: GaussianSteps, shared: Shared, is_user: bool) -> base.BlockCertainty:
    """Compute the intervals' numbers of a block's held-out pairs. The memory holds the model's rows."""
    ratings, wanted = (rating_block(inputs.block, model, held_out) for held_out in (False, True))
    rows, inbox = inputs.memory["rows"], inputs.inbox
    system = system_of(inputs, ratings, model, shared, is_user)
    spreads = certainty.spreads(ratings, system, wanted)
    fitted = model.design.unknowns(rows, is_user)
    sums: dict[str, Array] = {"leverage": np.array(spreads.leverage)}
    if not is_user:
        return base.BlockCertainty(spreads.pairs, None, sums, spreads.solved, fitted)
    rated, predicted = (certainty.predictions(p, rows, inbox, shared, model.design) for p in (ratings, wanted))
    sums |= certainty.residual_sums(ratings, rated)
    return base.BlockCertainty(spreads.pairs, predicted, sums, spreads.solved, fitted)


def system_of(
    inputs: KernelInput, ratings: RatingBlock, model: GaussianSteps, shared: Shared, is_user: bool
) -> RowSystems:
    """Return the normal equations of a block's rows given the inbox."""
    inbox, confounded, design = inputs.inbox, ratings.has_confounder, model.design
    known = inputs.once("known", lambda: ridge.known_part(inbox, is_user, confounded, shared, design))
    return ridge.row_systems(ratings, inbox, inputs.source_sums, shared, design, is_user, known)


def rating_block(block: Block, model: GaussianSteps, held_out: bool = False) -> RatingBlock:
    """Return the kernel's view of a block: of its nonzeros, or of its held-out pairs, which all count alike."""
    pairs = block.held_out if held_out else block.fitted
    factor = pairs.value("weight") if not held_out and pairs.has("weight") else np.empty(0)
    rating, weight = ratings_and_weights(pairs.value("rating"), factor, model.alpha, model.precision)
    a_hat = (pairs.value("a_hat") if pairs.has("a_hat") else np.empty(0)).astype(model.precision, copy=False)
    product = a_hat
    if pairs.has("a_hat_product"):
        product = pairs.value("a_hat_product").astype(model.precision, copy=False)
    exposure, elsewhere = _exposure(block, model.precision), np.empty(0, np.int64)
    if heavy_items.has_own(block):  # pairs of the fit in blocks of the other side
        elsewhere = np.zeros(len(block.row_key), np.int64)
        elsewhere[block[heavy_items.ROW]] = block[heavy_items.FITTED_PAIRS]
    covariates = covariates_of(block)
    return RatingBlock(pairs.row_ptr, pairs.col, rating, weight, a_hat, product, exposure, elsewhere, covariates)


def covariates_of(block: Block) -> Floats:
    """Return the covariates of a block's rows, (n, P) or (n, Q): the composition of exposure, then features."""
    none = np.empty((len(block.row_key), 0))
    return np.hstack([none, *[block[name] for name in (COMPOSITION, FEATURES) if name in block]])


def _exposure(block: Block, dtype: str) -> Floats:
    none = np.empty((len(block.row_key), 0))
    return block.get("exposure", none).astype(dtype, copy=False)
