"""The base of every group of settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from dcrec_spark.config.secrets import masked


class Section(BaseModel):
    """A group of settings: unknown names are refused, values never change after they are read.

    Its ``repr`` masks what looks like a secret, for that is what ends up in logs and tracebacks.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        validate_default=True,
    )

    def __repr_args__(self) -> Any:
        """Yield names and values as ``repr`` shows them."""
        for name, value in super().__repr_args__():
            if isinstance(value, Mapping):
                yield name, {key: masked(key, inner) for key, inner in value.items()}
            else:
                yield name, masked(name or "", value)
