"""Pictures of a model and its lists, as matplotlib Figures.

Each function reads small aggregates of the frames that it is given, and returns a Figure. Save it with
``figure.savefig("picture.svg")``, or let a notebook show it. Backgrounds are transparent.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dcrec_spark.data.quoting import quoted
from dcrec_spark.errors import ConfigError
from dcrec_spark.evaluation.distributions import histogram as count_values
from dcrec_spark.evaluation.result import Metrics
from dcrec_spark.models.exposure.predictive_check import PredictiveCheck
from dcrec_spark.models.outcome.blend import BlendModel
from dcrec_spark.models.outcome.model import DeconfoundedMFModel
from dcrec_spark.plots.panels import ACCENT, FILL, INK, draw_log_likelihoods, draw_p_values, histogram, panel

# Half-width of a 95 % interval of a mean, in standard errors.
_NORMAL = 1.96


def plot_predictive_check(check: PredictiveCheck, bins: int = 20) -> Figure:
    """Draw a predictive check: users' p-values, and the observed log-likelihood among the replicated ones.

    check : result of ``PoissonFactorizationModel.predictiveCheck``. bins : bars of the histogram of p-values.
    Returns two panels, 9 by 3.6 inches. Save it with ``figure.savefig("check.svg")``.
    """
    with panel((9.0, 3.6), 2) as (figure, (users, overall)):
        draw_p_values(users, check, check.histogram(bins))
        draw_log_likelihoods(overall, check)
    figure.suptitle(f"Exposure predictive check ({check.verdict})", color=INK, fontsize=11)
    return figure


def plot_confounding(model: DeconfoundedMFModel | BlendModel, ratings: DataFrame, bins: int = 10) -> Figure:
    """Draw the mean rating of pairs with small and large ``a_hat``: a slope is confounding, or taste.

    ratings : the columns of training. bins : groups of equally many ratings, by ``a_hat``.
    Raises ConfigError: the model has no exposure model.
    """
    exposure, rating = model.exposureModel, quoted(model.getOrDefault("ratingCol")).cast("double")
    if exposure is None:
        raise ConfigError("the model has no exposure model; expected one that was fitted with adjustment=deconfounded")
    scored = exposure.transform(ratings).select(F.col("a_hat"), rating.alias("rating"))
    ends = scored.approxQuantile("a_hat", list(np.linspace(0, 1, bins + 1)[1:-1]), 0.001)
    group = sum((F.col("a_hat") > end).cast("int") for end in ends)
    sums = F.avg("a_hat"), F.avg("rating"), F.stddev("rating") / F.sqrt(F.count("*"))
    found = scored.groupBy(F.lit(group).alias("group")).agg(*sums).orderBy("group").toPandas()
    _, exposed, mean, error = (found.iloc[:, at].to_numpy(float) for at in range(4))
    with panel() as (figure, axes):
        axes.errorbar(exposed, mean, _NORMAL * np.nan_to_num(error), color=FILL, marker="o", markersize=5, linewidth=2)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set(xlabel="expected number of exposures of the pair (a_hat)", ylabel="mean rating of the pairs")
    return figure


def plot_gamma(model: DeconfoundedMFModel) -> Figure:
    """Draw the distribution of the users' confounder weights, gamma_u."""
    return histogram(count_values(model.userFactors, "gamma"), "confounder weight gamma", "users")


def plot_lists(lists: Mapping[str, Sequence[str] | Mapping[str, float]]) -> Figure:
    """Draw lists for one user side by side. A line connects an item that is in neighbouring lists.

    lists : name of a model -> titles, best first, or title -> score.
    """
    with panel((3.6 * len(lists), 0.6 + 0.26 * max(map(len, lists.values())))) as (figure, axes):
        names = list(lists)
        for at, name in enumerate(names):
            before, scores = list(lists[names[at - 1]]) if at else [], lists[name]
            for rank, title in enumerate(scores):
                is_shared = any(title in lists[other] for other in names if other != name)
                score = f"{scores[title]:.1f}" if isinstance(scores, Mapping) else str(rank + 1)
                text = f"{score}  {shorten(title, 30, placeholder='...')}"
                axes.text(at, -rank, text, color=INK if is_shared else ACCENT, fontsize=9, va="center")
                if title in before:
                    axes.plot([at - 0.3, at - 0.03], [-before.index(title), -rank], color=INK, alpha=0.5, linewidth=1)
        axes.set(xlim=(-0.05, len(names) - 0.1), ylim=(-max(map(len, lists.values())) + 0.4, 0.6), yticks=[])
        axes.set_xticks([at + 0.3 for at in range(len(names))], names)
        axes.xaxis.tick_top()
    for spine in figure.axes[0].spines.values():
        spine.set_visible(False)
    figure.axes[0].tick_params(length=0)
    return figure


