"""The figures of the paper (arXiv 1808.06581, tables 1 to 3), to compare with ours."""

OUTCOMES = ("probabilistic", "poisson", "weighted")
ADJUSTMENTS = ("none", "ipw", "deconfounded")
ROWS = [f"{outcome}-{adjustment}" for outcome in OUTCOMES for adjustment in ADJUSTMENTS]
RANDOM_TEST = ("ndcg", "recall@5", "mse")
PER_ITEM = ("item_mse", "item_mae")

Figures = dict[str, tuple[float, ...]]


def _figures(*rows: str) -> Figures:
    """Row -> its figures, in the order of ROWS."""
    return {name: tuple(map(float, row.split())) for name, row in zip(ROWS, rows, strict=True)}


# fmt: off
# NDCG, Recall@5, MSE of a random test.
EXISTING_USERS = {
    "yahoo-r3": _figures(
        "0.772 0.540 1.963", "0.791 0.603 1.893", "0.819 0.640 1.768",
        "0.789 0.564 1.539", "0.792 0.564 1.513", "0.802 0.610 1.447",
        "0.820 0.639 2.047", "0.804 0.592 1.845", "0.823 0.645 1.658",
    ),
    "coat": _figures(
        "0.728 0.552 1.422", "0.732 0.547 1.358", "0.743 0.569 1.341",
        "0.713 0.451 1.657", "0.693 0.458 1.631", "0.743 0.521 1.657",
        "0.738 0.560 1.658", "0.681 0.554 1.612", "0.744 0.581 1.569",
    ),
}
NEW_USERS = {
    "yahoo-r3": _figures(
        "0.802 0.792 2.307", "0.818 0.827 2.625", "0.824 0.829 2.244",
        "0.765 0.752 1.913", "0.769 0.761 1.876", "0.774 0.769 1.881",
        "0.809 0.793 1.904", "0.786 0.788 1.883", "0.820 0.818 1.644",
    ),
    "coat": _figures(
        "0.833 0.737 1.490", "0.811 0.724 1.587", "0.847 0.808 1.540",
        "0.764 0.671 1.889", "0.769 0.678 1.817", "0.772 0.678 1.811",
        "0.850 0.814 2.859", "0.837 0.800 2.477", "0.854 0.829 2.421",
    ),
}
# MSE and MAE by item of a regular test.
REGULAR_TEST = {
    "movielens-100k": _figures(
        "2.926 1.425", "2.609 1.275", "2.554 1.260",
        "3.374 1.475", "3.439 1.480", "3.268 1.454",
        "2.359 1.219", "2.344 1.198", "2.101 1.138",
    ),
    "movielens-1m": _figures(
        "2.774 1.321", "2.714 1.303", "2.699 1.299",
        "2.357 1.305", "2.196 1.220", "2.325 1.295",
        "3.558 1.516", "2.872 1.363", "2.864 1.360",
    ),
}
# fmt: on
