"""Base class of all sections of settings."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from dcrec_spark.config.secrets import masked_leaves


class Section(BaseModel):
    """A section of settings: refuses unknown names, and is immutable.

    Its ``repr`` masks what looks like a secret, because logs and tracebacks show it.
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
            yield name, masked_leaves(value, name or "")
