"""A fitted outcome model as folding in and explaining need it: tables, shared terms and settings, and no more."""

from dataclasses import dataclass
from typing import Any

from pyspark.ml.param import Params
from pyspark.sql import DataFrame

from dcrec_spark.kernels.exposure import Form
from dcrec_spark.models.families.base import Family, OutcomeFamily
from dcrec_spark.models.fitting.arrow_cache import select_columns
from dcrec_spark.models.fitting.covariates import NO_COVARIATES, Covariates
from dcrec_spark.models.fitting.propensity import Propensity


@dataclass(frozen=True)
class FittedExposure:
    """The stage 1 of a fitted model. count_column : of exposure counts. None: each pair counts once."""

    family: Family
    count_column: str | None


@dataclass(frozen=True)
class FittedOutcome:
    """A fitted outcome model.

    params : of the model. shared : the terms that all pairs share. form : of the confounder. None without one.
    users, items : ``idx, id``, the family's columns, ``exposure_shape, exposure_rate``. covariates : their scalings.
    """

    params: Params
    family: OutcomeFamily
    shared: Any
    propensity: Propensity | None
    users: DataFrame
    items: DataFrame
    exposure: FittedExposure | None
    form: Form | None = None
    covariates: Covariates = NO_COVARIATES

    @property
    def id_columns(self) -> tuple[str, str]:
        """The columns of users and of items in a user's frame."""
        return self.params.getOrDefault("userCol"), self.params.getOrDefault("itemCol")

    @property
    def row_width(self) -> int:
        """How many numbers a row of either stage has at most."""
        exposure = 0 if self.exposure is None else self.family.exposure_row_width(self.exposure.family)
        return max(self.family.row_width, exposure)

    def table(self, is_user: bool) -> DataFrame:
        """Return the users or the items."""
        return self.users if is_user else self.items

    def exposure_table(self, is_user: bool) -> DataFrame:
        """``id, shape, rate`` of the users' or the items' exposure factors."""
        return select_columns(self.table(is_user), {"id": "id", "exposure_shape": "shape", "exposure_rate": "rate"})
