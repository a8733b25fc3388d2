"""What looks like a secret in names and texts, and how it is masked."""

import re
from typing import Any

MASK = "***"
_SECRET_WORD = r"(?:pass|pwd|secret|token|credential|signature|\bsas\b|(?:access|account|api|private|shared)[._-]?key)"
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)
_SECRETS_IN_TEXT = (
    # scheme://user:secret@host and jdbc:oracle:thin:user/secret@host
    (re.compile(r"(://[^/@\s:]*:)[^/@\s]+(?=@)"), rf"\g<1>{MASK}"),
    (re.compile(r"(:thin:[^/@\s]+/)[^@\s]+(?=@)"), rf"\g<1>{MASK}"),
    # password=secret, in a URL's query or a Java option
    (re.compile(rf"([\w.-]*{_SECRET_WORD}[\w.-]*\s*=\s*)[^&;,\s'\"]+", re.IGNORECASE), rf"\g<1>{MASK}"),
)


def is_secret_name(name: str) -> bool:
    """Tell whether a setting called ``name`` is likely to hold a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def mask_secrets(text: str) -> str:
    """Mask the passwords in the URLs of ``text`` and in its ``password=...`` parts."""
    for pattern, masked in _SECRETS_IN_TEXT:
        text = pattern.sub(masked, text)
    return text


def masked(name: str, value: Any) -> Any:
    """Mask the value of a setting: the secrets in a text, and all of a setting that is one by its name."""
    if not isinstance(value, str):
        return value
    return MASK if is_secret_name(name) else mask_secrets(value)
