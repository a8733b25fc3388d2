"""The study's page: how data are simulated, a table of errors and one of lists for each data set, and a forest plot.

Intervals are by Student's t over seeds. Of fewer than FEWEST seeds none claims a difference.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from scipy.stats import t as student

from dcrec_spark.plots.panels import ACCENT, FILL, INK, style
from studies.drawing import save_drawing
from studies.rows import BASELINE, BLEND, CMFREC, DEFAULT, MLLIB, PLACEBO

Cell = Mapping[str, Any]
Cells = Mapping[str, Sequence[Cell]]
CONFIDENCE, FEWEST = 0.95, 4
TITLES = {
    "coat": "Coat, random test",
    "fair-raises": "Simulated: exposure raises ratings",
    "fair-lowers": "Simulated: exposure lowers ratings",
    "fair-mixed": "Simulated: raises those of half of the users",
    "fair-none": "Simulated: nothing confounded",
    "fair-self-selection": "Simulated: users look at what they will like",
    "fair-single-item": "Simulated: a confounder for each item alone",
    "tail-raises": "Long tail: raises",
    "tail-lowers": "Long tail: lowers",
    "tail-none": "Long tail: nothing confounded",
    "paper": "The paper's simulation, 7 % rated",
    "ml-100k": "MovieLens 100K, ratings that users chose",
    "ml-1m": "MovieLens 1M, ratings that users chose",
}
MEASURES = {
    "mse": ("MSE", "{:.3f}"),
    "ndcg": ("NDCG", "{:.3f}"),
    "catalogue_ndcg@10": ("catalogue NDCG@10", "{:.3f}"),
    "catalogue_hit_rating@10": ("rating of the hits", "{:.2f}"),
    "catalogue_rarest_share@10": ("places with fewer than 3 ratings", "{:.1%}"),
    "catalogue_largest_share@10": ("lists with the most listed item", "{:.0%}"),
    "value": ("value of the lists", "{:.2f}"),
    "regret": ("regret", "{:.2f}"),
}
WORST_OF = {"fair": ("fair-raises", "fair-lowers", "fair-none"), "tail": ("tail-raises", "tail-lowers", "tail-none")}
_WITHOUT_INTERCEPT = "without intercept"
_PLOTTED = {
    DEFAULT: ACCENT,
    BLEND: FILL,
    MLLIB: INK,
    CMFREC: "#5a9e4b",
    _WITHOUT_INTERCEPT: "#857220",
    PLACEBO: "#b07cc6",
}
_LABELS = {
    DEFAULT: f"default: {DEFAULT}",
    PLACEBO: "placebo: default, its users and items shuffled",
    _WITHOUT_INTERCEPT: "without the confounder and an intercept",
}
_LOWEST, _HIGHEST = -60, 60
_HEAD = """# The study

Made by `python -m studies.run --data folder --output docs/studies`, not edited by hand. What follows from it is on \
the page of [findings](../explanation/findings.md). The units are in `studies/results/study.zip`.

* Every row tries equally many settings, its defaults and random draws: six, on MovieLens 1M the defaults alone. The \
best on validation, a random fifth of what is no test, is fitted to all ratings that are no test.
* Rows that predict ratings choose by the squared error, rows that only rank by NDCG@10 of their lists. Priors of ours \
are constant. MLlib's settings are chosen with our solver of its loss, and fitted by MLlib.
* *without the confounder* is `adjustment="none"`, *reconstruction* the paper's term alone, `a_hat`, with our biases. \
*logarithm* has the logarithm of `a_hat` in its place, and *factors and logarithm* is the default.
* *... users and items shuffled* is the model above it, its exposure factors dealt out to others: the placebo. With \
*items shuffled* alone the users' side of the composition is still true. It has the settings of the unshuffled model.
* *blend* mixes our rows, but for these two, with the weights that are best on validation.
* NDCG ranks each user's test items. Lists are the ten best unseen items of the whole catalogue. Value is the mean \
expected rating of their places, and regret what the best lists have more.
* Changes of the MSE are against the same model without the confounder, or against MLlib ALS: means over seeds, with \
the 95 % interval by Student's t over seeds. It is bold where it leaves out 0, with four seeds or more. Coat's seeds \
share one training set and one test, so its intervals do not cover other users and items."""
_SIMULATIONS = r"""
## How the data are simulated

All pairs get a potential rating \(y_{ui}\), and 40 random pairs of each user are the test. A recommender sees the \
other exposed pairs. The code is `studies/fair_simulation.py` and `studies/paper_simulation.py`. In the fair simulation

