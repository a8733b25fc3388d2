"""The page of the extended model's studies: a table of errors for each data set, and its differences with intervals."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from studies.baselines import ALS_ROW
from studies.compare import Cell
from studies.datasets import REGULAR, REWEIGHTED
from studies.extended_rows import ALL_ROWS, BIASED, DECONFOUNDED, SHUFFLED
from studies.summary import Figure, difference, figure, row_names, worst, worst_difference

_METRICS = {"mse": "MSE", "ndcg": "NDCG", "item_mse": "MSE by item"}
_PACKAGES = ("pyspark", "numpy", "scipy", "pyarrow")
_COMMAND = "python -m studies.extended --data folder --output docs/studies/extended"
_CHOICES = {"mse": "the MSE of validation", "weighted_mse": "the MSE of validation, weighted by inverse propensities"}
_UNPREDICTING = ("popularity", "random")


def write_extended_page(studies: Mapping[str, tuple[str, Sequence[Cell]]], output: Path) -> Path:
    """Write README.md under ``output``; a study without cells keeps the section that an earlier page has of it.

    studies : name -> its title and its cells, one for each seed.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / "README.md"
    earlier = _sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    sections = {t: "\n".join(_section(cells)) if cells else earlier.get(t) for t, cells in studies.values()}
    shown = [f"\n## {title}\n\n{section}" for title, section in sections.items() if section is not None]
    shown += _worst_of_signs({name: cells for name, (_, cells) in studies.items()})
    missing = [title for title, section in sections.items() if section is None]
    not_run = [f"\nNot run: {'; '.join(missing)}."] if missing else []
    path.write_text("\n".join([*_head(), *shown, *not_run]) + "\n", encoding="utf-8")
    return path


def _sections(page: str) -> dict[str, str]:
    """Title -> text of the sections of a page, without what was not run."""
    parts = page.partition("\nNot run:")[0].split("\n## ")[1:]
    return {title: text.strip("\n") for title, _, text in (part.partition("\n") for part in parts)}


def _section(cells: Sequence[Cell]) -> Iterator[str]:
    yield from _seeds(cells)
    for choice in cells[0]["choices"]:
        yield f"\nChosen by {_CHOICES[choice]}:\n"
        yield from _table(cells, choice)
        yield ""
        yield from _differences(cells, choice)
        yield from _interventions(cells, choice)
        yield from _strata(cells, choice)


