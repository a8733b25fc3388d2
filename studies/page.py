"""The results as one page of Markdown, a table as CSV for each study, and pictures."""

import csv
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from math import isnan
from pathlib import Path

import numpy as np

from studies.compare import Cell
from studies.figures import sweep_figure
from studies.paper import EXISTING_USERS, NEW_USERS, OUTCOMES, PER_ITEM, RANDOM_TEST, REGULAR_TEST, ROWS
from studies.paper import Figures as PaperFigures
from studies.paper_simulation import Reading
from studies.profiles import OfSimulation, Profile
from studies.rows import PLACEBOS, PLAIN_RANK, described, plain_rows
from studies.simulation import SPREAD, SWEEPS, Point, spread_rows, truth
from studies.summary import FEWEST_SEEDS, Figure, difference, figure, row_names

NAMES = {"ndcg": "NDCG", "recall@5": "Recall@5", "mse": "MSE", "item_mse": "MSE by item", "item_mae": "MAE by item"}
READINGS: dict[Reading, str] = {"rate": "0.3 a rate", "scale": "0.3 a scale"}
# Of those without a model, the two that predict.
_BASELINES = ("global-mean", "item-mean")
_AXES = {"preference": "g_theta", "outcome": "g_y"}
_PACKAGES = ("pyspark", "numpy", "scipy", "pyarrow")
Results = Mapping[str, list[Cell]]


def write_page(profile: Profile, results: Results, output: Path, command: str, missing: Sequence[str] = ()) -> Path:
    """README.md, tables and pictures under ``output``.

    results : data set -> cells by seed; "dense-outcome-3.0" -> cells by run. missing : units that are not among them,
    which the page says.
    """
    output.mkdir(parents=True, exist_ok=True)
    lines = [*_head(profile, command, missing), *_tables(results, output)]
    lines += [*_sweeps(profile, results, output), *_stopped(results)]
    path = output / "README.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _head(profile: Profile, command: str, missing: Sequence[str]) -> Iterator[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield "# The studies"
    yield f"\nMade by `{command}`, with Python {platform.python_version()}, {packages}; not edited by hand.\n"
    yield from (f"* Cut: {what}" for what in profile.cut)
    if missing:
        yield f"* Not finished: {', '.join(missing)}."
    yield (
        "\nFigures are means over seeds; in brackets the 95 % bootstrap interval over the test's users and items, and "
        "over the seeds. Equal scores share their places. Rows choose "
        "their settings by validation NDCG (where it says so, by validation MSE), out of equally many draws; the "
        "chosen ones are fitted to training and validation. The last columns are the paper's."
    )


# ---- tables


def _tables(results: Results, output: Path) -> Iterator[str]:
    for name, heading, metrics, paper in _studies():
        cells = results.get(name)
        if not cells:
            continue
        users = f"{len(cells)} seed{'s' if len(cells) > 1 else ''}, {cells[0]['test']:,} test ratings"
        yield f"\n## {heading}\n\n{users} of {cells[0]['items']:,} items, over which errors by item are means."
        yield f"{cells[0]['items_missing']:,} more test items have no training rating, and are left out.\n"
        yield from _rows(cells, metrics, paper)
        yield "\nAgainst the classical row of the same outcome:\n"
        yield from _differences(cells, metrics, _against_classical(row_names(cells, "ndcg")))
        placebos = list(_against_placebos(row_names(cells, "ndcg")))
        if placebos:
            yield "\nDeconfounded against its placebos, the items of `a_hat` shuffled or popularity in its place:\n"
            yield from _differences(cells, metrics, placebos)
        yield f"\nBold: the interval of {FEWEST_SEEDS} seeds or more leaves out 0; in parentheses the standard"
        yield "deviation over them."
        yield from _groups(cells, metrics[0])
        _write_csv(output / f"{name}.csv", cells)