def plot_score(explained: Mapping[str, object], names: Mapping[object, str] | None = None) -> Figure:
    """Draw what a score adds up from, as a waterfall.

    explained : a row of :meth:`DeconfoundedMFModel.explain`, such as ``frame.first().asDict(recursive=True)``.
    names : id -> title of the rated items. None: their ids.
    """
    row, titles = {**explained}, names or {}
    reasons = [(titles.get(of["item_id"], str(of["item_id"])), of["contribution"]) for of in row["reasons"]]  # type: ignore[attr-defined]
    parts = [(name, row[name]) for name in ("intercept", "user_bias", "item_bias", "features", "baseline")]
    parts += [*reasons, ("other ratings", row["others"]), ("confounder", row["confounder"])]
    shown = [(name.replace("_", " "), float(value)) for name, value in parts if value]  # type: ignore[arg-type]
    ends = np.cumsum([value for _, value in shown])
    with panel((5.5, 0.8 + 0.28 * len(shown))) as (figure, axes):
        for place, ((_, value), end) in enumerate(zip(shown, ends, strict=True)):
            colour = ACCENT if shown[place][0] == "confounder" else FILL
            axes.barh(-place, value, left=end - value, color=colour, height=0.7)
            axes.annotate(f"{value:+.2f}", (max(end, end - value), -place), (3, 0), color=INK, fontsize=8,
                          textcoords="offset points", va="center")  # fmt: skip
        axes.axvline(float(ends[-1]), color=INK, linewidth=1, linestyle=":")
        axes.set_yticks(-np.arange(len(shown)), [name for name, _ in shown])
        axes.margins(x=0.15)
        axes.set_xlabel(f"score {row['score']:.2f}")
    return figure


def plot_popularity(lists: Mapping[str, DataFrame], ratings: DataFrame, item: str = "item") -> Figure:
    """Draw how popular the listed items are, and those that users rated.

    lists : name -> a frame with a column ``item_id``, a row for each place of a list.
    ratings : those of training, with the column ``item``.
    """
    counts = ratings.groupBy(quoted(item).alias("item_id")).agg(F.count("*").alias("n"))
    rated = counts.select(F.floor(F.log2("n")).alias("power"), F.col("n").alias("places"))
    frames = {"ratings": rated} | {
        name: frame.groupBy("item_id").agg(F.count("*").alias("places")).join(counts, "item_id", "left")
        .select(F.floor(F.log2(F.coalesce("n", F.lit(1)))).alias("power"), "places")
        for name, frame in lists.items()
    }  # fmt: skip
    shares = {}
    for name, frame in frames.items():
        of = frame.groupBy("power").agg(F.sum("places").alias("places")).toPandas().set_index("power").places
        shares[name] = of / of.sum()
    table = pd.DataFrame(shares).fillna(0.0).sort_index()
    with panel((5.5, 2.8)) as (figure, axes):
        width = 0.8 / len(table.columns)
        for at, (kind, column) in enumerate(table.items()):
            colour = INK if kind == "ratings" else (ACCENT, FILL)[at % 2]
            left = np.arange(len(table)) + at * width
            axes.bar(left, column, width, color=colour, alpha=0.5 if at > 2 else 1.0, label=str(kind), align="edge")
        axes.set_xticks(np.arange(len(table)) + 0.4, [f"{2 ** int(power):,}" for power in table.index])
        axes.set(xlabel="training ratings of the item, from", ylabel="share of the places")
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def plot_models(metrics: Metrics, error: str = "mse", lists: str = "ndcg") -> Figure:
    """Draw the error of each model against the quality of its lists.

    metrics : as :func:`dcrec_spark.evaluate` returns them, joined with :meth:`Metrics.join` where they are two.
    error, lists : names of two measures.
    """
    points = {
        name: (metrics.estimates(name)[error].value, metrics.estimates(name)[lists].value) for name in metrics.scores
    }
    with panel((5.5, 3.2)) as (figure, axes):
        for place, (name, point) in enumerate(points.items()):
            axes.plot(*point, "o", color=FILL if place else ACCENT, markersize=6)
            axes.annotate(name, point, (5, 4), textcoords="offset points", color=INK, fontsize=9)
        axes.set(xlabel=f"{error} (smaller is better)", ylabel=f"{lists} (larger is better)")
        axes.margins(0.2)
    return figure
