"""The names of measures: what is measured, at which cut of the lists, over which items.

    ndcg                   of the whole list of a user's test items
    recall@5               of its first five places
    catalogue_ndcg@10      of lists of unseen items from the whole catalogue
    item_mse               of each item, averaged over items

Tables, settings and dictionaries hold these names; code asks a :class:`Measure` for its parts.
"""

import re
from enum import StrEnum

from dcrec_spark.errors import ConfigError

_CATALOGUE = "catalogue_"
_NAME = re.compile(rf"(?P<catalogue>{_CATALOGUE})?(?P<kind>[a-z_]+?)(@(?P<k>[1-9]\d*))?")


class Kind(StrEnum):
    """What a measure is of; :mod:`dcrec_spark.kernels.metrics` has the definitions."""

    NDCG = "ndcg"
    RECALL = "recall"
    PRECISION = "precision"
    MAP = "map"
    COVERAGE = "coverage"
    MSE = "mse"
    MAE = "mae"
    ITEM_MSE = "item_mse"
    ITEM_MAE = "item_mae"


ERRORS = (Kind.MSE, Kind.MAE, Kind.ITEM_MSE, Kind.ITEM_MAE)
# Measures that ask which of the first k items are relevant.
HITS = (Kind.RECALL, Kind.PRECISION, Kind.MAP)
_CUT = (*HITS, Kind.COVERAGE)


class Measure(str):
    """One measure; as a text it is its published name, so that ``metrics.as_dict()["ndcg@5"]`` finds it.

    Parameters
    ----------
    kind : Kind
        What is measured.
    k : int, optional
        Places of the list that count. None for errors, and for NDCG of the whole list.
    over_catalogue : bool
        Whether the lists hold unseen items from the whole catalogue, not the user's test items alone.

    Raises
    ------
    ConfigError
        A kind that needs a cut has none, an error has one, or the cut is not a whole number from 1 on.

    Examples
    --------
    >>> Measure(Kind.NDCG, 5)
    Measure('ndcg@5')
    >>> Measure(Kind.MSE).is_error
    True
    """

    kind: Kind
    k: int | None
    over_catalogue: bool

    def __new__(cls, kind: Kind, k: int | None = None, over_catalogue: bool = False) -> "Measure":
        """Compose the name from its parts."""
        name = f"{_CATALOGUE if over_catalogue else ''}{kind}{'' if k is None else f'@{k}'}"
        expected = _wanted_instead(kind, k, over_catalogue)
        if expected:
            raise ConfigError(f"measure {name!r}: {expected}")
        measure = super().__new__(cls, name)
        measure.kind, measure.k, measure.over_catalogue = kind, k, over_catalogue
        return measure

    def __getnewargs__(self) -> tuple[Kind, int | None, bool]:  # type: ignore[override]  # by its parts, not as a text
        """Parts to make the measure of anew, in another process."""
        return self.kind, self.k, self.over_catalogue

    def __repr__(self) -> str:
        """Class and name."""
        return f"Measure({str(self)!r})"

    @classmethod
    def parse(cls, name: str) -> "Measure":
        """Take a published name apart.

        Parameters
        ----------
        name : str
            Such as ``ndcg``, ``recall@5`` or ``catalogue_map@10``, without its variant.

        Returns
        -------
        Measure

        Raises
        ------
        ConfigError
            No measure is called so.

        Examples
        --------
        >>> measure = Measure.parse("catalogue_ndcg@10")
        >>> measure.kind.value, measure.k, measure.over_catalogue
        ('ndcg', 10, True)
        """
        parts = _NAME.fullmatch(name)
        if parts is None or parts["kind"] not in set(Kind):
            raise ConfigError(f"measure: found {name!r}, expected {', '.join(Kind)}, with a cut such as ndcg@5")
        return cls(Kind(parts["kind"]), int(parts["k"]) if parts["k"] else None, bool(parts["catalogue"]))

    @property
    def is_error(self) -> bool:
        """Whether small values are good."""
        return self.kind in ERRORS

    @property
    def of_whole_catalogue(self) -> "Measure":
        """The measure of lists of unseen items from the whole catalogue."""
        return Measure(self.kind, self.k, over_catalogue=True)


def _wanted_instead(kind: Kind, k: int | None, over_catalogue: bool) -> str:
    """Say what would make the parts a measure; nothing where they are one."""
    if k is not None and k < 1:
        return "expected a cut of at least 1"
    if kind in ERRORS and (k is not None or over_catalogue):
        return "errors are of single predictions, expected neither a cut nor lists from the catalogue"
    if k is None and (kind in _CUT or over_catalogue):
        return f"expected a cut, {kind}@k"
    return ""