def _studies() -> Iterator[tuple[str, str, tuple[str, ...], PaperFigures]]:
    yield "coat", "Coat, existing users, random test", RANDOM_TEST, EXISTING_USERS["coat"]
    yield "coat-plain", f"Coat, existing users, random test: plain settings, rank {PLAIN_RANK}", RANDOM_TEST, {}
    yield "coat-new-users", "Coat, new users, random test", RANDOM_TEST, NEW_USERS["coat"]
    yield "yahoo-r3", "Yahoo! R3, existing users, random test", RANDOM_TEST, EXISTING_USERS["yahoo-r3"]
    yield "yahoo-r3-new-users", "Yahoo! R3, new users, random test", RANDOM_TEST, NEW_USERS["yahoo-r3"]
    for name, what in (("movielens-100k", "MovieLens 100K"), ("movielens-1m", "MovieLens 1M")):
        yield name, f"{what}, regular test", (*PER_ITEM, "ndcg", "mse"), REGULAR_TEST[name]


def _rows(cells: Sequence[Cell], metrics: Sequence[str], paper: PaperFigures) -> Iterator[str]:
    shown = metrics[: len(next(iter(paper.values()), ()))]
    heads = [NAMES[m] for m in metrics] + ["MSE, chosen by it"] + [f"paper: {NAMES[m]}" for m in shown]
    yield _line(["", *heads])
    yield _line(["---"] * (len(heads) + 1))
    for row in row_names(cells, "ndcg"):
        chosen = [("ndcg", m) for m in metrics] + [("mse", "mse")]
        # Popularity is a number of ratings: it ranks, and predicts none.
        ours = [
            "" if row == "popularity" and m.endswith(("mse", "mae")) else _shown(figure(cells, c, row, m))
            for c, m in chosen
        ]
        theirs = [f"{x:.3f}" for x in paper[row]] if row in paper else [""] * len(shown)
        yield _line([described(row), *ours, *theirs])