* \(m_u, q_i \sim \mathrm{Dirichlet}(0.1)\) are hidden segments, five of each, and \(z_{ui}\) is \(m_u \cdot q_i\), \
standardised over all pairs: the confounder.
* \(r_{ui} = s_u t_i (0.05 + m_u \cdot q_i)\) is the rate of exposure. Activity \(s_u\) and popularity \(t_i\) are \
lognormal, with standard deviations of the logarithm of 0.5 and 0.8.
* \(P(a_{ui} = 1) = 1 - \exp(-f \rho_{ui})\). One factor \(f\) brings 5 % of the pairs to exposure, on average.
* \(y_{ui} = 3.2 + b_u + c_i + \theta_u \cdot \beta_i + e_{ui} + \epsilon_{ui}\), rounded to 1, ..., 5. Standard \
deviations: both biases 0.4, \(\theta_u \cdot \beta_i\) with three factors 0.5, noise 0.9.

| data | effect of the confounder \(e_{ui}\) | rate \(\rho_{ui}\) |
| --- | --- | --- |
| raises | \(+0.7\, z_{ui}\) | \(r_{ui}\) |
| lowers | \(-0.7\, z_{ui}\) | \(r_{ui}\) |
| raises those of half of the users | \(\pm 0.7\, z_{ui}\), a random sign for each user | \(r_{ui}\) |
| nothing confounded | 0 | \(r_{ui}\) |
| users look at what they will like | 0 | \(r_{ui} \exp(0.7\, \tilde y_{ui})\) |
| a confounder for each item alone | \(0.7\, v_{ui}\) | \(r_{ui} \exp(v_{ui})\) |

Here \(\tilde y_{ui}\) is the standardised rating before rounding, and \(v_{ui} \sim \mathrm{N}(0, 1)\) for each pair.

The paper's simulation has ten factors, \(c_{uk}, \eta_{uk}, \beta_{ik} \sim \mathrm{Gamma}(0.3)\) of scale 0.3: \
\(a_{ui} = \min(\mathrm{Poisson}(c_u \cdot \beta_i), 1)\), and \
\(y_{ui} = \min(1 + \mathrm{Poisson}((0.6\, c_u + 0.4\, \eta_u + 3\, c_u) \cdot \beta_i), 5)\).

| | users x items | exposed | popularity |
| --- | --- | --- | --- |
| fair | 600 x 600 | 5 % | 0.8 |
| long tail: raises, lowers, nothing | 700 x 900 | 3 % | 1.6: a third of the items have three ratings or fewer |
| the paper's | 600 x 600 | 7 % | by \(\beta_i\) |

**Is exposure drawn from stage 1's model?** In the paper's simulation, yes, cut off at 1. In the first four fair ones \
its rate is a product of six nonnegative factors, which stage 1 can express, with other priors. Their effect is \
linear in \(m_u \cdot q_i\), which the default's slopes can come close to. So these four are of the kind that the \
method assumes. In the last two the rate has no such factors: they break its assumptions."""


class Change(NamedTuple):
    """Mean change over seeds in percent, its interval, NaN with one seed, and the number of seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def is_claimed(self) -> bool:
        """Whether there are seeds enough, and the interval leaves out 0."""
        return self.seeds >= FEWEST and (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        mean, low, high = (round(of, 1) + 0.0 for of in self[:3])  # no minus before a zero
        if self.seeds < 2:
            return f"{mean:+.1f} %"
        text = f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]"
        return f"**{text}**" if self.is_claimed else text


def change(cells: Sequence[Cell], row: str, against: str = BASELINE, measure: str = "mse") -> Change:
    """Compare a row with another, seed by seed."""
    percent = np.array([100.0 * (cell[row][measure] / cell[against][measure] - 1.0) for cell in cells])
    mean, n = float(percent.mean()), len(percent)
    if n < 2:
        return Change(mean, np.nan, np.nan, n)
    half = float(student.ppf((1 + CONFIDENCE) / 2, n - 1) * percent.std(ddof=1) / np.sqrt(n))
    return Change(mean, mean - half, mean + half, n)


def mean_of(cells: Sequence[Cell], row: str, measure: str) -> float:
    """Average a measure over the seeds that have the row. NaN where none has."""
    values = [cell[row][measure] for cell in cells if measure in cell.get(row, {})]
    return float(np.mean(values)) if values else np.nan


def write_page(cells: Cells, output: Path) -> Path:
    """Write README.md and changes.svg under ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    save_drawing(draw_changes(cells), output / "changes.svg")
    path = output / "README.md"
    path.write_text("\n".join(_lines(cells)) + "\n", encoding="utf-8")
    return path


