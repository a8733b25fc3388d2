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
    name, title, found = "certainty", "How sure the lists are", facts.certainty
    if not isinstance(found, CertaintyFacts):
        return Section(name, title, [Note(found)])
    blocks: list[Block] = [Text(_READING), Points(_points(found))]
    shown = _pictures(found)
    return Section(name, title, [*blocks, Pictures(shown)] if shown else blocks)


def _points(found: CertaintyFacts) -> list[str]:
    widths, (quarter, half, most) = found.widths, found.odds
    points = [
        f"The {share(found.coverage)} interval of a recommended item is {number(widths.mean, 2)} wide on average, from "
        f"{number(widths.lowest, 2)} to {number(widths.highest, 2)}, in units of the rating.",
        f"Half of the users have another item in the first place if some hidden reason changes the odds of choosing by "
        f"a factor of {number(half)}; a quarter already by {number(quarter)}, three quarters by {number(most)}.",
    ]
    if found.extrapolating is not None:
        points.append(
            f"{share(found.extrapolating)} of the places are extrapolations: the exposure model finds the item less "
            "likely to be seen than all that the user has rated."
        )
    if found.effective is not None:
        points.append(
            f"{share(found.few)} of the users have rated, weighted by how likely each item was to be seen, no more "
            f"than {found.least} equally likely items would tell."
        )
        if figures.has_one_bar(found.effective):
            points.append(one_bar(found.effective, "users", "effective ratings"))
    return points


def _pictures(found: CertaintyFacts) -> list[Picture]:
    shown = []
    if not figures.has_one_bar(found.widths.bars):
        figure = figures.distribution(found.widths, "width of the interval", "places")
        shown.append(picture(figure, "widths", "Widths of the intervals", "Each bar counts places of the lists."))
    if found.effective is not None and not figures.has_one_bar(found.effective):
        figure = figures.powers(found.effective, "effective ratings of each user, from", "users")
        reading = f"{POWERS} Of users on the left little was seen, however much they have rated."
        shown.append(picture(figure, "effective", "How much of a user was seen", reading))
    return shown
