"""Names of files as a reader elsewhere may see them: without the folders of the machine that made the page."""

import re
from collections.abc import Mapping
from typing import Any

_STORES = "file|hdfs|viewfs|s3a?|s3n|gs|abfss?|wasbs?|dbfs"
# A store and a path in it, or two names or more from the root on: "/" and "</b>" are no paths.
_NAME = r"[^\s'\",;()/<>]+"
_PATH = re.compile(rf"(?<![\w.:/~<])(?:(?:{_STORES}):/*{_NAME}(?:/+{_NAME})*|/+{_NAME}(?:/+{_NAME})+)/?")


def shortened(text: str, output: str | None = None) -> str:
    """Text with each absolute path in it cut down to its last name, or to what follows the output's own folder.

    Parameters
    ----------
    text : str
        A setting or a sentence.
    output : str, optional
        The folder that the run writes to.

    Examples
    --------
    >>> shortened("read from file:/srv/data/ml-100k/u.data")
    'read from …/u.data'
    >>> shortened("/srv/out/trials/best.yaml", output="/srv/out")
    'out/trials/best.yaml'
    >>> shortened("half a star / five stars, AC/DC, 1/2")
    'half a star / five stars, AC/DC, 1/2'
    """

    def short(path: re.Match[str]) -> str:
        whole, root = path[0].rstrip("/"), (output or "").rstrip("/")
        if root and (whole == root or whole.startswith(f"{root}/")):
            return root.rpartition("/")[2] + whole.removeprefix(root)
        return f"…/{whole.rpartition('/')[2]}"

    return _PATH.sub(short, text)


def without_paths(value: Any, output: str | None = None) -> Any:
    """Return settings with every text in them :func:`shortened`, keys as they are.

    Examples
    --------
    >>> without_paths({"input": {"path": "/srv/ratings"}, "run": ["/srv/out", 3]}, "/srv/out")
    {'input': {'path': '…/ratings'}, 'run': ['out', 3]}
    """
    if isinstance(value, str):
        return shortened(value, output)
    if isinstance(value, Mapping):
        return {key: without_paths(inner, output) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without_paths(inner, output) for inner in value]
    return value