def _lines(cells: Cells) -> Iterator[str]:
    yield _HEAD
    yield _SIMULATIONS.replace("\\\n", "")
    yield "\n![Change of the squared error against the same model without the confounder, by data set](changes.svg)\n"
    yield "*Dots are means over seeds with 95 % intervals, hollow ones a single seed. Arrows lie beyond the edge.*"
    for of, names in WORST_OF.items():
        if all(name in cells for name in names):
            kind = "Long tail" if of == "tail" else "Fair simulation"
            yield f"\n## {kind}: the worst of raises, lowers, nothing confounded\n"
            yield from _worst({name: cells[name] for name in names})
    for name, title in TITLES.items():
        if name in cells:
            yield f"\n## {title}\n"
            yield f"{len(cells[name])} seed{'s' if len(cells[name]) > 1 else ''}.\n"
            yield from _section(cells[name])


def _section(cells: Sequence[Cell]) -> Iterator[str]:
    of_lists = [name for name in MEASURES if name in cells[0][BASELINE] and name != "mse"]
    predicts = [row for row in cells[0] if "mse" in cells[0][row]]
    yield from table(
        ["", "MSE", "change of the MSE", "against MLlib ALS"],
        ([row, _figure(mean_of(cells, row, "mse"), "mse"), *_changes(cells, row)] for row in predicts),
    )
    yield from _folded(
        "Orders and lists",
        ["", *(MEASURES[name][0] for name in of_lists)],
        ([row, *(_figure(mean_of(cells, row, name), name) for name in of_lists)] for row in cells[0]),
    )


def _folded(title: str, heads: Sequence[str], rows: Iterator[list[str]]) -> Iterator[str]:
    yield f'\n<details markdown="1"><summary>{title}</summary>\n'
    yield from table(heads, rows)
    yield "\n</details>"


def _changes(cells: Sequence[Cell], row: str) -> list[str]:
    return [
        str(change(cells, row, against)) if row != against and against in cells[0] else ""
        for against in (BASELINE, MLLIB)
    ]


def _worst(cells: Cells) -> Iterator[str]:
    first, kinds = next(iter(cells.values()))[0], [name.partition("-")[2] for name in cells]

    def lines(measure: str, worst: Callable[[Sequence[float]], float]) -> Iterator[list[str]]:
        for row in first:
            if measure in first[row]:
                values = [mean_of(of, row, measure) for of in cells.values()]
                yield [row, *(_figure(of, measure) for of in (*values, worst(values)))]

    yield from table(["MSE", *kinds, "worst"], lines("mse", max))
    yield from _folded("Value of the lists", ["value", *kinds, "worst"], lines("value", min))


def _figure(value: float, measure: str) -> str:
    return "" if np.isnan(value) else MEASURES[measure][1].format(value)


def table(heads: Sequence[str], rows: Iterator[list[str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    for cells in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def draw_changes(cells: Cells) -> Picture:
    """Draw the forest plot: a line for each data set, in it a point and interval for each row."""
    names = [name for name in TITLES if name in cells][::-1]
    picture = Picture(figsize=(6.2, 1.2 + 0.62 * len(names)), layout="constrained")
    picture.patch.set_alpha(0.0)
    axes = picture.subplots()
    for number, (row, colour) in enumerate(_PLOTTED.items()):
        for at, name in enumerate(names):
            if "mse" in cells[name][0].get(row, {}):
                _draw_change(axes, change(cells[name], row), at + 0.32 - 0.13 * number, colour)
        axes.plot([], [], "o", color=colour, markersize=4, label=_LABELS.get(row, row))
    axes.axvline(0.0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(names)), [fill(TITLES[name], 20) for name in names])
    axes.set_xlim(_LOWEST, _HIGHEST)
    axes.set_xlabel("change of the squared error, % (left is better)")
    style(axes)
    picture.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8, labelcolor=INK)
    return picture


def _draw_change(axes: Axes, of: Change, height: float, colour: str) -> None:
    """Draw a dot and its interval: hollow with one seed, an arrow at the edge for what lies beyond it."""
    if abs(of.mean) > _HIGHEST:
        axes.plot(_HIGHEST * 0.985, height, ">", color=colour, markersize=5)
        axes.annotate(f"{of.mean:+.0f} %", (_HIGHEST * 0.95, height), color=colour, fontsize=7, ha="right", va="center")
        return
    fill = colour if of.seeds > 1 else "white"
    half = np.nan_to_num(of.high - of.mean)
    axes.errorbar(of.mean, height, xerr=half, fmt="o", markersize=4, color=colour, mfc=fill, linewidth=1.2)