def _against_classical(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for outcome in OUTCOMES:
        classical = f"{outcome}-none"
        yield from ((row, classical) for row in names if row.startswith(outcome) and row != classical)


def _against_placebos(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for row in names:
        yield from ((row, f"{row}-{kind}") for kind in PLACEBOS if f"{row}-{kind}" in names)


def _differences(cells: Sequence[Cell], metrics: Sequence[str], pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield _line(["", *(NAMES[m] for m in metrics), "MSE, chosen by it"])
    yield _line(["---"] * (len(metrics) + 2))
    for row, against in pairs:
        differences = [_marked(difference(cells, "ndcg", row, against, m)) for m in metrics]
        name = f"{row} minus {against.removeprefix(f'{row}-')}" if against.startswith(f"{row}-") else row
        yield _line([described(name), *differences, _marked(difference(cells, "mse", row, against, "mse"))])


def _groups(cells: Sequence[Cell], metric: str) -> Iterator[str]:
    """Deconfounded minus classical by strata, where a side has more than one."""
    if f"{OUTCOMES[0]}-deconfounded" not in row_names(cells, "ndcg"):
        return
    common = [name for name in cells[0]["ndcg"]["groups"] if all(name in cell["ndcg"]["groups"] for cell in cells)]
    for side, what in (("user", "the users'"), ("item", "the items'")):
        groups = {n: cells[0]["ndcg"]["groups"][n]["ratings"] for n in common if n.startswith(side)}
        if len(groups) < 2:
            continue
        yield f"\nDeconfounded minus classical, {NAMES[metric]}, by {what} number of training ratings:\n"
        yield _line(["", *(f"{lowest} to {highest}" for lowest, highest in groups.values())])
        yield _line(["---"] * (len(groups) + 1))
        for outcome in OUTCOMES:
            rows = f"{outcome}-deconfounded", f"{outcome}-none"
            yield _line([outcome, *(_marked(difference(cells, "ndcg", *rows, metric, group)) for group in groups)])


def _write_csv(path: Path, cells: Sequence[Cell]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["chosen_by", "row", "metric", "value", "ci_low", "ci_high", "sd_over_seeds", "seeds"])
        for choice in ("ndcg", "mse"):
            for row in row_names(cells, choice):
                for metric in cells[0][choice]["metrics"][row]:
                    values = figure(cells, choice, row, metric)
                    table.writerow([choice, row, metric, *(f"{x:.5g}" for x in values), len(cells)])


# ---- sweeps


def _sweeps(profile: Profile, results: Results, output: Path) -> Iterator[str]:
    for name, of in profile.simulations.items():
        for sweep in SWEEPS:
            cells = _points(results, name, sweep)
            if not cells:
                continue
            density = min(cell["density"] for of_point in cells.values() for cell in of_point)
            runs = min(len(of_point) for of_point in cells.values())
            title = f"Simulation, {name} ({READINGS[of.reading]}), {of.size} x {of.size}"
            yield f"\n## {title}: the {sweep}\n"
            yield f"At least {density:.0%} of all pairs are rated; {runs} run{'s' if runs > 1 else ''} a point. Rows"
            yield "are chosen by what is shown: for the MSE by validation MSE, for the NDCG by validation NDCG. Test"
            yield "pairs are drawn from all pairs, as in the paper: those that are rated are in training, with the same"
            yield "rating.\n"
            yield from _pictures(cells, name, sweep, title, f"as the confounding of the {sweep} grows", output)
            yield from _sweep_table(cells, [*ROWS, *_BASELINES], f"{_AXES[sweep]}:")
            yield from _truth(of, sweep, cells)
        yield from _ranks(of, results, name)
        yield from _spreads(of, results, name, output)


def _pictures(
    cells: Mapping[float, Sequence[Cell]], name: str, sweep: str, title: str, what: str, output: Path
) -> Iterator[str]:
    for metric in ("mse", "ndcg"):
        picture = output / f"{name}-{sweep}-{metric}.png"
        plot = sweep_figure(cells, sweep, metric, metric, title)
        plot.savefig(picture, dpi=110, metadata={"Software": None})
        yield f"![{NAMES[metric]} {what}]({picture.name})\n"


def _points(results: Results, name: str, sweep: str) -> dict[float, list[Cell]]:
    start = f"{name}-{sweep}-"
    points: dict[float, list[Cell]] = defaultdict(list)
    for key, cells in results.items():
        if key.startswith(start):
            points[float(key.removeprefix(start))] += cells
    return dict(sorted(points.items()))


def _truth(of: OfSimulation, sweep: str, cells: Mapping[float, Sequence[Cell]]) -> Iterator[str]:
    """Two more lines of a sweep's table: what the truth says of its worlds."""
    truths = [[truth(of, Point(sweep, at, run)) for run in range(len(runs))] for at, runs in cells.items()]
    noise, variance, top = (np.mean([[world[n] for world in worlds] for worlds in truths], axis=1) for n in range(3))
    yield _line(
        [
            "MSE: noise alone (a bound for unrated pairs) / the true mean",
            *(f"{n:.3f} / {v:.3f}" for n, v in zip(noise, variance, strict=True)),
        ]
    )
    yield _line(["pairs whose rating is 5", *(f"{share:.0%}" for share in top)])


def _ranks(of: OfSimulation, results: Results, name: str) -> Iterator[str]:
    cells = _points(results, name, "rank")
    if not cells:
        return
    yield f"\n## Simulation, {name} ({READINGS[of.reading]}): the rank of the outcome model\n"
    yield f"The world where both sweeps meet, of {of.n_factors} factors.\n"
    yield from _sweep_table(cells, [row for row in ROWS if "ipw" not in row], "rank:")


def _spreads(of: OfSimulation, results: Results, name: str, output: Path) -> Iterator[str]:
    cells = _points(results, name, SPREAD)
    if not cells:
        return
    title = f"Simulation, between the readings, {of.size} x {of.size}, {of.n_factors} factors"
    runs = min(len(of_point) for of_point in cells.values())
    yield f"\n## {title}{', plain settings' if of.budget.plain else ''}\n"
    yield f"Another rate in place of the 0.3, where both sweeps meet; {runs} run{'s' if runs > 1 else ''} a point. Test"
    yield "pairs are drawn from all pairs and left out of the ratings."
    if of.budget.plain:
        yield from _plain_table(cells)
    else:
        yield ""
        yield from _pictures(cells, name, SPREAD, title, "as fewer pairs are rated", output)
        yield from _sweep_table(cells, [*ROWS, *_BASELINES], "rate:")
    yield _line(
        ["pairs rated", *(f"{np.mean([cell['density'] for cell in of_point]):.0%}" for of_point in cells.values())]
    )
    yield from _truth(of, SPREAD, cells)
    for metric in ("mse", "ndcg"):
        yield f"\n{NAMES[metric]}, against the classical row of the same outcome (bold: the interval leaves out 0; in"
        yield "parentheses the standard deviation over runs):\n"
        yield _line([f"{NAMES[metric]}, rate:", *(f"{at:g}" for at in cells)])
        yield _line(["---"] * (len(cells) + 1))
        for row in spread_rows(of):
            if row.name != f"{row.outcome}-none":
                against = (row.name, f"{row.outcome}-none", metric)
                yield _line([row.name, *(_marked(difference(runs, metric, *against)) for runs in cells.values())])


def _plain_table(cells: Mapping[float, Sequence[Cell]]) -> Iterator[str]:
    """Show what validation says next to what is true: it is made of pairs that users chose, the test is not."""
    yield f"Rank {PLAIN_RANK} in both stages; of all settings only one strength of the priors is chosen, by validation."
    yield "`global`: one gamma for all users; the placebos have that too. Validation is a part of what was rated.\n"
    yield _line(["MSE, validation / test; NDCG, test; rate:", *(f"{at:g}" for at in cells)])
    yield _line(["---"] * (len(cells) + 1))
    for name in (row.name for row in plain_rows()):
        figures = []
        for runs in cells.values():
            validation = np.mean([cell["choices"]["mse"][name]["validation"] for cell in runs])
            mse, ndcg = (figure(runs, metric, name, metric).value for metric in ("mse", "ndcg"))
            figures.append(f"{validation:.3f} / {mse:.3f}; {ndcg:.4f}")
        yield _line([described(name), *figures])
    for name in _BASELINES:
        means = [[figure(runs, metric, name, metric).value for metric in ("mse", "ndcg")] for runs in cells.values()]
        yield _line([name, *(f"{mse:.3f}; {ndcg:.4f}" for mse, ndcg in means)])


def _sweep_table(cells: Mapping[float, Sequence[Cell]], shown: Sequence[str], head: str) -> Iterator[str]:
    """MSE of the rows that were chosen by it, NDCG of those that were chosen by that."""
    heads = [f"{at:g}" for at in cells]
    yield _line([f"MSE / NDCG, {head}", *heads])
    yield _line(["---"] * (len(heads) + 1))
    for row in shown:
        values = [[figure(runs, metric, row, metric).value for metric in ("mse", "ndcg")] for runs in cells.values()]
        yield _line([row, *(f"{mse:.3f} / {ndcg:.4f}" for mse, ndcg in values)])


def _stopped(results: Results) -> Iterator[str]:
    for cell in results.get("coat-sweeps", []):
        yield "\n## Coat: stopped early\n\nThe settings of the first seed, stage 2 stopped after so many sweeps:\n"
        yield _line(["NDCG / MSE", *(f"{sweeps}" for sweeps in cell)])
        yield _line(["---"] * (len(cell) + 1))
        for row in ROWS:
            figures = [f"{of[row]['ndcg'][0]:.3f} / {of[row]['mse'][0]:.3f}" for of in cell.values()]
            yield _line([row, *figures])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _shown(of: Figure) -> str:
    return f"{of.value:.3f} [{of.low:.3f}, {of.high:.3f}]"


def _marked(of: Figure) -> str:
    text = f"{of.value:+.3f} [{of.low:+.3f}, {of.high:+.3f}]"
    marked = f"**{text}**" if of.leaves_out_zero else text
    return marked if isnan(of.sd) else f"{marked} ({of.sd:.3f})"
