"""What looks like a secret in names and texts, what is known to be one, and how both are masked.

Secrets are masked twice: by parsing, where a text says ``password=...`` or has a password in an address; and by value,
for what came from the environment or stood in a setting that is secret by its name, wherever it turns up.
"""

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

MASK = "***"
_SECRET_WORD = (
    r"(?:pass|pwd|secret|token|credential|signature|auth\b|\bsas\b|(?:access|account|api|private|shared)[._-]?key)"
)
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
# {in;braces}, as SQL Server has it, "in quotes", or up to what separates it from the next.
_VALUE = r"""\{(?:[^}]|\}\})*\}|"[^"]*"|'[^']*'|[^&;,\s'"]+"""
_SECRETS_IN_TEXT = tuple(
    re.compile(f"(?P<before>{before})(?P<secret>{secret})(?P<after>{after})", re.IGNORECASE)
    for before, secret, after in (
        # scheme://user:secret@host, the secret up to the last @; host:8020/path@x has a port, and no secret.
        (r"://[^/@\s:'\"]*:", r"(?!\d{1,5}[/;?#,])[^\s'\"]+", "@"),
        # jdbc:oracle:thin:user/secret@host
        (r":thin:[^/@\s]+/", r"[^\s'\"]+", "@"),
        # password=secret, in a URL's query or a Java option
        (rf"[\w.-]*{_SECRET_WORD}[\w.-]*\s*=\s*", _VALUE, ""),
    )
)
# A shorter value is too likely a part of something else; one below the second length is masked as a whole word only.
_SHORTEST, LONG = 4, 8
_KNOWN: dict[str, re.Pattern[str]] = {}


def is_secret_name(name: str) -> bool:
    """Tell whether a setting called ``name`` is likely to hold a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def secrets_in(text: str) -> list[str]:
    """List the passwords in the URLs of ``text`` and in its ``password=...`` parts."""
    return [found["secret"].strip("{}'\"") for pattern in _SECRETS_IN_TEXT for found in pattern.finditer(text)]


def mask_secrets(text: str) -> str:
    """Mask the passwords in the URLs of ``text`` and in its ``password=...`` parts, and the secrets that are known."""
    text = mask_known(text)
    for pattern in _SECRETS_IN_TEXT:
        text = pattern.sub(rf"\g<before>{MASK}\g<after>", text)
    return text


def remember_secrets(values: Iterable[str]) -> None:
    """Have these values masked wherever they turn up, in the spellings of URLs and of JSON too.

    Values of fewer than four characters are not remembered.
    """
    for value in values:
        if len(value) < _SHORTEST or value == MASK:
            continue
        spellings = {value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
        text = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
        _KNOWN[value] = re.compile(text if len(value) >= LONG else rf"(?<!\w)(?:{text})(?!\w)")


def forget_secrets() -> None:
    """Forget the values that were remembered, before another job's configuration is read."""
    _KNOWN.clear()


def mask_known(text: str) -> str:
    """Mask the values that are known to be secret."""
    for value in sorted(_KNOWN, key=len, reverse=True):
        text = _KNOWN[value].sub(MASK, text)
    return text


def masked_all(value: Any) -> Any:
    """Mask the secrets in all texts inside of lists and mappings."""
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, dict):
        return {key: masked_all(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked_all(inner) for inner in value]
    return value


def masked(name: str, value: Any) -> Any:
    """Mask the value of a setting: the secrets in a text, and all of a setting that is one by its name."""
    if not isinstance(value, str):
        return value
    return MASK if is_secret_name(name) else mask_secrets(value)
