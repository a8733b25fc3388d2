"""What the model was fitted to, and whether the fits are to be trusted: data, convergence, predictive check."""

import pandas as pd

from dcrec_spark.report import figures
from dcrec_spark.report.blocks import Block, Cell, Note, Picture, Pictures, Points, Section, Table, Text, cells, picture
from dcrec_spark.report.facts import CheckFacts, Counts, ReportFacts, Stage
from dcrec_spark.report.words import number, plural, share

POWERS = "Each bar goes from its number to just below the next: 1, 2 to 3, 4 to 7, and so on."


def data(facts: ReportFacts) -> Section:
    """Ratings that the model learned from, and ratings that it is judged by."""
    ratings = facts.data
    rows = [_counts("training", ratings.training), _counts("test", ratings.test)]
    left_out = [
        f"{plural(ratings.overlap, 'test rating')} of pairs that are in training too "
        f"{'was' if ratings.overlap == 1 else 'were'} dropped.",
        f"{plural(ratings.unknown, 'test rating')} of users or items that a model does not know "
        f"{'was' if ratings.unknown == 1 else 'were'} left out, for all rows of the comparison alike.",
    ]
    table = Table("Ratings that were used", ["", "users", "items", "ratings", "mean", "deviation"], rows)
    density = f"In training {share(ratings.density)} of all pairs of a user and an item are rated."
    shown = [
        _values("training", ratings.training, "Each bar counts the ratings of one value, or of a range of values."),
        _values("test", ratings.test, "Where it differs from training in shape, the test was not drawn like that."),
        _activity("user", "Activity of users", ratings.per_user, "The model knows little of users on the left."),
        _activity(
            "item",
            "Exposure of items",
            ratings.per_item,
            "A long way from left to right means that few items get most of the exposures.",
        ),
    ]
    sentences = [*left_out, *(text for text in shown if isinstance(text, str))]
    pictures = [part for part in shown if isinstance(part, Picture)]
    return Section("data", "Data", [Text(density), table, Points(sentences), Pictures(pictures)])


def _values(name: str, of: Counts, reading: str) -> Picture | str:
    """Distribution of the ratings' values; in words where there is one value."""
    if figures.has_one_bar(of.ratings.bars):
        return f"All {name} ratings are {of.ratings.mean:g}."
    figure = figures.distribution(of.ratings, "rating", "ratings")
    return picture(figure, f"{name}-ratings", f"{name.capitalize()} ratings", reading)


def _activity(side: str, title: str, counts: pd.DataFrame, reading: str) -> Picture | str:
    """Users, or items, by how many training ratings they have; in words where all have alike."""
    if figures.has_one_bar(counts):
        return one_bar(counts, f"{side}s", "training ratings")
    figure = figures.powers(counts, f"training ratings of each {side}, from", f"{side}s")
    return picture(figure, f"per-{side}", title, f"{POWERS} {reading}")


def one_bar(counts: pd.DataFrame, units: str, what: str) -> str:
    """Sentence in place of a picture whose bars are all empty but one; counts : low, high, n.

    Examples
    --------
    >>> one_bar(pd.DataFrame({"low": [16], "high": [31], "n": [290]}), "users", "training ratings")
    'All 290 users have 16 to 31 training ratings.'
    """
    filled = counts[counts.n > 0]
    if filled.empty:
        return f"There are no {units}."
    low, high, n = int(filled.low.iloc[0]), int(filled.high.iloc[0]), int(filled.n.iloc[0])
    return f"All {n:,} {units} have {low if low == high else f'{low} to {high}'} {what}."


def _counts(name: str, of: Counts) -> list[Cell]:
    ratings = of.ratings
    return cells(
        name, f"{of.users:,}", f"{of.items:,}", f"{ratings.n:,}", number(ratings.mean, 2), number(ratings.deviation, 2)
    )


def convergence(facts: ReportFacts) -> Section:
    """Objectives of both stages, and whether they settled."""
    blocks: list[Block] = [Points([settled(stage) for stage in facts.stages])]
    if facts.adjustment != "deconfounded":
        blocks.append(Text(f"This model has no exposure stage: its adjustment is {facts.adjustment}."))
    pictures = []
    for stage in facts.stages:
        way = "only ever rises" if stage.rises else "only ever falls"
        pictures.append(
            picture(
                figures.objective(stage),
                f"{stage.name}-objective",
                f"{stage.name.capitalize()} stage",
                f"The objective ({stage.objective}) after each iteration. It {way}, and is flat where the fit "
                "has settled.",
            )
        )
        if len(stage.values) > 1:
            pictures.append(
                picture(
                    figures.settling(stage),
                    f"{stage.name}-settling",
                    f"{stage.name.capitalize()} stage: what is left",
                    "How much each iteration changed the objective, on a logarithmic scale. Below the line the fit "
                    "counts as settled.",
                )
            )
    return Section("convergence", "Convergence", [*blocks, Pictures(pictures)])


def has_settled(stage: Stage) -> bool:
    """Whether the last iteration changed the objective by less than the tolerance."""
    return len(stage.values) > 1 and float(figures.relative_changes(stage)[-1]) < stage.tol


def settled(stage: Stage) -> str:
    """Sentence on whether a stage's fit ended by itself."""
    name = f"{stage.name.capitalize()} stage: {plural(len(stage.values), 'iteration')}"
    if len(stage.values) < 2:
        return f"{name}; with so few nothing can be said about convergence."
    last = float(figures.relative_changes(stage)[-1])
    if has_settled(stage):
        return f"{name}; settled, as the last relative change, {last:.1e}, is below tol = {stage.tol:g}."
    return (
        f"{name}; not settled: the last relative change, {last:.1e}, is not below tol = {stage.tol:g} (max_iter = "
        f"{stage.max_iter})."
    )


def check(facts: ReportFacts) -> Section:
    """Whether the substitute confounder a_hat may be trusted."""
    name, title = "check", "Exposure predictive check"
    if not isinstance(facts.check, CheckFacts):
        return Section(name, title, [Note(facts.check)])
    result = facts.check.result
    procedure = (
        f"{share(facts.check.share)} of the training exposures were held out, the exposure model was fitted anew to "
        "the rest with the settings of the saved one, and the held-out exposures were compared with draws from that "
        "fit. So what is checked is a model with these settings on these data, not the saved factors themselves, which "
        "have seen everything. a_hat, the substitute confounder, is worth what this model is worth."
    )
    verdict = f"{result.verdict[0].upper()}{result.verdict[1:]}."
    rows = [
        cells("of all users together", number(result.pValue)),
        cells("of the spread between users", number(result.spreadPValue)),
        cells("mean over the users", number(result.meanUserPValue)),
    ]
    pictures = [
        picture(
            figures.p_values(facts.check),
            "check-p-values",
            "Users' p-values",
            "Flat along the line: the model is right about users. A heap on the left: it is too sure of itself; on the "
            "right: it spreads exposures over too many items.",
        ),
        picture(
            figures.log_likelihoods(facts.check),
            "check-likelihood",
            "Likelihood of the held-out exposures",
            "The line is what really happened, the bars are what the model would have made happen. The line should "
            "stand among the bars.",
        ),
    ]
    caption = (
        f"p-values from {plural(result.n, 'held-out exposure')} of {plural(result.numUsers, 'user')}; 0.5 is the middle"
    )
    blocks: list[Block] = [Note(verdict), Text(procedure), Table(caption, ["", "p-value"], rows), Pictures(pictures)]
    return Section(name, title, blocks)
