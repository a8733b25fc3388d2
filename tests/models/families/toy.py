"""A family in one file: plain matrix factorization of the observed ratings, without intercept and confounder.

J = sum_obs (y - theta.beta)^2 + regParam (|Theta|^2 + |B|^2)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from dcrec_spark.engine.cells import Array, Arrays
from dcrec_spark.engine.kernel_input import Kernel, KernelInput, Update
from dcrec_spark.engine.steps import Steps
from dcrec_spark.errors import ConfigError
from dcrec_spark.kernels.gamma import noise
from dcrec_spark.models.families.base import Observed, OutcomeFamily, SharedNumbers, TableColumn


class Plain(OutcomeFamily):
    """What the rest of the package asks of the family."""

    objective = "J"
    unrated_are_zeros = False
    reads = ("regParam",)

    def require_consistent(self) -> None:
        if self.has_confounder:
            raise ConfigError("outcome=plain has no confounder: set adjustment=none")

    def steps(self, observed: Observed, precision: str | None = None) -> "PlainSteps":
        return PlainSteps(self.rank, self.settings["regParam"], self.settings["seed"])

    def columns(self, is_user: bool) -> tuple[TableColumn, ...]:
        gamma = (TableColumn("gamma", None, remembered=False),) if is_user else ()
        return (TableColumn("features", self.rank), *gamma)

    def table_of(self, memory: Arrays, is_user: bool, shared: None) -> dict[str, Array]:
        table = {"features": memory["rows"]}
        return table | {"gamma": np.zeros(len(memory["rows"]))} if is_user else table

    def memory_of(self, columns: Arrays, is_user: bool) -> dict[str, Array]:
        return {"rows": columns["features"]}

    @classmethod
    def shared_as_json(cls, shared: None) -> dict[str, Any]:
        return {}

    @classmethod
    def shared_from_json(cls, values: Mapping[str, Any]) -> None:
        return None

    @classmethod
    def shared_numbers(cls, shared: None) -> SharedNumbers:
        return SharedNumbers(intercept=0.0, gamma=0.0)


@dataclass(frozen=True)
class PlainSteps(Steps):
    """What the loop asks of a fit: a kernel for each half-step, and what becomes of their sums."""

    rank: int
    reg: float
    seed: int

    stage = "outcome"
    rises = False

    def start(self, is_user: bool) -> Kernel:
        return partial(start, model=self)

    def update(self, shared: None, is_user: bool) -> Kernel:
        return partial(solve, model=self)

    def converge(self, shared: None, is_user: bool = True, scores: bool = False) -> Kernel:
        return partial(solve, model=self)

    def conclude(self, users: Arrays, items: Arrays, shared: None) -> tuple[float, None]:
        squares = np.trace(users["gram"]) + np.trace(items["gram"])
        return float(items["error"] + self.reg * squares), None


def start(inputs: KernelInput, *, model: PlainSteps) -> Update:
    """Small noise by the ids; where the memory knows a row, that row."""
    rows = 0.1 * (noise(model.seed, inputs.block["row_key"], model.rank) - 0.5)
    if inputs.memory:
        known = np.isfinite(inputs.memory["rows"]).all(axis=1)
        rows[known] = inputs.memory["rows"][known]
    return Update(rows, {"gram": rows.T @ rows}, {})


def solve(inputs: KernelInput, *, model: PlainSteps) -> Update:
    """Each row's ridge regression on the rows of the other side that it has a rating of."""
    pointer, column, rating = (inputs.block[name] for name in ("row_ptr", "col", "rating"))
    rows, error = np.zeros((len(pointer) - 1, model.rank)), 0.0
    for row, (first, end) in enumerate(pairwise(pointer)):
        sources, y = inputs.inbox[column[first:end]], rating[first:end].astype(np.float64)
        rows[row] = np.linalg.solve(sources.T @ sources + model.reg * np.eye(model.rank), sources.T @ y)
        error += float(np.square(y - sources @ rows[row]).sum())
    return Update(rows, {"gram": rows.T @ rows, "error": np.array(error)}, {})
