"""How sure the lists are: widths of intervals, what extrapolates, what a hidden reason could change."""

from dcrec_spark.report import figures
from dcrec_spark.report.blocks import Block, Note, Picture, Pictures, Points, Section, Text, picture
from dcrec_spark.report.facts import CertaintyFacts, ReportFacts
from dcrec_spark.report.fit_sections import POWERS, one_bar
from dcrec_spark.report.words import number, share

_READING = (
    "Intervals hold what the noise of the ratings and the few ratings of a user or an item leave open, if the model is "
    "right in kind; where it is not, they are too short. With weak regularisation they are too short in any case."
)


def certainty(facts: ReportFacts) -> Section:
    """How far scores may be off, how many rest on the form of the model, how much of the users was seen."""
    name, title, measured = "certainty", "How sure the lists are", facts.certainty
    if not isinstance(measured, CertaintyFacts):
        return Section(name, title, [Note(measured)])
    blocks: list[Block] = [Text(_READING), Points(_points(measured))]
    shown = _pictures(measured)
    return Section(name, title, [*blocks, Pictures(shown)] if shown else blocks)


def _points(facts: CertaintyFacts) -> list[str]:
    widths, (quarter, half, most) = facts.widths, facts.odds
    points = [
        f"The {share(facts.coverage)} interval of a recommended item is {number(widths.mean, 2)} wide on average, from "
        f"{number(widths.lowest, 2)} to {number(widths.highest, 2)}, in units of the rating.",
        f"Half of the users have another item in the first place if some hidden reason changes the odds of choosing by "
        f"a factor of {number(half)}; a quarter already by {number(quarter)}, three quarters by {number(most)}.",
    ]
    if facts.extrapolating is not None:
        points.append(
            f"{share(facts.extrapolating)} of the places are extrapolations: the exposure model finds the item less "
            "likely to be seen than all that the user has rated."
        )
    if facts.effective is not None:
        points.append(
            f"{share(facts.few)} of the users have rated, weighted by how likely each item was to be seen, no more "
            f"than {facts.least} equally likely items would tell."
        )
        if figures.has_one_bar(facts.effective):
            points.append(one_bar(facts.effective, "users", "effective ratings"))
    return points


def _pictures(facts: CertaintyFacts) -> list[Picture]:
    shown = []
    if not figures.has_one_bar(facts.widths.bars):
        figure = figures.distribution(facts.widths, "width of the interval", "places")
        shown.append(picture(figure, "widths", "Widths of the intervals", "Each bar counts places of the lists."))
    if facts.effective is not None and not figures.has_one_bar(facts.effective):
        figure = figures.powers(facts.effective, "effective ratings of each user, from", "users")
        reading = f"{POWERS} Of users on the left little was seen, however much they have rated."
        shown.append(picture(figure, "effective", "How much of a user was seen", reading))
    return shown
