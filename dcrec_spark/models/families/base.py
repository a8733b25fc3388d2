"""The protocol of a family of models: everything in which one family differs from another.

The loop (:mod:`dcrec_spark.engine.ascent`), the stages of a fit (:mod:`dcrec_spark.models.fitting.stages`), folding in,
explaining, saving and warm starts are written once. They know rows, sums and tables, and a family their meaning:

    settings of an estimator ── Family.of ──> family
    family.steps(observed)                    the kernels of both sides, and what becomes of their sums
    family.table_of(memory)                   what a block remembers, as the columns of the model's table
    family.memory_of(columns)                 the way back: where warm starts, fold-ins and explanations begin

A family holds plain settings only, for it travels to the workers, where its tables are made from arrays too.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from pyspark.ml.param import Params

from dcrec_spark.engine.acceleration import REACHED
from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import KernelInput
from dcrec_spark.engine.sides import Side
from dcrec_spark.engine.steps import Steps
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.explain import Explained, Wanted
from dcrec_spark.kernels.gamma import Floats


class ExposureTerm(NamedTuple):
    """How the confounder h of each pair is made from a_hat.

    link : "identity", or "log" of a_hat + its mean over all pairs.
    standardize : to mean 0 and standard deviation 1.
    leave_one_out : whether the pairs of a fit lose their own exposure.
    over_all_pairs : whether sums over all pairs have it too, in which no pair loses its exposure.
    composition : whether the composition of each row's exposure is a covariate.
    """

    link: str = "identity"
    standardize: bool = False
    leave_one_out: bool = False
    over_all_pairs: bool = True
    composition: bool = False


class TableColumn(NamedTuple):
    """One column of a side's table of factors.

    width : numbers in each row's array. None for a plain number.
    remembered : whether :meth:`Family.memory_of` reads it.
    same_for_all : whether all rows of a fitted side have the same value, so that a new id starts from it too.
    """

    name: str
    width: int | None
    remembered: bool = True
    same_for_all: bool = False


class Observed:
    """What the steps of a model have to know of the pairs that they work on.

    users, items : the blocks. nonzeros : pairs of the fit. means : of each value over these. held_out : whether the
    blocks have held-out pairs, by which the fit is judged.
    """

    users: Side
    items: Side
    nonzeros: int
    means: Mapping[str, float]
    held_out: bool

    @property
    def n_users(self) -> int:
        return self.users.n_rows

    @property
    def n_items(self) -> int:
        return self.items.n_rows

    @property
    def n_pairs(self) -> float:
        """All pairs, U x I."""
        return float(self.n_users) * self.n_items


class BlockExplanation(NamedTuple):
    """A family's explanation of the wanted pairs of one block.

    parts : theta . beta taken apart. gamma : (n,) confounder weight of each row of the block.
    preference, attribute : (n, K) and (m, K) factors of the rows and of the inbox.
    implied, fitted : (P,) theta . beta of each pair, as the given ratings make it, and as the model has it.
    linear : (P,) of each pair its "user_bias" and "item_bias", and slopes times covariates: of the exposure's
    "composition", and of "features". What is missing is 0.
    """

    parts: Explained
    gamma: Floats
    preference: Floats
    attribute: Floats
    implied: Floats
    fitted: Floats
    linear: Mapping[str, Floats] = {}


Explainer = Callable[[KernelInput, Wanted], BlockExplanation]


class BlockCertainty(NamedTuple):
    """Uncertainty of the scores of one block, of users or of items.

    spread : (P,) x' A^-1 x of each wanted pair. prediction : (P,) their scores. None for a block of items.
    sums : "leverage", of users what :func:`dcrec_spark.kernels.certainty.noise` needs besides.
    solved, fitted : (n, F) the rows as the given ratings make them, and as the model has them.
    """

    spread: Floats
    prediction: Floats | None
    sums: Arrays
    solved: Floats
    fitted: Floats


Assessor = Callable[[KernelInput], BlockCertainty]


class Family(ABC):
    """One kind of factor model, with the settings of one estimator.

    stage : "exposure" or "outcome". Names the fit in logs, errors and facts.
    value : the array of a block that the factors explain.
    objective : name of what a fit optimises, in reports.
    splits : whether its steps have :meth:`dcrec_spark.engine.steps.Steps.heavy_parts`, so that items may be heavy.
    reads : names of further Params that the family takes its settings from.
    settings : their values and those of the Params that every family reads, plain numbers and strings.
    """

    stage: ClassVar[str]
    value: ClassVar[str]
    objective: ClassVar[str]
    splits: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()
    _all_read: ClassVar[tuple[str, ...]] = ("rank", "seed", "precision")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)

    @classmethod
    def of(cls, params: Params) -> Self:
        """Return the family with the settings of an estimator or of a fitted model."""
        return cls({name: params.getOrDefault(name) for name in (*cls._all_read, *cls.reads)})

    @property
    def rank(self) -> int:
        return int(self.settings["rank"])

    @property
    def row_width(self) -> int:
        """How many numbers a row sends to the other side at most."""
        return 2 * self.rank

    @abstractmethod
    def steps(self, observed: Observed, precision: str | None = None) -> Steps:
        """Return the kernels of both sides, for these pairs.

        The states' sums have to hold "gram", (K, K), the Gram matrix of the factors, in float64.

        precision : "float64" or "float32". None: as set.
        """

    @abstractmethod
    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        """Return the columns of a side's table after ``idx`` and ``id``."""

    @abstractmethod
    def table_of(self, memory: Arrays, is_user: bool, shared: Any) -> dict[str, Array]:
        """Return what a block remembers (else its rows) as the columns of its rows, (n,) or (n, width)."""

    @abstractmethod
    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        """Return the remembered columns of some rows as what their block remembers. NaN where an id is new."""

    def at_prior(self, users: Arrays, items: Arrays, observed: Observed) -> Array | None:
        """Whether each factor is left at its prior, (K,), by the sums of both sides.

        None for models whose factors vanish when they explain nothing.
        """
        return None

    @abstractmethod
    def variation(self, observed: Observed) -> float:
        """Sum of squares, over all pairs, of what the factors should explain."""

    @classmethod
    def shared_as_json(cls, shared: Any) -> dict[str, Any]:
        """Return the terms that all pairs share as JSON holds them."""
        return dict(shared._asdict())

    @classmethod
    @abstractmethod
    def shared_from_json(cls, values: Mapping[str, Any]) -> Any:
        """Return the terms that all pairs share, as the steps take them."""


