"""Named rules, and the list of those that a row breaks."""

from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F

MALFORMED = "malformed_row"


@dataclass(frozen=True)
class Rule:
    """A reason to reject a row, and the condition ``broken``, true for a row to reject; null counts as met."""

    reason: str
    broken: Column


def no_reasons() -> Column:
    """Return an empty list of reasons."""
    return F.array().cast("array<string>")


def names_of_broken(rules: list[Rule]) -> Column:
    """Reasons of the rules that a row breaks, array<string> in the order of ``rules``.

    The list is only built for rows that break one. ``array_compact`` would be shorter, but it is a filter with a
    lambda, for which Spark compiles no code.
    """
    any_broken = reduce(or_, (F.coalesce(rule.broken, F.lit(False)) for rule in rules))
    names = F.array(*(F.when(rule.broken, F.lit(rule.reason)) for rule in rules))
    nulls = F.array(F.lit(None).cast("string"))
    return F.when(any_broken, F.array_except(names, nulls)).otherwise(no_reasons())
