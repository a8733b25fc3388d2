"""A password in a file, which errors never show."""

from pathlib import Path

from dcrec_spark.errors import ConfigError


def password_in(path: str, setting: str) -> str:
    """Read the first line of a file.

    Raises
    ------
    ConfigError : the file cannot be read, or begins with an empty line; names ``setting``.password_file.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"setting {setting}.password_file: {path} cannot be read: {error}") from error
    if not lines or not lines[0]:
        raise ConfigError(f"setting {setting}.password_file: the first line of {path} is empty; expected the password")
    return lines[0]
