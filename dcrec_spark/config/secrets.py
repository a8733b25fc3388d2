"""What looks like a secret in names and texts, and how it is masked."""

import re

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
    """Whether a setting called ``name`` is likely to hold a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def mask_secrets(text: str) -> str:
    """``text`` without the passwords in its URLs and in its ``password=...`` parts."""
    for pattern, masked in _SECRETS_IN_TEXT:
        text = pattern.sub(masked, text)
    return text
