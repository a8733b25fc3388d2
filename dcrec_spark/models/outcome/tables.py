"""A fitted outcome model as tables and facts, and back again as the start of another fit."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from typing import Any

from pyspark.ml.param import Params
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dcrec_spark.engine.ascent import Fit, Start
from dcrec_spark.engine.blocks import Side
from dcrec_spark.engine.half_step import State
from dcrec_spark.kernels.ridge import Shared
from dcrec_spark.models.families.gamma_poisson import Gamma, GammaPoisson, SharedGammas
from dcrec_spark.models.families.select import steps_for
from dcrec_spark.models.fitting.degenerate import degeneracies
from dcrec_spark.models.fitting.factors import factor_frame, gamma_mean, place_factors
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.restarts import require_same_ids
from dcrec_spark.models.outcome.propensity import Propensity, PropensitySettings

POSTERIOR = ["outcome_shape", "outcome_rate"]


@dataclass(frozen=True)
class Facts:
    """What a fit found beside the factors.

    shared : the terms that all pairs share, as the model's steps take them. mean_rating : of the training ratings.
    objective, held_out : after each sweep. degeneracies : what is wrong with the factors, in sentences.
    """

    shared: Shared | SharedGammas
    mean_rating: float
    objective: list[float]
    held_out: list[float]
    degeneracies: list[str]
    propensity: Propensity | None = None

    def as_json(self) -> dict[str, Any]:
        """The facts as JSON can hold them; :meth:`from_json` is the way back."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["shared"] = self.shared._asdict()
        values["propensity"] = None if self.propensity is None else asdict(self.propensity)
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Facts":
        """Facts from :meth:`as_json`; other names are passed over."""
        own = {f.name: values[f.name] for f in fields(cls)}
        shared, propensity = own["shared"], own["propensity"]
        if any(isinstance(value, float | int) for value in shared.values()):
            own["shared"] = Shared(**shared)
        else:
            own["shared"] = SharedGammas(**{name: q and Gamma(*q) for name, q in shared.items()})
        if propensity is not None:
            own["propensity"] = Propensity(**{**propensity, "settings": PropensitySettings(**propensity["settings"])})
        return cls(**own)

    @property
    def intercept(self) -> float:
        """beta_0; its posterior mean for the Poisson outcome."""
        return intercept_of(self.shared)

    @property
    def gamma(self) -> float:
        """The gamma of all users where there is one, else 0."""
        return shared_gamma_of(self.shared)


def intercept_of(shared: Shared | SharedGammas) -> float:
    """beta_0 among the terms that all pairs share; its posterior mean for the Poisson outcome."""
    if isinstance(shared, Shared):
        return shared.intercept
    return shared.intercept.mean if shared.intercept else 0.0


def shared_gamma_of(shared: Shared | SharedGammas) -> float:
    """The gamma of all users among them, else 0."""
    if isinstance(shared, Shared):
        return shared.gamma
    return shared.gamma.mean if shared.gamma else 0.0


def has_own_weights(params: Params) -> bool:
    """Whether each user has a gamma of his own."""
    get = params.getOrDefault
    return bool(get("adjustment") == "deconfounded" and get("confounderWeight") == "user")


def fitted_outcome(
    params: Params, layout: Layout, fit: Fit, propensity: Propensity | None
) -> tuple[DataFrame, DataFrame, Facts]:
    """Users ``idx, id, features, gamma, outcome_shape, outcome_rate``, items without gamma, and the facts.

    The last two are the posterior of a Poisson outcome, the user's gamma at the end; else they are empty.
    """
    facts = Facts(
        fit.shared, layout.means["rating"], fit.objective, fit.held_out, _degeneracies(params, layout, fit), propensity
    )
    users = side_table(params, layout, "user", fit.users, facts)
    return users, side_table(params, layout, "item", fit.items, facts), facts


