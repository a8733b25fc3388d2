"""Names inside an output directory, and the pointer in it that names the run to read."""

import re
from uuid import uuid4

from dcrec_spark.errors import ConfigError, DataError
from dcrec_spark.storage.files import Files

CURRENT = "CURRENT"
COMMITTING = ".committing"
LOCK = ".lock"
FAILED = "failed"
STAGING_PREFIX = ".staging-"

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def undo_interrupted_commit(files: Files, root: str) -> None:
    """Settle the commit that ``.committing`` names: done if the pointer names it too, else taken back."""
    if not files.exists(f"{root}/{COMMITTING}"):
        return
    run_id = read_run_id(files, f"{root}/{COMMITTING}")
    path = run_path(root, run_id)
    if current(files, root) != run_id and files.exists(path):
        withdrawn = staging_path(root, run_id)
        files.rename(path, withdrawn)
        files.delete(withdrawn)
    files.delete(f"{root}/{COMMITTING}")


def current(files: Files, root: str) -> str | None:
    """Run that the pointer names; None where nothing has been published."""
    return read_run_id(files, f"{root}/{CURRENT}") if files.exists(f"{root}/{CURRENT}") else None


def read_run_id(files: Files, path: str) -> str:
    """Run that a file names; DataError where it names none."""
    text = files.read(path).decode(errors="replace").strip()
    if RUN_ID.fullmatch(text) is None:
        raise DataError(f"{path} holds {text[:200]!r}; expected the run_id of a published run: restore the file")
    return text


def run_path(root: str, run_id: str) -> str:
    """Directory of a published run."""
    return f"{root}/run_id={run_id}"


def staging_path(root: str, run_id: str) -> str:
    """Make a name for a staging directory; its token keeps two processes with one run_id apart."""
    return f"{root}/{STAGING_PREFIX}{run_id}-{uuid4().hex[:8]}"


def require_name(what: str, value: str, pattern: re.Pattern[str]) -> None:
    """Refuse what could not be the name of a directory; ConfigError says ``what`` it was to be."""
    if pattern.fullmatch(value) is None:
        raise ConfigError(f"{what} is {value!r}; expected text that matches {pattern.pattern}")