class SharedNumbers(NamedTuple):
    """What all pairs share, as plain numbers: beta_0, and the gamma of all users where there is one, else 0."""

    intercept: float
    gamma: float


class Remembered(Protocol):
    """What the tables of fitted rows hold, and what their blocks remember of it: half of a :class:`Family`."""

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]: ...

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]: ...


@dataclass(frozen=True)
class OnItsWay:
    """A family as the tables of a fit between two sweeps have it: with what momentum starts from, (n, F) or (n, 0)."""

    family: Family

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        return (*self.family.columns(is_user), TableColumn(REACHED, 0))

    def table_of(self, memory: Arrays, is_user: bool, shared: Any) -> dict[str, Array]:
        """Return the family's table, and what momentum starts from: nothing where the rows say it."""
        table = self.family.table_of(memory, is_user, shared)
        rows = len(next(iter(table.values())))
        return {**table, REACHED: memory.get(REACHED, np.empty((rows, 0)))}

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        memory, reached = self.family.memory_of(columns, is_user), columns[REACHED]
        return {**memory, REACHED: reached} if reached.shape[1] else memory


# What the tables of fitted rows are made by.
Tabled = Family | OnItsWay


class OutcomeFamily(Family):
    """A family of rating models: y_ui(1) = theta_u . beta_i (+ b_u + c_i) + gamma_u a_hat_ui + beta_0.

    The tables of users have the columns ``features`` and ``gamma``, those of items ``features``, both ``bias`` where
    there are biases, ``slopes`` and ``covariates`` where there are covariates, whatever else.

    default_unobserved_weight : the weight w0 of unobserved pairs where none is given.
    unrated_are_zeros : whether unrated pairs are fitted as 0, so that predictions lie below the scale of the ratings.
    warm_start_settings : Params in which a model has to agree with the fit that it starts.
    allowed : Param -> the values that the family can do, if not all. The first is its own default. It refuses another
        value that a user sets, and passes over the estimator's default.
    """

    stage = "outcome"
    value = "rating"
    default_unobserved_weight: ClassVar[float] = 1.0
    unrated_are_zeros: ClassVar[bool]
    warm_start_settings: ClassVar[tuple[str, ...]] = ("outcome", "rank")
    allowed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    _all_read = ("outcome", "rank", "seed", "precision", "adjustment", "confounderWeight")

    @classmethod
    def of(cls, params: Params) -> Self:
        """Return the family with the settings of an estimator or of a fitted model, its own defaults among them."""
        family = super().of(params)
        own = {name: values[0] for name, values in cls.allowed.items() if family.settings.get(name) not in values}
        family.settings |= own
        return family

    @property
    def row_width(self) -> int:
        """Both the means and the geometric means of the factors and of gamma may travel."""
        return 2 * self.rank + 2

    @property
    def has_confounder(self) -> bool:
        """Whether a_hat takes part."""
        return bool(self.settings["adjustment"] == "deconfounded")

    @property
    def gamma_per_user(self) -> bool:
        """Whether each user has a gamma, not one gamma all users."""
        return self.has_confounder and self.settings["confounderWeight"] != "global"

    @property
    def shares_gamma(self) -> bool:
        """Whether there is a gamma for all users, be it their only one or the one that theirs depart from."""
        return self.has_confounder and self.settings["confounderWeight"] != "user"

    @property
    def unobserved_weight(self) -> float:
        """The weight w0 of unobserved pairs."""
        given = self.settings.get("unobservedWeight")
        return self.default_unobserved_weight if given is None else float(given)

    @property
    def has_biases(self) -> bool:
        return False

    @property
    def covariates(self) -> tuple[int, int]:
        """Covariates of each user and of each item, P and Q, as a fit has found them."""
        users, items = self.settings.get("covariates", (0, 0))
        return users, items

    @property
    def composition(self) -> int:
        """How many covariates of each side, the first ones, are the composition of its exposure."""
        return int(self.settings.get("composition", 0))

    @property
    def exposure_term(self) -> ExposureTerm:
        """What the model wants of a_hat: by default a_hat itself."""
        return ExposureTerm()

    def exposure_row_width(self, exposure: Family) -> int:
        """How many numbers a row of the exposure model sends to the other side at most, on its way into the blocks."""
        return max(exposure.row_width, 3 * exposure.rank if self.exposure_term.leave_one_out else 0)

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other, beyond what the table of settings says of them."""

    @classmethod
    @abstractmethod
    def shared_numbers(cls, shared: Any) -> SharedNumbers:
        """Return the terms that all pairs share as a user reads them."""

    def explainer(self, steps: Any, shared: Any) -> Explainer | None:
        """Return what takes the preferences of a block's users apart by ratings. None where the family can't."""
        return None

    def variation(self, observed: Observed) -> float:
        """All pairs, each as large as a mean rating."""
        return observed.n_pairs * observed.means[self.value] ** 2


@runtime_checkable
class Assessing(Protocol):
    """A family with intervals."""

    def assessor(self, steps: Any, shared: Any, is_user: bool) -> Assessor:
        """Return the function that computes the intervals' numbers of a block's held-out pairs."""


def require_same_kind(family: OutcomeFamily, warm: Params) -> None:
    """Refuse to start from a model whose factors mean something else."""
    here, there = family.settings, type(family).of(warm).settings
    differing = [name for name in family.warm_start_settings if here[name] != there[name]]
    if differing:
        values = ", ".join(f"{name}={there[name]!r} (here {here[name]!r})" for name in differing)
        raise ConfigError(f"initialModel was fitted with {values}: a warm start needs the same")
