"""Nearest names here of the parameters of MLlib's ALS, for error messages."""

import difflib
from collections.abc import Collection

# Parameter of pyspark.ml.recommendation.ALS -> ours instead: the first that an estimator has.
NEAREST: dict[str, tuple[tuple[str, ...], ...]] = {
    "regParam": (("ratePrior",),),
    "implicitPrefs": (("outcome",),),
    "nonnegative": (("outcome",), ("shapePrior",)),
    "blockSize": (("numBlocks",),),
    "numUserBlocks": (("numBlocks",),),
    "numItemBlocks": (("numBlocks",),),
    "intermediateStorageLevel": (("checkpointInterval",),),
    "finalStorageLevel": (("checkpointInterval",),),
}
ADVICE = {
    "implicitPrefs": "weighted is fitted to all pairs, as with implicitPrefs=True, probabilistic to the rated ones",
    "nonnegative": "factors with Gamma priors are never negative, those of outcome='poisson' for example",
    "blockSize": "the number of rows that are ranked at a time is chosen by itself",
    "intermediateStorageLevel": "what a fit caches is chosen by itself",
    "finalStorageLevel": "a model keeps its factors cached until release() is called",
}


def unknown_param(owner: str, name: str, known: Collection[str]) -> str:
    """Say that ``owner`` has no such parameter, and name the nearest of those ``known``."""
    sentence = f"{owner} has no parameter {name}"
    ours = next((names for names in NEAREST.get(name, ()) if set(names) <= set(known)), None)
    if ours is not None:
        advice = f" ({ADVICE[name]})" if name in ADVICE else ""
        return f"{sentence}, which is MLlib's; nearest to it here: {', '.join(ours)}{advice}"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"{sentence}: did you mean {nearest[0]}?" if nearest else f"{sentence}: explainParams() lists those it has"
