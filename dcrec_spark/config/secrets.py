"""Masking of secrets in settings, logs, records and messages.

Secrets are masked twice. By parsing, where a text says ``password=...`` or has a password in an address. The end of
such a secret is a guess, and the guess is rather too long than too short. And by value, for what came from the
environment, from a setting whose name speaks of a secret, or from the address or the ``password=...`` of any setting.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

MASK = "***"
_KEY = r"(?:access|account|api|private|shared)[._-]?key"
_SHORT_WORD = r"(?<![a-z])(?:pw|sas|sig)(?![a-z])"
_SECRET_WORD = rf"(?:pass|pwd|secret|token|credential|signature|auth\b|authorization|{_SHORT_WORD}|{_KEY})"
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)

# Every pattern takes time in proportion to the text: no part of it is scanned to its end from many places.
# What comes before a secret.
# scheme://user: but for what is a port, as in host:1433;user=me@corp, in host:5432/db?user=me@corp, and before any path
# of HDFS, which knows no passwords.
_HDFS_PORT = r"(?<=hdfs)://[^/\s:]*:\d{1,5}/"
_PORT_AND_OPTIONS = r"\d{1,5}(?:[/,][^\s@?;]{0,400})?[?;][\w.-]{1,100}="
_ADDRESS = rf"(?!{_HDFS_PORT})://[^/\s:]*:(?!{_PORT_AND_OPTIONS})"
_ORACLE = r":thin:[^/@\s]{1,200}/"
# password=, in a URL's query, a Java option or a map; "password": in JSON, YAML or a header, where the name has to end
# so, and no "setting input.options.password: found ..." of this package's own.
_EQUALS = rf"""(?<![\w.-])[\w.-]*{_SECRET_WORD}(?:(?!{_SECRET_WORD})[\w.-])*['"]?[ \t]*(?:=>?|->)[ \t]*"""
_LAST_WORD = (
    rf"(?:passw(?:or)?ds?|passphrase|pwd|secret|token|credentials?|authorization|signature|{_SHORT_WORD}|{_KEY})"
)
_COLON = rf"""(?<!setting )(?<!--set )(?<![\w./-])[\w.-]*{_LAST_WORD}['"]?[ \t]*:[ \t]*"""
_NAMED = rf"(?:{_EQUALS}|{_COLON})(?:(?:Bearer|Basic)[ \t]+)?"

# What a secret is, in a text of which nothing else is known: {in;braces}, as SQL Server has it, "in quotes", or up to
# a space, or up to what begins the next of several options. In an address, up to the last @ of the line.
_NEXT = r"[&;,][\w.-]+="
_CLOSED = r"(?![^\s&;,)\]}])"
_VALUE = (
    r"\{(?:[^}]|\}\}){0,200}\}"
    rf"""|"(?:\\.|[^"\\\n])*"{_CLOSED}|'(?:\\.|[^'\\\n])*'{_CLOSED}"""
    rf"|(?:(?!{_NEXT})\S)+"
)
# host:8020/path in an ordinary sentence: a port, and no @ before the next space.
_PORT = r"\d{1,5}(?!\w)[^\s@]{0,400}(?:\s|$)"
# https://token@host, also as https://token:@host.
_TOKEN = re.compile(r"(?P<before>https?://)(?P<secret>[^/\s?#@:]+)(?P<after>(?::(?:x-oauth-basic)?)?@)", re.IGNORECASE)
_IN_TEXT = re.compile(f"(?P<before>{_NAMED})(?P<secret>{_VALUE})(?P<after>)", re.IGNORECASE), _TOKEN
_IN_ADDRESS = re.compile(f"(?P<before>{_ADDRESS}(?!{_PORT})|{_ORACLE})(?P<secret>.+)@", re.IGNORECASE)
# In a setting, whose text is known from its beginning to its end, a secret may end at any of these.
_BEFORE_AN_AT = (re.compile(f"{_ADDRESS}|{_ORACLE}", re.IGNORECASE), re.compile("@"), None)
_AFTER_A_NAME = (re.compile(_NAMED, re.IGNORECASE), re.compile(r"[&;,\s'\"]|$"), re.compile(r"[&;,\s]+[\w.-]+="))

# A shorter value is too likely a part of something else; one below the second length is masked as a whole word only.
_SHORTEST, LONG = 4, 8
_KNOWN: dict[str, re.Pattern[str]] = {}


def is_secret_name(name: str) -> bool:
    """Tell whether a setting called ``name`` is likely to hold a secret, by the words in its name."""
    return _SECRET_NAME.search(name) is not None


def secrets_in(setting: str) -> list[str]:
    """List what may be a password in the text of a setting: in its addresses, and in its ``password=...`` parts.

    Where a password ends is not always to be seen (``ftp://me:a@b@host``): each end that it may have is listed, the
    right one among them, and each of these as it was before it was put into quotes, braces or a URL.
    """
    found = {match["secret"] for match in _TOKEN.finditer(setting)}
    for begin, end, following in (_BEFORE_AN_AT, _AFTER_A_NAME):
        for before in begin.finditer(setting):
            rest = setting[before.end() :]
            if following is not None:
                rest = following.split(rest, maxsplit=1)[0]
            for secret in [rest[: at.start()] for at in end.finditer(rest)]:
                bare = secret.strip("{}'\"")
                found |= {secret, bare, bare.replace("}}", "}"), unquote(secret)}
    return sorted(found - {""})


def mask_secrets(text: str) -> str:
    """Mask passwords in addresses and in ``password=...`` parts, and known secrets: rather too much than too little."""
    text = mask_values(text)
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\g<before>{MASK}\g<after>", text)
    lines = [line.rpartition("@") for line in text.split("\n")]
    return "\n".join(_IN_ADDRESS.sub(rf"\g<before>{MASK}@", before + at) + after for before, at, after in lines)


def remember_secrets(values: Iterable[str]) -> None:
    """Have values of four characters or more masked wherever they turn up, in the spellings of URLs and JSON too."""
    for value in values:
        if len(value) < _SHORTEST or value == MASK:
            continue
        spellings = {value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
        text = "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))
        _KNOWN[value] = re.compile(text if len(value) >= LONG else rf"(?<!\w)(?:{text})(?!\w)")


def forget_secrets() -> None:
    """Forget the values that were remembered, before another job's configuration is read."""
    _KNOWN.clear()


def mask_values(text: str) -> str:
    """Mask the values that are known to be secret."""
    for value in sorted(_KNOWN, key=len, reverse=True):
        text = _KNOWN[value].sub(MASK, text)
    return text


def masked_leaves(value: Any, name: str = "", as_written: Mapping[str, str] | None = None) -> Any:
    """Mask texts inside of lists and mappings: the secrets in a text, and all of a text with a secret name."""
    if as_written and name in as_written:
        return mask_secrets(as_written[name])
    if isinstance(value, list | tuple | dict):
        inside = value.items() if isinstance(value, dict) else enumerate(value)
        masked = {key: masked_leaves(each, f"{name}.{key}" if name else str(key), as_written) for key, each in inside}
        return masked if isinstance(value, dict) else list(masked.values())
    if not isinstance(value, str):
        return value
    return MASK if is_secret_name(name) else mask_secrets(value)


# Numbers, dates, times and versions are part of many texts that hold no secret.
_NUMBERS = re.compile(r"[\d.:/T_-]*")
# Shells keep directories in variables whose names look like a password's.
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
VARIABLE = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")


def secret_values(settings: Mapping[str, str], is_free_text: Callable[[str], bool]) -> Iterator[str]:
    """List the values to mask wherever they turn up. settings : dotted name -> text, as it was written.

    is_free_text : tells whether the setting of a dotted name takes any text. The environment's value for a number, a
    date or a choice is no secret. Nor is a number or a date within a text, unless the setting's name says so.
    """
    # Drivers and clients read such variables by themselves, and may repeat them in an error.
    named = {name: value for name, value in os.environ.items() if name not in _DIRECTORIES and is_secret_name(name)}
    yield from (value for value in named.values() if len(value) >= LONG)
    for name, text in settings.items():
        if "${" in text:
            if is_free_text(name):
                given = [os.environ[variable] for variable in VARIABLE.findall(text) if variable in os.environ]
                yield from (value for value in given if is_secret_name(name) or not _NUMBERS.fullmatch(value))
                # Clients may name only the password of an address.
                yield from (secret for value in given for secret in secrets_in(value))
            yield from (secret for secret in secrets_in(text) if "${" not in secret)
        elif is_secret_name(name):
            yield text
        else:
            yield from secrets_in(text)
