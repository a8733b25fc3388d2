"""Which values of a configuration are secret: those from the environment, and those that are secret by their name."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from dcrec_spark.config.names import section_type
from dcrec_spark.config.secrets import LONG, is_secret_name, secrets_in

# Numbers, dates, times and versions stand in many texts that hold no secret.
_NUMBERS = re.compile(r"[\d.:/T_-]*")
# Shells keep the directory that they are in, and the one before, under names that look like a password's.
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
_VARIABLE = re.compile(r"oc\.env:\s*['\"]?(\w+)")


def secret_values(settings: Mapping[str, str], model: type[BaseModel]) -> Iterator[str]:
    """List what has to be masked, by value, wherever it turns up.

    Parameters
    ----------
    settings : dotted name -> text, as it was written.
    model : the configuration; what the environment gives for a number, a date or a choice is no secret, nor
        is a number or a date within a text, unless the setting's name says so.
    """
    # Drivers and clients read such variables by themselves, and may say in an error what they read.
    named = {name: value for name, value in os.environ.items() if name not in _DIRECTORIES and is_secret_name(name)}
    yield from (value for value in named.values() if len(value) >= LONG)
    for name, text in settings.items():
        if "${" in text:
            if is_free_text(model, name):
                given = [os.environ[variable] for variable in _VARIABLE.findall(text) if variable in os.environ]
                yield from (value for value in given if is_secret_name(name) or not _NUMBERS.fullmatch(value))
                # Clients may say the password alone, of an address that was given whole.
                yield from (secret for value in given for secret in secrets_in(value))
            yield from (secret for secret in secrets_in(text) if "${" not in secret)
        elif is_secret_name(name):
            yield text
        else:
            yield from secrets_in(text)


def is_free_text(model: type[BaseModel], name: str) -> bool:
    """Whether the setting of this dotted name takes any text; so does one that does not exist."""
    first, _, rest = name.partition(".")
    section = section_type(model, first)
    if section is not None and rest:
        return is_free_text(section, rest)
    field = model.model_fields.get(first)
    return field is None or _takes_text(field.annotation)


def _takes_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return annotation is str or any(_takes_text(inner) for inner in get_args(annotation))
