"""Numbers as people read them, and what an interval says."""

import math

ERRORS = ("mse", "mae", "item_mse", "item_mae")
_LABELS = {
    "ndcg": "NDCG",
    "recall": "Recall",
    "precision": "Precision",
    "map": "MAP",
    "coverage": "Coverage",
    "mse": "MSE",
    "mae": "MAE",
    "item_mse": "MSE per item",
    "item_mae": "MAE per item",
}
CATALOGUE = "catalogue_"
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
BETTER, WORSE, NONE, UNKNOWN = "better", "worse", "no difference shown", "no interval"


def label(measure: str) -> str:
    """``catalogue_ndcg@5`` -> ``NDCG@5``."""
    base, at, k = measure.removeprefix(CATALOGUE).partition("@")
    return f"{_LABELS[base]}{at}{k}"


def number(value: float | None, digits: int = 3) -> str:
    """Three decimals for what is small, fewer for what is large, a dash for what is undefined."""
    if value is None or math.isnan(value):
        return DASH
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """With its sign, a plus too."""
    text = number(value, digits)
    return text if math.isnan(value) or value < 0 else f"+{text}"


def share(value: float) -> str:
    """Per cent, with a decimal where there is one."""
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """``0.771 to 0.790``; nothing where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"{number(low, digits)} to {number(high, digits)}"


def verdict(measure: str, low: float, high: float) -> str:
    """What the interval of a difference says about the first model: nothing, where 0 lies inside."""
    if math.isnan(low) or math.isnan(high):
        return UNKNOWN
    if low <= 0 <= high:
        return NONE
    return BETTER if (low > 0) != (measure in ERRORS) else WORSE


def plural(n: int, one: str, many: str | None = None) -> str:
    """``1 user``, ``3 users``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
