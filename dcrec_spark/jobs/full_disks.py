"""Where a run writes, and how much room is there: what a run that met a full disk says."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dcrec_spark.errors import DiskFullError, interruption
from dcrec_spark.spark.failures import full_disk
from dcrec_spark.storage.files import LOCATION

_MB = 10**6


@contextmanager
def full_disks_named(places: Mapping[str, str]) -> Iterator[None]:
    """Turn whatever a full disk raises inside into a ``DiskFullError`` that names the places a run writes to.

    places : setting -> path, or several with commas between them.
    """
    try:
        yield
    except Exception as error:
        reason = full_disk(error)
        if reason is None or interruption(error) is not None:
            raise
        rooms = "; ".join(
            f"{setting} {path} ({_room(path)})" for setting, paths in places.items() for path in paths.split(",")
        )
        raise DiskFullError(
            f"a disk is full ({reason[:200]}), and nothing was published. The run writes to {rooms}. Make room there "
            "or set another path, and run the same command again"
        ) from error


def _room(path: str) -> str:
    parts = LOCATION.fullmatch(path)
    if parts is None or parts["scheme"] not in (None, "file"):
        return "on a store of its own"
    place = Path(parts["path"]).absolute()
    while not place.exists():
        place = place.parent
    return f"{shutil.disk_usage(place).free / _MB:,.0f} MB free"
