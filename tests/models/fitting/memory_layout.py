"""A layout of many blocks in memory, and the stages of a fit over any layout; no Spark."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dcrec_spark import DeconfoundedMF, PoissonFactorization
from dcrec_spark.engine.ascent import Fit
from dcrec_spark.engine.build import build_process_side
from dcrec_spark.engine.cells import Array
from dcrec_spark.engine.heavy_items import Heavy
from dcrec_spark.engine.sides import State
from dcrec_spark.models.families.poisson import PoissonExposure
from dcrec_spark.models.families.registry import consistent_family_of
from dcrec_spark.models.fitting.attach import Covariates, attach_confounder
from dcrec_spark.models.fitting.fit_resources import FitResources
from dcrec_spark.models.fitting.layout import Layout
from dcrec_spark.models.fitting.process_layout import ProcessLayout
from dcrec_spark.models.fitting.stages import fit_factors
from tests.engine.memory_side import MemorySide, memory_sides


class Table(dict[str, Array]):
    def drop(self, name: str) -> "Table":
        return Table({key: values for key, values in self.items() if key != name})


@dataclass(frozen=True)
class MemoryLayout(Layout):
    users: MemorySide
    items: MemorySide
    nonzeros: int
    means: Mapping[str, float]
    held_out: bool

    environment = staticmethod(nullcontext)

    def side(self, is_user: bool) -> MemorySide:
        return self.users if is_user else self.items

    def place(self, is_user: bool, table: Table, family: Any) -> State:
        side = self.side(is_user)
        parts = ({name: values[b :: side.n_blocks] for name, values in table.items()} for b in range(side.n_blocks))
        return side.remembered([family.memory_of(columns, is_user) for columns in parts])

    def table(self, is_user: bool, state: State, family: Any, shared: Any) -> Table:
        side = self.side(is_user)
        tables = [family.table_of(memory, is_user, shared) for memory in side.memories(state)]
        whole = Table()
        for name in tables[0]:
            whole[name] = np.empty((side.n_rows, *tables[0][name].shape[1:]))
            for block, table in enumerate(tables):
                whole[name][block :: side.n_blocks] = table[name]
        return whole

    arrays = table
    memory_table = materialise = None  # without Spark


class Ratings(NamedTuple):
    """``user``, ``item``, values and perhaps ``held_out``; hashes of the ids of both sides."""

    pairs: dict[str, Array]
    keys: tuple[Array, Array]

    @property
    def fitted(self) -> Array:
        return ~self.pairs["held_out"] if "held_out" in self.pairs else np.full(len(self.pairs["user"]), True)

    @property
    def values(self) -> list[str]:
        return [name for name in self.pairs if name not in ("user", "item", "held_out")]

    @property
    def facts(self) -> tuple[int, dict[str, float], bool]:
        means = {name: float(self.pairs[name][self.fitted].mean()) for name in self.values}
        return int(self.fitted.sum()), means, "held_out" in self.pairs


def in_process(ratings: Ratings, precision: str = "float64", pairs_per_run: int = 2**22) -> ProcessLayout:
    sides = []
    for n, (name, other) in enumerate((("user", "item"), ("item", "user"))):
        pairs = {"row": ratings.pairs[name], "col": ratings.pairs[other], **ratings.pairs}
        side = build_process_side(name, pairs, ratings.keys[n], len(ratings.keys[1 - n]), ratings.values, precision)
        sides.append(replace(side, pairs_per_run=pairs_per_run))
    return ProcessLayout(sides[0], sides[1], *ratings.facts)


def in_blocks(
    ratings: Ratings,
    n_blocks: tuple[int, int],
    broadcasts: tuple[bool, bool] = (False, False),
    precision: str = "float64",
    heavier_than: int | None = None,
) -> MemoryLayout:
    """heavier_than : items with more pairs are heavy; None: no item."""
    heavy, item = None, ratings.pairs["item"]
    if heavier_than is not None:
        counts = np.bincount(item, minlength=len(ratings.keys[1]))
        idx = np.flatnonzero(counts > heavier_than)
        heavy = Heavy(idx, np.bincount(item[ratings.fitted], minlength=len(counts))[idx])
    sides = memory_sides(ratings.pairs, ratings.keys, n_blocks, broadcasts, precision, heavy)
    return MemoryLayout(*sides, *ratings.facts)


def arrays_of(layout: Any, *of: Any) -> Mapping[str, Array]:
    return layout.arrays(*of)  # type: ignore[no-any-return]


def fit_stages(
    layout: Any,
    outcome: DeconfoundedMF,
    exposure: PoissonFactorization,
    columns_of: Callable[..., Mapping[str, Array]] = arrays_of,
) -> dict[str, Array]:
    """Fit exposures, attach the confounder if the model has one, fit ratings: objectives, losses, columns."""
    first, second, numbers = PoissonExposure.of(exposure), consistent_family_of(outcome), dict[str, Array]()
    with FitResources() as resources:

        def fit(estimator: Any, family: Any, layout: Any) -> Fit:
            fitted = resources.add(fit_factors(estimator, family, layout, lambda *_: None))
            numbers[f"{family.stage} objective"] = np.array([*fitted.objective, fitted.final_objective])
            numbers[f"{family.stage} held out"] = np.array(fitted.held_out)
            for is_user, state in ((True, fitted.users), (False, fitted.items)):
                for name, column in columns_of(layout, is_user, state, family, fitted.shared).items():
                    numbers[f"{family.stage} {'users' if is_user else 'items'} {name}"] = column
            return fitted

        exposures = fit(exposure, first, layout)
        if second.has_confounder:
            states = exposures.users, exposures.items
            layout, form = attach_confounder(layout, *states, second.exposure_term, resources)
            second = Covariates().of_family(second, form)
        numbers["intercept"] = np.array(second.shared_numbers(fit(outcome, second, layout).shared))
    return numbers
