"""The page of the extended model's studies: a table of errors for each data set, and its differences with intervals."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from studies.compare import ALS_ROW
from studies.datasets import REGULAR, REWEIGHTED
from studies.extended_rows import ALL_ROWS, BIASED, DECONFOUNDED, SHUFFLED
from studies.summary import NAMES, UNPREDICTING, difference, figure, made_by, row_names, table, worst, worst_difference
from studies.units import Cell

_METRICS = ("mse", "ndcg", "item_mse")
_COMMAND = "python -m studies.extended --data folder --output docs/studies/extended"
_CHOICES = {"mse": "the MSE of validation", "weighted_mse": "the MSE of validation, weighted by inverse propensities"}
_HEAD = """
Every row without a confounder draws equally many settings from the same grid, and chooses by the MSE of validation. \
MLlib's ALS, whose regulariser grows with the number of ratings, chooses among as many or more, and makes 15 sweeps. \
Our rows make at most 50 where they draw twenty settings, 40 where twelve, 20 where six. A row with a confounder takes \
the settings that its baseline without it has chosen by that MSE, and draws as many of the confounder alone; one of \
inverse propensities draws their cap. Validation is made of pairs that users chose; its MSE can also be weighted by \
inverse propensities, by an exposure model of the training pairs. The chosen settings are fitted to training and \
validation. Figures are means over seeds, with the 95 % interval over users, items and seeds in brackets. Bold: it \
excludes 0, and there are four seeds or more; fewer claim nothing. The units behind the page are in \
`studies/results/extended.zip`. They were computed when both sides had regularisers of their own, gamma's precision \
could be estimated, and a link could be a square root."""


def write_extended_page(studies: Mapping[str, tuple[str, Sequence[Cell]]], output: Path) -> Path:
    """Write README.md under ``output``; studies : name -> its title and its cells, one for each seed."""
    output.mkdir(parents=True, exist_ok=True)
    lines = [f"# The extended model and the cheap alternatives\n\n{made_by(_COMMAND)}", _HEAD]
    for title, cells in studies.values():
        lines += [f"\n## {title}\n", *(_section(cells) if cells else ["Not run."])]
    lines += _worst_of_signs({name: cells for name, (_, cells) in studies.items()})
    path = output / "README.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _section(cells: Sequence[Cell]) -> Iterator[str]:
    seeds = "one seed" if len(cells) == 1 else f"{len(cells)} seeds"
    missing = _span([cell["items_missing"] for cell in cells])
    yield f"{seeds}, {_span([cell['test'] for cell in cells])} test ratings; {missing} items of the test unknown."
    for choice in cells[0]["choices"]:
        yield f"\nChosen by {_CHOICES[choice]}:\n"
        yield from _errors(cells, choice)
        yield ""
        yield from _differences(cells, choice)
        if REGULAR in cells[0][choice]["groups"]:
            yield "\nMSE of the same fits on pairs as users choose them (regular), on these weighted by the inverse of"
            yield "their items' popularity (reweighted), and on random pairs:\n"
            yield from _side_by_side(cells, choice, {REGULAR: REGULAR, REWEIGHTED: REWEIGHTED, "random": None})
        yield from _strata(cells, choice)


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _errors(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    def value(row: str, metric: str) -> str:
        hidden = row in UNPREDICTING and metric != "ndcg"
        return "" if hidden else f"{figure(cells, choice, row, metric).value:.3f}"

    rows = ([row, *(value(row, metric) for metric in _METRICS)] for row in row_names(cells, choice))
    yield from table(["", *(NAMES[metric] for metric in _METRICS)], rows)


def _differences(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    names = row_names(cells, choice)
    ours = [row for row in ALL_ROWS if row.name in names]
    pairs = [(row.name, BIASED) for row in ours if row.name != BIASED]
    pairs += [(row.name, row.follows) for row in ours if row.follows not in (None, BIASED)]
    pairs += [(DECONFOUNDED, SHUFFLED)] if SHUFFLED in names else []
    pairs += [(row.name, ALS_ROW) for row in ours if ALS_ROW in names]
    by = {pair: _chosen_by(cells, choice, *pair) for pair in pairs}
    lines = (
        [_name(*pair, choice, by[pair])]
        + [difference(cells, choice, *pair, metric, chosen_by=by[pair]).as_text("+") for metric in _METRICS]
        for pair in pairs
    )
    yield from table(["difference", *(NAMES[metric] for metric in _METRICS)], lines)


def _worst_of_signs(studies: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    """MSE on data that differ only in what the segments do, and the worst of a row's errors there."""
    raises, lowers, none = (studies.get(f"fair-{kind}", ()) for kind in ("raises", "lowers", "none"))
    if not (raises and lowers and none):
        return
    yield "\n## Fair simulation: raises, lowers, none, and the worst of them\n"
    yield "The same fits as above, seed by seed; the model does not know which data it has."
    choices = raises[0]["choices"]
    cells: list[Cell] = [
        {"choices": up["choices"]}
        | {by: {**up[by], "groups": {"lowers": down[by], "none": neither[by]}} for by in choices}
        for up, down, neither in zip(raises, lowers, none, strict=True)
    ]
    for choice in choices:
        yield f"\nChosen by {_CHOICES[choice]}:\n"
        yield from _side_by_side(cells, choice, {"raises": None, "lowers": "lowers", "none": "none"})