def _degeneracies(params: Params, layout: Layout, fit: Fit) -> list[str]:
    users, items, mean = fit.users.sums, fit.items.sums, layout.means["rating"]
    steps, at_prior = steps_for(params, layout.n_pairs), None
    if isinstance(steps, GammaPoisson):
        at_prior = steps.at_prior(users, items, layout.users.n_rows, mean * layout.nonzeros)
    return degeneracies("outcome", users["gram"], items["gram"], layout.n_pairs * mean**2, at_prior)


def side_table(params: Params, layout: Layout, name: str, state: State, facts: Facts) -> DataFrame:
    """One side of :func:`fitted_outcome`."""
    get, is_user = params.getOrDefault, name == "user"
    own_weights = is_user and has_own_weights(params)
    columns = _poisson_columns(own_weights) if get("outcome") == "poisson" else ["rows"]
    side, ids = (layout.users, layout.user_ids) if is_user else (layout.items, layout.item_ids)
    table = _columns(factor_frame(side, state, ids, columns), get("rank"), None if own_weights else F.lit(facts.gamma))
    return table if is_user else table.drop("gamma")


def _columns(factors: DataFrame, rank: int, gamma: Column | None) -> DataFrame:
    """The posterior or the solved rows of a side as the columns of its table; ``gamma`` where it is not in the rows."""
    own = gamma
    if "rows" in factors.columns:
        empty = F.expr("cast(array() as array<double>)")
        own = F.get("rows", F.lit(rank)) if own is None else own
        features, posterior = F.slice("rows", 1, rank), [empty, empty]
    else:
        own = F.get("gamma_shape", F.lit(0)) / F.get("gamma_rate", F.lit(0)) if own is None else own
        features = gamma_mean(F.col("shape"), F.col("rate"))
        posterior = [F.concat(c, f"gamma_{c}") if gamma is None else F.col(c) for c in ("shape", "rate")]
    named = [column.alias(name) for column, name in zip(posterior, POSTERIOR, strict=True)]
    return factors.select("idx", "id", features.alias("features"), own.cast("double").alias("gamma"), *named)


def _poisson_columns(own_weights: bool) -> list[str]:
    return ["shape", "rate", *(["gamma_shape", "gamma_rate"] if own_weights else [])]


def warm_start(
    params: Params, layout: Layout, users: DataFrame, items: DataFrame, facts: Facts, kept: ExitStack
) -> Start:
    """The states of a fitted outcome model on these blocks: known ids at its factors.

    users, items : the fitted model's tables. kept : gets a callback for what is cached.
    """
    require_same_ids("user", layout.user_ids, users)
    require_same_ids("item", layout.item_ids, items)
    is_poisson = params.getOrDefault("outcome") == "poisson"
    rank, own_weights = params.getOrDefault("rank"), is_poisson and has_own_weights(params)

    def placed(side: Side, ids: DataFrame, table: DataFrame, with_gamma: bool) -> State:
        state = place_factors(side, ids, *memory_of(table, rank, is_poisson, with_gamma))
        kept.callback(state.release)
        return state

    # A least-squares fit begins with the users: it needs the items alone.
    user_state = placed(layout.users, layout.user_ids, users, own_weights) if is_poisson else None
    return Start(user_state, placed(layout.items, layout.item_ids, items, False), facts.shared)


def memory_of(table: DataFrame, rank: int, is_poisson: bool, with_gamma: bool) -> tuple[DataFrame, dict[str, int]]:
    """A fitted side's table as ``id`` and the arrays that its blocks remember, and how long they are."""
    if not is_poisson:
        rows = F.concat("features", F.array("gamma")) if with_gamma else F.col("features")
        return table.select("id", rows.alias("rows")), {"rows": rank + with_gamma}
    columns = {
        "shape": (F.slice("outcome_shape", 1, rank), rank),
        "rate": (F.slice("outcome_rate", 1, rank), rank),
        "gamma_shape": (F.slice("outcome_shape", rank + 1, 1), 1),
        "gamma_rate": (F.slice("outcome_rate", rank + 1, 1), 1),
    }
    chosen = {name: columns[name] for name in _poisson_columns(with_gamma)}
    memory = table.select("id", *[column.alias(name) for name, (column, _) in chosen.items()])
    return memory, {name: width for name, (_, width) in chosen.items()}