def _head() -> Iterator[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield "# The extended model beside the cheap alternatives"
    yield f"\nMade by `{_COMMAND}`, with Python {platform.python_version()}, {packages}; not edited by hand.\n"
    yield (
        "Every row without a confounder draws equally many settings from the same grid, and chooses by the MSE of "
        "validation; MLlib's ALS, whose regulariser grows with the number of ratings, chooses among as many or more, "
        "and makes 15 sweeps; our rows make 50 at most where they draw twenty settings, 40 where twelve, 20 where six. "
        "A row with one takes the settings that its twin without it has chosen by that MSE, and draws as many of the "
        "confounder alone; one of inverse propensities draws their cap in the same way. "
        "Validation is made of pairs that users came across; its MSE can also be weighted by the inverse of their "
        "propensity to, by an exposure model of the training pairs. The "
        "chosen settings are fitted to training and validation. Figures are means over seeds, in brackets the 95 % "
        "interval over users, items and seeds. Bold: it leaves out 0, and the seeds are four or more; fewer claim "
        "nothing. The units behind the page are in `studies/results/extended`; studies that have none there keep the "
        "section of an earlier run."
    )


def _seeds(cells: Sequence[Cell]) -> Iterator[str]:
    seeds = "one seed" if len(cells) == 1 else f"{len(cells)} seeds"
    missing = _span([cell["items_missing"] for cell in cells])
    yield f"{seeds}, {_span([cell['test'] for cell in cells])} test ratings; {missing} items of the test unknown."


def _span(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _table(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    yield _line(["", *_METRICS.values()])
    yield _line(["---"] * (len(_METRICS) + 1))
    for row in row_names(cells, choice):
        shown = [
            "" if row in _UNPREDICTING and metric != "ndcg" else f"{figure(cells, choice, row, metric).value:.3f}"
            for metric in _METRICS
        ]
        yield _line([row, *shown])


def _differences(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    names = row_names(cells, choice)
    ours = [row.name for row in ALL_ROWS if row.name in names]
    twins = [(row.name, row.follows) for row in ALL_ROWS if row.name in names and row.follows not in (None, BIASED)]
    pairs = [(row, BIASED) for row in ours if row != BIASED] + twins
    pairs += [(DECONFOUNDED, SHUFFLED)] if SHUFFLED in names else []
    pairs += [(row, ALS_ROW) for row in ours if ALS_ROW in names]
    yield _line(["difference", *_METRICS.values()])
    yield _line(["---"] * (len(_METRICS) + 1))
    for row, against in pairs:
        by = _chosen_by(cells, choice, row, against)
        found = [difference(cells, choice, row, against, metric, chosen_by=by) for metric in _METRICS]
        yield _line([_named(row, against, choice, by), *map(_shown, found)])


def _interventions(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    """MSE of the same fits on three tests, where a study has them."""
    if REGULAR not in cells[0][choice]["groups"]:
        return
    yield (
        "\nMSE of the same fits on pairs as users choose them (regular), on these weighted by the inverse of their "
        "items' popularity (reweighted), and on random pairs:\n"
    )
    yield from _side_by_side(cells, choice, {REGULAR: REGULAR, REWEIGHTED: REWEIGHTED, "random": None})


def _worst_of_signs(studies: Mapping[str, Sequence[Cell]]) -> Iterator[str]:
    """MSE in the worlds that are drawn alike but for what the segments do, and the worst of a row's errors there."""
    raises, lowers, none = (studies.get(f"world-{kind}", ()) for kind in ("raises", "lowers", "none"))
    if not (raises and lowers and none):
        return
    yield "\n## Fair worlds: raises, lowers, none, and the worst of them\n"
    yield "The same fits as above, seed by seed; the model does not know in which of the worlds it is."
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
    groups, rows = [*tests.values()], [row for row in row_names(cells, choice) if row not in _UNPREDICTING]
    yield _line(["", *tests, "worst"])
    yield _line(["---"] * (len(tests) + 2))
    for row in rows:
        errors = [figure(cells, choice, row, "mse", test) for test in groups]
        yield _line([row, *(f"{e.value:.3f}" for e in [*errors, worst(cells, choice, row, "mse", groups)])])
    yield ""
    yield _line(["difference", *tests, "worst"])
    yield _line(["---"] * (len(tests) + 2))
    for against in [row for row in rows if row != DECONFOUNDED]:
        by = _chosen_by(cells, choice, DECONFOUNDED, against)
        found = [difference(cells, choice, DECONFOUNDED, against, "mse", test, by) for test in groups]
        found.append(worst_difference(cells, choice, DECONFOUNDED, against, "mse", groups, by))
        yield _line([_named(DECONFOUNDED, against, choice, by), *map(_shown, found)])


def _strata(cells: Sequence[Cell], choice: str) -> Iterator[str]:
    """MSE of users, and of items, with few and many training ratings, where a study has them."""
    of_cells = [cell[choice]["groups"] for cell in cells]
    for side in ("user", "item"):
        strata = [name for name in of_cells[0] if name.startswith(f"{side}-") and all(name in of for of in of_cells)]
        if len(strata) < 2:
            continue
        bounds = [zip(*(of[name]["ratings"] for of in of_cells), strict=True) for name in strata]
        yield f"\nMSE by the number of training ratings of the {side}:\n"
        yield _line(["", *(f"{min(lowest):,} to {max(highest):,}" for lowest, highest in bounds)])
        yield _line(["---"] * (len(strata) + 1))
        for row in [row for row in row_names(cells, choice) if row not in _UNPREDICTING]:
            errors = [figure(cells, choice, row, "mse", stratum) for stratum in strata]
            yield _line([row, *(f"{error.value:.3f}" for error in errors)])
        by = _chosen_by(cells, choice, DECONFOUNDED, BIASED)
        found = [difference(cells, choice, DECONFOUNDED, BIASED, "mse", stratum, by) for stratum in strata]
        yield _line([_named(DECONFOUNDED, BIASED, choice, by), *map(_shown, found)])


def _chosen_by(cells: Sequence[Cell], choice: str, row: str, against: str) -> str:
    """Return how the other row's settings are chosen: a row has its twin's by the first choice, whatever its own is."""
    is_twin = any(ours.name == row and ours.follows == against for ours in ALL_ROWS)
    return str(next(iter(cells[0]["choices"]))) if is_twin else choice


def _named(row: str, against: str, choice: str, by: str) -> str:
    return f"{row} - {against}{'' if by == choice else ' (chosen by MSE)'}"


def _shown(found: Figure) -> str:
    text = f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.leaves_out_zero else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
