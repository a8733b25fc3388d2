"""Numbers as people read them, and what an interval says."""

import math
from datetime import date

from dcrec_spark.evaluation.measures import Kind, Measure

_LABELS = {
    Kind.NDCG: "NDCG",
    Kind.RECALL: "Recall",
    Kind.PRECISION: "Precision",
    Kind.MAP: "MAP",
    Kind.COVERAGE: "Coverage",
    Kind.MSE: "MSE",
    Kind.MAE: "MAE",
    Kind.ITEM_MSE: "MSE per item",
    Kind.ITEM_MAE: "MAE per item",
}
# Adjustment -> what stands before and after the name of the outcome model.
_ADJUSTMENTS = {
    "deconfounded": ("deconfounded ", ""),
    "none": ("classical ", ""),
    "ipw": ("", " by inverse propensities"),
}
_OUTCOMES = {"poisson": "Poisson factorization"}
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
BETTER, WORSE, NONE, UNKNOWN = "better", "worse", "no difference shown", "no interval"


def kind_of_model(outcome: str, adjustment: str) -> str:
    """Model in words.

    Examples
    --------
    >>> kind_of_model("probabilistic", "deconfounded")
    'deconfounded probabilistic matrix factorization'
    >>> kind_of_model("weighted", "ipw")
    'weighted matrix factorization by inverse propensities'
    """
    before, after = _ADJUSTMENTS.get(adjustment, (f"{adjustment} ", ""))
    return f"{before}{_OUTCOMES.get(outcome, f'{outcome} matrix factorization')}{after}"


def day(iso: str) -> str:
    """Date in words.

    Examples
    --------
    >>> day("2026-01-31")
    '31 January 2026'
    """
    when = date.fromisoformat(iso)
    return f"{when.day} {when:%B %Y}"


def label(name: str) -> str:
    """Heading for a measure.

    Examples
    --------
    >>> label("catalogue_ndcg@5")
    'NDCG@5'
    """
    measure = Measure.parse(name)
    return _LABELS[measure.kind] + ("" if measure.k is None else f"@{measure.k}")


def full_label(name: str) -> str:
    """Heading for a measure, with what the lists are made of.

    Examples
    --------
    >>> full_label("catalogue_ndcg@5")
    'NDCG@5 over the catalogue'
    """
    return f"{label(name)} over the catalogue" if Measure.parse(name).over_catalogue else label(name)


def number(value: float | None, digits: int = 3) -> str:
    """Three decimals for what is small, fewer for what is large, a dash for what is undefined.

    Examples
    --------
    >>> number(0.12345), number(123.456), number(1234567.8)
    ('0.123', '123.5', '1,234,568')
    """
    if value is None or math.isnan(value):
        return DASH
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """Write a number with its sign, a plus too.

    Examples
    --------
    >>> signed(0.5)
    '+0.500'
    """
    text = number(value, digits)
    return text if math.isnan(value) or value < 0 else f"+{text}"


def share(value: float) -> str:
    """Per cent, with a decimal where there is one.

    Examples
    --------
    >>> share(0.95), share(0.125)
    ('95 %', '12.5 %')
    """
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Both ends of an interval; nothing where there is none.

    Examples
    --------
    >>> interval(0.771, 0.79)
    '0.771 to 0.790'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"{number(low, digits)} to {number(high, digits)}"


def verdict(name: str, low: float, high: float) -> str:
    """Judge the first model by the interval of a difference; where 0 lies inside, no difference is shown.

    Examples
    --------
    >>> verdict("ndcg", 0.1, 0.2), verdict("mse", 0.1, 0.2), verdict("mse", -0.1, 0.1)
    ('better', 'worse', 'no difference shown')
    """
    if math.isnan(low) or math.isnan(high):
        return UNKNOWN
    if low <= 0 <= high:
        return NONE
    return BETTER if (low > 0) != Measure.parse(name).is_error else WORSE


def plural(n: int, one: str, many: str | None = None) -> str:
    """Count with its noun.

    Examples
    --------
    >>> plural(1, "user"), plural(3000, "user"), plural(2, "query", "queries")
    ('1 user', '3,000 users', '2 queries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"
