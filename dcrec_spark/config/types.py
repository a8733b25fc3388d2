"""Sections of settings, and types of their values, which refuse what pydantic would convert by mistake."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from dcrec_spark.config.secrets import masked_leaves
from dcrec_spark.settings.domains import Choice, number_text
from dcrec_spark.settings.tables import OUTCOMES


class Section(BaseModel):
    """A section of settings: refuses unknown names, is immutable, and masks secrets in its ``repr``.

    Sections whose settings can exclude each other override ``_conflicts``.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, coerce_numbers_to_str=True, validate_default=True
    )

    def _conflicts(self) -> Iterator[str]:
        """Yield what is expected in place of settings that exclude each other. The first is the error's text."""
        yield from ()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for expected in self._conflicts():
            raise ValueError(expected)
        return self

    def __repr_args__(self) -> Any:
        for name, value in super().__repr_args__():
            yield name, masked_leaves(value, name or "")


def setting(description: str, default: Any = None, **limits: Any) -> Any:
    """Declare a setting. ``conf/base.yaml`` shows the first sentence of its description."""
    return Field(default=default, description=description, **limits)


def _must(holds: Callable[[Any], object], expected: str) -> AfterValidator:
    """Refuse values for which ``holds`` is false."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(expected)
        return value

    return AfterValidator(check)


def _not_a_switch(value: Any) -> Any:
    """Refuse true, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError("a number, not true or false")
    return value


# Far above every sensible count, and far below the 64 bits of Spark and NumPy.
LARGEST_WHOLE = 1_000_000_000


def _day(value: Any, *, null: str = "null") -> Any:
    """Refuse a number, which pydantic would read as seconds since 1970."""
    if isinstance(value, bool | int | float):
        raise ValueError(f"a date written YYYY-MM-DD, or {null}")
    return value


def _date_or_today(value: Any) -> Any:
    return datetime.now(UTC).date() if value is None else _day(value, null="null for today in UTC")


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


def _outcome(value: str) -> str:
    # Looked up at each call, because registering a family of models adds its name.
    if value not in OUTCOMES:
        raise ValueError(Choice(OUTCOMES).expected)
    return value


_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_OF_LISTS = ["ndcg", "recall", "precision", "map", "hit_rating", "coverage"]
_OF_LISTS += ["rare_share", "rarest_share", "largest_share"]
_METRIC = re.compile(
    r"ndcg|(ndcg|recall|precision|map)@[1-9][0-9]*|(item_)?(mse|mae)|"
    rf"catalogue_({'|'.join(_OF_LISTS)})@[1-9][0-9]*"
)
METRICS = (
    "ndcg, ndcg@k, recall@k, precision@k, map@k (k a whole number), mse, mae, item_mse or item_mae, or of lists from "
    f"the whole catalogue catalogue_X@k, X one of {', '.join(_OF_LISTS)}"
)

Text = Annotated[str, StringConstraints(min_length=1), _must(str.strip, "text that is not blank")]
Place = Annotated[
    Text, _must(lambda text: not _CONTROL.search(text), "a path without line breaks and control characters")
]
# A snapshot becomes part of an SQL statement.
Snapshot = Annotated[str, _must(re.compile(r"[0-9]{1,19}").fullmatch, "the number of a snapshot or a version")]
# The name of a run becomes part of a path and of table rows.
RunName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
RunDate = Annotated[date, BeforeValidator(_date_or_today)]
Day = Annotated[date, BeforeValidator(_day)]
Whole = Annotated[int, BeforeValidator(_not_a_switch)]
Real = Annotated[float, BeforeValidator(_not_a_switch)]
Countable = Annotated[Whole, _must(lambda number: number <= LARGEST_WHOLE, f"a number <= {number_text(LARGEST_WHOLE)}")]
Natural = Annotated[Countable, Field(ge=0)]
Positive = Annotated[Countable, Field(ge=1)]
NonNegativeReal = Annotated[Real, Field(ge=0)]
Share = Annotated[Real, Field(ge=0, le=1)]
Part = Annotated[Real, Field(gt=0, lt=1)]
AtLeastTwo = Annotated[Countable, Field(ge=2)]
OutcomeName = Annotated[str, AfterValidator(_outcome)]
Metric = Annotated[str, _must(_METRIC.fullmatch, METRICS)]
# Options for Spark or for a reader: any name, text values.
TextMap = Annotated[dict[str, str], BeforeValidator(_flat)]
