"""The base of every group of settings."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings: unknown names are refused, values never change after they are read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        validate_default=True,
    )
