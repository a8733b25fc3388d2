"""The paper's studies as one page of Markdown with pictures."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure as Picture

from dcrec_spark.report.figures import ACCENT, FILL, INK
from studies.paper import ADJUSTMENTS, EXISTING_USERS, NEW_USERS, OUTCOMES, PER_ITEM, RANDOM_TEST, REGULAR_TEST, ROWS
from studies.paper import Figures as PaperFigures
from studies.paper_simulation import Reading
from studies.profiles import SPREAD, SWEEPS, OfSimulation, Point, Profile, truth
from studies.rows import PLACEBOS, PLAIN_RANK, describe
from studies.summary import FEWEST_SEEDS, NAMES, Figure, difference, figure, made_by, row_names, table
from studies.units import Cell

READINGS: dict[Reading, str] = {"rate": "0.3 a rate", "scale": "0.3 a scale"}
_BASELINES = ("global-mean", "item-mean")  # those without a model that predict
_SYMBOLS = {"preference": "g_theta", "outcome": "g_y"}
_AXES = {
    "preference": r"confounding of the preference, $g_\theta$",
    "outcome": r"confounding of the rating, $g_y$",
    SPREAD: "rate of the Gamma draws",
}
_LINES = {"none": (INK, "o", "classical"), "ipw": (FILL, "s", "IPW"), "deconfounded": (ACCENT, "^", "deconfounded")}
Results = Mapping[str, Sequence[Cell]]
Points = Mapping[float, Sequence[Cell]]


def write_page(profile: Profile, results: Results, output: Path, command: str, missing: Sequence[str] = ()) -> Path:
    """Write README.md and pictures under ``output``.

    results : data set -> cells by seed; "dense-outcome-3.0" -> cells by run. missing : units without a result, which
    the page names.
    """
    output.mkdir(parents=True, exist_ok=True)
    lines = [*_head(profile, command, missing), *_data_sets(results), *_simulations(profile, results, output)]
    path = output / "README.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _head(profile: Profile, command: str, missing: Sequence[str]) -> Iterator[str]:
    yield f"# The studies\n\n{made_by(command)}\n"
    yield from (f"* Cut: {what}" for what in profile.cut)
    if missing:
        yield f"* Not finished: {', '.join(missing)}."
    yield (
        "\nFigures are means over seeds, in brackets the 95 % bootstrap interval over users, items and seeds of the "
        "test. Equal scores share their ranks. Rows choose their settings by validation NDCG (where it "
        "says so, by validation MSE) out of equally many draws. The chosen ones are fitted to training and validation. "
        "The last columns are the paper's."
    )


# ---- data sets


def _data_sets(results: Results) -> Iterator[str]:
    for name, heading, metrics, paper in _studies():
        cells = results.get(name)
        if not cells:
            continue
        yield f"\n## {heading}\n\n{len(cells)} seed{'s' if len(cells) > 1 else ''}, {cells[0]['test']:,} test ratings"
        yield f"of {cells[0]['items']:,} items, over which errors by item are means. {cells[0]['items_missing']:,} more"
        yield "test items have no training rating, and are left out.\n"
        yield from _rows(cells, metrics, paper)
        names = row_names(cells, "ndcg")
        yield "\nAgainst the classical row of the same outcome:\n"
        classical = [(row, f"{o}-none") for o in OUTCOMES for row in names if row.startswith(o) and row != f"{o}-none"]
        yield from _differences(cells, metrics, classical)
        if placebos := [(row, f"{row}-{kind}") for row in names for kind in PLACEBOS if f"{row}-{kind}" in names]:
            yield "\nDeconfounded against its placebos, the items of `a_hat` shuffled or popularity in its place:\n"
            yield from _differences(cells, metrics, placebos)
        yield f"\nBold: the interval of {FEWEST_SEEDS} seeds or more excludes 0; in parentheses the standard deviation"
        yield "over them."
        yield from _groups(cells, metrics[0])


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
    heads = ["", *(NAMES[m] for m in metrics), "MSE, chosen by it", *(f"paper: {NAMES[m]}" for m in shown)]
    chosen = [*(("ndcg", m) for m in metrics), ("mse", "mse")]

    def line(row: str) -> list[str]:
        # Popularity is a number of ratings: it ranks, and predicts none.
        hidden = row == "popularity"
        ours = ["" if hidden and m.endswith(("mse", "mae")) else figure(cells, c, row, m).as_text() for c, m in chosen]
        return [describe(row), *ours, *([f"{x:.3f}" for x in paper[row]] if row in paper else [""] * len(shown))]

    yield from table(heads, map(line, row_names(cells, "ndcg")))


def _differences(cells: Sequence[Cell], metrics: Sequence[str], pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    chosen = [*(("ndcg", m) for m in metrics), ("mse", "mse")]

    def line(pair: tuple[str, str]) -> list[str]:
        row, against = pair
        name = f"{row} minus {against.removeprefix(f'{row}-')}" if against.startswith(f"{row}-") else row
        return [describe(name), *(_with_sd(difference(cells, by, row, against, m)) for by, m in chosen)]

    yield from table(["", *(NAMES[m] for m in metrics), "MSE, chosen by it"], map(line, pairs))


def _groups(cells: Sequence[Cell], metric: str) -> Iterator[str]:
    """Deconfounded minus classical by strata, where a side has more than one."""
    if f"{OUTCOMES[0]}-deconfounded" not in row_names(cells, "ndcg"):
        return
    groups = cells[0]["ndcg"]["groups"]
    for side in ("user", "item"):
        names = [n for n in groups if n.startswith(side) and all(n in cell["ndcg"]["groups"] for cell in cells)]
        if len(names) < 2:
            continue
        yield f"\nDeconfounded minus classical, {NAMES[metric]}, by the {side}s' number of training ratings:\n"
        pairs = {outcome: (f"{outcome}-deconfounded", f"{outcome}-none") for outcome in OUTCOMES}
        yield from table(
            ["", *("{} to {}".format(*groups[name]["ratings"]) for name in names)],
            ([o, *(_with_sd(difference(cells, "ndcg", *pairs[o], metric, name)) for name in names)] for o in OUTCOMES),
        )


def _with_sd(of: Figure) -> str:
    return of.as_text("+") if isnan(of.sd) else f"{of.as_text('+')} ({of.sd:.3f})"


# ---- simulations


def _simulations(profile: Profile, results: Results, output: Path) -> Iterator[str]:
    for name, of in profile.simulations.items():
        for sweep in SWEEPS:
            if not (points := _points(results, name, sweep)):
                continue
            least = min(cell["density"] for cells in points.values() for cell in cells)
            title = f"Simulation, {name} ({READINGS[of.reading]}), {of.size} x {of.size}"
            yield f"\n## {title}: the {sweep}\n\nAt least {least:.0%} of all pairs are rated; {_runs(points)} a point."
            yield "Rows are chosen by what is shown: for the MSE by validation MSE, for the NDCG by validation NDCG."
            yield "Test pairs are drawn from all pairs, as in the paper: rated ones are in training, with the same"
            yield "rating.\n"
            yield from _pictures(points, name, sweep, title, f"as the confounding of the {sweep} grows", output)
            yield from _sweep_table(of, sweep, points, [*ROWS, *_BASELINES], _SYMBOLS[sweep])
        yield from _spreads(of, results, name, output)


def _points(results: Results, name: str, sweep: str) -> Points:
    start = f"{name}-{sweep}-"
    points: dict[float, list[Cell]] = defaultdict(list)
    for key, cells in results.items():
        if key.startswith(start):
            points[float(key.removeprefix(start))] += cells
    return dict(sorted(points.items()))


def _runs(points: Points) -> str:
    runs = min(len(cells) for cells in points.values())
    return f"{runs} run{'s' if runs > 1 else ''}"


def _sweep_table(of: OfSimulation, sweep: str, points: Points, rows: Sequence[str], symbol: str) -> Iterator[str]:
    """MSE of the rows that were chosen by it, NDCG of those that were chosen by that; and what the truth says."""

    def values(row: str, cells: Sequence[Cell]) -> str:
        mse, ndcg = (figure(cells, metric, row, metric).value for metric in ("mse", "ndcg"))
        return f"{mse:.3f} / {ndcg:.4f}"

    lines = [[describe(row) if of.budget.plain else row, *(values(row, c) for c in points.values())] for row in rows]
    truths = [np.mean([truth(of, Point(sweep, at, run)) for run in range(len(c))], axis=0) for at, c in points.items()]
    noise = "MSE: noise alone (a bound for unrated pairs) / the true mean"
    lines.append([noise, *(f"{t[0]:.3f} / {t[1]:.3f}" for t in truths)])
    lines.append(["pairs whose rating is 5", *(f"{t[2]:.0%}" for t in truths)])
    lines.append(["pairs rated", *(f"{np.mean([cell['density'] for cell in c]):.0%}" for c in points.values())])
    yield from table([f"MSE / NDCG, {symbol}:", *(f"{at:g}" for at in points)], lines)


def _spreads(of: OfSimulation, results: Results, name: str, output: Path) -> Iterator[str]:
    if not (points := _points(results, name, SPREAD)):
        return
    title = f"Simulation, between the readings, {of.size} x {of.size}, {of.n_factors} factors"
    yield f"\n## {title}{', plain settings' if of.budget.plain else ''}\n"
    yield f"Another rate in place of the 0.3, where both sweeps meet; {_runs(points)} a point. Test pairs are drawn"
    yield "from all pairs and left out of the ratings.\n"
    rows = [row.name for row in of.rows_of(SPREAD)]
    if of.budget.plain:
        yield f"Rank {PLAIN_RANK} in both stages. Validation chooses one strength of the priors and nothing else.\n"
    else:
        yield from _pictures(points, name, SPREAD, title, "as fewer pairs are rated", output)
    shown = rows if of.budget.plain else ROWS
    yield from _sweep_table(of, SPREAD, points, [*shown, *_BASELINES], "rate")
    pairs = [(row, f"{row.split('-')[0]}-none") for row in rows if not row.endswith("-none")]
    for metric in ("mse", "ndcg"):
        yield f"\n{NAMES[metric]}, against the classical row of the same outcome (bold: the interval excludes 0; in"
        yield "parentheses the standard deviation over runs):\n"
        yield from table(
            [f"{NAMES[metric]}, rate:", *(f"{at:g}" for at in points)],
            ([p[0], *(_with_sd(difference(c, metric, *p, metric)) for c in points.values())] for p in pairs),
        )


def _pictures(points: Points, name: str, sweep: str, title: str, what: str, output: Path) -> Iterator[str]:
    for metric in ("mse", "ndcg"):
        path = output / f"{name}-{sweep}-{metric}.png"
        draw_sweep(points, sweep, metric, title).savefig(path, dpi=110, metadata={"Software": None})
        yield f"![{NAMES[metric]} {what}]({path.name})\n"


def draw_sweep(points: Points, sweep: str, metric: str, title: str) -> Picture:
    """Draw the paper's figure: a panel for each outcome model, a line for each adjustment, a band of one sd."""
    picture = Picture(figsize=(10.0, 3.4), layout="constrained")
    picture.patch.set_alpha(0.0)
    at = sorted(points)
    for axes, outcome in zip(picture.subplots(1, len(OUTCOMES)), OUTCOMES, strict=True):
        axes.patch.set_alpha(0.0)
        for adjustment in ADJUSTMENTS:
            row, (colour, marker, label) = f"{outcome}-{adjustment}", _LINES[adjustment]
            runs = [[cell[metric]["metrics"][row][metric][0] for cell in points[x]] for x in at]
            mean = np.array([np.mean(run) for run in runs])
            sd = np.array([np.std(run, ddof=min(1, len(run) - 1)) for run in runs])
            axes.plot(at, mean, color=colour, marker=marker, markersize=4, label=label)
            axes.fill_between(at, mean - sd, mean + sd, color=colour, alpha=0.2, linewidth=0)
        axes.set_title(outcome, color=INK, fontsize=10)
        axes.set_xlabel(_AXES[sweep], color=INK, fontsize=9)
        axes.set_ylabel(NAMES[metric], color=INK, fontsize=9)
        axes.tick_params(colors=INK, labelsize=8)
        axes.spines[:].set_color(INK)
    picture.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, labelcolor=INK, frameon=False
    )
    picture.suptitle(title, color=INK, fontsize=11)
    return picture
