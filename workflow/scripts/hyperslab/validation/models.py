"""What every model of a configuration file is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from hyperslab.validation.errors import NAME_PATTERN

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
# Strict, or `yes` would be the number 1.
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(gt=0)]


class Strict(BaseModel):
    """A mapping in which a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
