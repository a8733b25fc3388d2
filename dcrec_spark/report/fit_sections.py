"""What the model was fitted to, and whether the fits are to be trusted: data, convergence, predictive check."""

from dcrec_spark.report import figures
from dcrec_spark.report.blocks import Block, Cell, Note, Pictures, Points, Section, Table, Text, cells, picture
from dcrec_spark.report.facts import CheckFacts, Counts, ReportFacts, Stage
from dcrec_spark.report.words import number, plural, share


def data(facts: ReportFacts) -> Section:
    """What was learned from, and what is judged by."""
    found = facts.data
    rows = [_counts("training", found.training), _counts("test", found.test)]
    left_out = [
        f"{plural(found.overlap, 'test rating')} of pairs that are in training too "
        f"{'was' if found.overlap == 1 else 'were'} dropped.",
        f"{plural(found.unknown, 'test rating')} of users or items that a model does not know "
        f"{'was' if found.unknown == 1 else 'were'} left out, for all rows of the comparison alike.",
    ]
    pictures = [
        picture(
            figures.distribution(found.training.ratings, "rating", "ratings"),
            "training-ratings",
            "Training ratings",
            "Each bar counts the ratings of one value, or of a range of values.",
        ),
        picture(
            figures.distribution(found.test.ratings, "rating", "ratings"),
            "test-ratings",
            "Test ratings",
            "The same for the test. Where the two differ in shape, the test was not drawn like the training.",
        ),
        picture(
            figures.powers(found.per_user, "training ratings of a user, from", "users"),
            "per-user",
            "Activity of users",
            "Each bar goes from its number to just below the next: 1, 2 to 3, 4 to 7, and so on. Users on the left "
            "have told the model little.",
        ),
        picture(
            figures.powers(found.per_item, "training ratings of an item, from", "items"),
            "per-item",
            "Exposure of items",
            "Bars as for users. A long way from left to right means that few items get most of the exposures.",
        ),
    ]
    table = Table("Ratings that were used", ["", "users", "items", "ratings", "mean", "deviation"], rows)
    density = f"In training {share(found.density)} of all pairs of a user and an item are rated."
    return Section("data", "Data", [Text(density), table, Points(left_out), Pictures(pictures)])


def _counts(name: str, of: Counts) -> list[Cell]:
    ratings = of.ratings
    return cells(
        name, f"{of.users:,}", f"{of.items:,}", f"{ratings.n:,}", number(ratings.mean, 2), number(ratings.deviation, 2)
    )


def convergence(facts: ReportFacts) -> Section:
    """Both stages' objectives."""
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


def settled(stage: Stage) -> str:
    """Whether a stage's fit ended by itself."""
    name = f"{stage.name.capitalize()} stage: {plural(len(stage.values), 'iteration')}"
    if len(stage.values) < 2:
        return f"{name}; with so few nothing can be said about convergence."
    last = float(figures.relative_changes(stage)[-1])
    if last < stage.tol:
        return f"{name}; settled, as the last relative change, {last:.1e}, is below tol = {stage.tol:g}."
    return (
        f"{name}; not settled: the last relative change, {last:.1e}, is not below tol = {stage.tol:g} (max_iter = "
        f"{stage.max_iter})."
    )


def check(facts: ReportFacts) -> Section:
    """Whether the substitute confounder may be trusted."""
    name, title = "check", "Exposure predictive check"
    if not isinstance(facts.check, CheckFacts):
        return Section(name, title, [Note(facts.check)])
    found = facts.check.result
    told = (
        f"{share(facts.check.share)} of the training exposures were held out, the exposure model was fitted anew to "
        "the rest with the settings of the saved one, and the held-out exposures were compared with draws from that "
        "fit. What is checked is therefore this model with these settings on these data, not the saved factors "
        "themselves, which have seen everything."
    )
    verdict = f"{found.verdict[0].upper()}{found.verdict[1:]}."
    rows = [
        cells("of all users together", number(found.pValue)),
        cells("of the spread between users", number(found.spreadPValue)),
        cells("mean of the users' own", number(found.meanUserPValue)),
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
        f"p-values from {plural(found.n, 'held-out exposure')} of {plural(found.numUsers, 'user')}; 0.5 is the middle"
    )
    blocks: list[Block] = [Note(verdict), Text(told), Table(caption, ["", "p-value"], rows), Pictures(pictures)]
    return Section(name, title, blocks)