def _side_by_side(cells: Sequence[Cell], choice: str, tests: Mapping[str, str | None]) -> Iterator[str]:
    """MSE on several tests, by their names, and the worst of them; and differences from the deconfounded row."""
    groups, rows = [*tests.values()], [row for row in row_names(cells, choice) if row not in UNPREDICTING]

    def errors(row: str) -> list[str]:
        found = [figure(cells, choice, row, "mse", test) for test in groups]
        return [row, *(f"{e.value:.3f}" for e in [*found, worst(cells, choice, row, "mse", groups)])]

    def differences(against: str) -> list[str]:
        by = _chosen_by(cells, choice, DECONFOUNDED, against)
        found = [difference(cells, choice, DECONFOUNDED, against, "mse", test, by) for test in groups]
        found.append(worst_difference(cells, choice, DECONFOUNDED, against, "mse", groups, by))
        return [_name(DECONFOUNDED, against, choice, by), *(f.as_text("+") for f in found)]

    yield from table(["", *tests, "worst"], map(errors, rows))
    yield ""
    yield from table(["difference", *tests, "worst"], (differences(row) for row in rows if row != DECONFOUNDED))


def _strata(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    """MSE of users, and of items, with few and many training ratings, where a study has them."""
    of_cells = [cell[choice]["groups"] for cell in cells]
    for side in ("user", "item"):
        strata = [name for name in of_cells[0] if name.startswith(f"{side}-") and all(name in of for of in of_cells)]
        if len(strata) < 2:
            continue
        bounds = [zip(*(of[name]["ratings"] for of in of_cells), strict=True) for name in strata]
        yield f"\nMSE by the number of training ratings of the {side}:\n"
        rows = [
            [row, *(f"{figure(cells, choice, row, 'mse', stratum).value:.3f}" for stratum in strata)]
            for row in row_names(cells, choice)
            if row not in UNPREDICTING
        ]
        by = _chosen_by(cells, choice, DECONFOUNDED, BIASED)
        found = [difference(cells, choice, DECONFOUNDED, BIASED, "mse", stratum, by) for stratum in strata]
        rows.append([_name(DECONFOUNDED, BIASED, choice, by), *(f.as_text("+") for f in found)])
        yield from table(["", *(f"{min(low):,} to {max(high):,}" for low, high in bounds)], rows)


def _chosen_by(cells: Sequence[Cell], choice: str, row: str, against: str) -> str:
    """Return how the other row's settings are chosen: a row has its baseline's by the first choice."""
    follows = any(ours.name == row and ours.follows == against for ours in ALL_ROWS)
    return str(next(iter(cells[0]["choices"]))) if follows else choice


def _name(row: str, against: str, choice: str, by: str) -> str:
    return f"{row} - {against}{'' if by == choice else ' (chosen by MSE)'}"
