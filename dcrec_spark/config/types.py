"""Sections of settings, and types of their values, which refuse what pydantic would convert by mistake."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from dcrec_spark.config.secrets import masked_leaves
from dcrec_spark.settings.domains import Choice, number_text
from dcrec_spark.settings.tables import OUTCOMES


class Section(BaseModel):
    """A section of settings: refuses unknown names, and is immutable.

    Its ``repr`` masks what looks like a secret, because logs and tracebacks show it.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True, validate_default=True
    )

    def __repr_args__(self) -> Any:
        """Yield names and values as ``repr`` shows them."""
        for name, value in super().__repr_args__():
            yield name, masked_leaves(value, name or "")


def setting(default: Any, description: str, **limits: Any) -> Any:
    """Declare a setting. ``conf/base.yaml`` shows the first sentence of its description."""
    return Field(default=default, description=description, **limits)


def _not_a_switch(value: Any) -> Any:
    """Refuse true, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError("a number, not true or false")
    return value


# Far above every sensible count, and far below the 64 bits of Spark and NumPy.
LARGEST_WHOLE = 1_000_000_000


def _countable(value: int) -> int:
    if value > LARGEST_WHOLE:
        raise ValueError(f"a number <= {number_text(LARGEST_WHOLE)}")
    return value


def _date_or_today(value: Any) -> Any:
    if value is None:
        return datetime.now(UTC).date()
    if isinstance(value, bool | int | float):
        # Pydantic would read 20261120 as seconds since 1970.
        raise ValueError("a date written YYYY-MM-DD, or null for today in UTC")
    return value


def _flat(value: Any) -> Any:
    """Turn ``{"spark": {"ui": False}}`` into ``{"spark.ui": "false"}``, because ``--set`` splits dotted names."""
    if not isinstance(value, Mapping):
        return value
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            flat |= {f"{key}.{rest}": text for rest, text in _flat(inner).items()}
        else:
            flat[str(key)] = str(inner).lower() if isinstance(inner, bool) else inner
    return flat


def _one_word(value: str) -> str:
    if not value.strip():
        raise ValueError("text that is not blank")
    return value


_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def _one_line(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("a path without line breaks and control characters")
    return value


def _snapshot(value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,19}", value):
        raise ValueError("the number of a snapshot or a version")
    return value


_OF_LISTS = "ndcg|recall|precision|map|hit_rating|coverage|rare_share|rarest_share|largest_share"
_METRIC = re.compile(
    rf"ndcg|(ndcg|recall|precision|map)@[1-9][0-9]*|(item_)?(mse|mae)|catalogue_({_OF_LISTS})@[1-9][0-9]*"
)


def _metric(value: str) -> str:
    if not _METRIC.fullmatch(value):
        raise ValueError(
            "ndcg, ndcg@k, recall@k, precision@k, map@k (k a whole number), mse, mae, item_mse or item_mae, or of "
            f"lists from the whole catalogue catalogue_X@k with X {', '.join(_OF_LISTS.split('|'))}"
        )
    return value


def _outcome(value: str) -> str:
    # Looked up at each call, because registering a family of models adds its name.
    if value not in OUTCOMES:
        raise ValueError(Choice(OUTCOMES).expected)
    return value


Text = Annotated[str, StringConstraints(min_length=1), AfterValidator(_one_word)]
Place = Annotated[Text, AfterValidator(_one_line)]
# A snapshot becomes part of an SQL statement.
Snapshot = Annotated[str, AfterValidator(_snapshot)]
# The name of a run becomes part of a path and of table rows.
RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
RunDate = Annotated[date, BeforeValidator(_date_or_today)]
Whole = Annotated[int, BeforeValidator(_not_a_switch)]
Real = Annotated[float, BeforeValidator(_not_a_switch)]
Countable = Annotated[Whole, AfterValidator(_countable)]
Natural = Annotated[Countable, Field(ge=0)]
Positive = Annotated[Countable, Field(ge=1)]
NonNegativeReal = Annotated[Real, Field(ge=0)]
Share = Annotated[Real, Field(ge=0, le=1)]
Part = Annotated[Real, Field(gt=0, lt=1)]
AtLeastTwo = Annotated[Countable, Field(ge=2)]
OutcomeName = Annotated[str, AfterValidator(_outcome)]
Metric = Annotated[str, AfterValidator(_metric)]
# Options for Spark or for a reader: any name, text values.
TextMap = Annotated[dict[str, str], BeforeValidator(_flat)]
