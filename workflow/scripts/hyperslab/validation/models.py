"""What every model of a configuration file is made of."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hyperslab.validation.errors import LONGEST_NAME, NAME_PATTERN

LONGEST_TEXT = 10_000
# What 64 bits with a sign hold, as files, libraries and tables have their numbers.
LARGEST_WHOLE = 2**63 - 1


def _printable(text: str) -> str:
    """Return a text as it is; raises ValueError for characters that no page or command line holds."""
    for letter in text:
        if unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t":
            raise ValueError(f"should hold no control characters (U+{ord(letter):04X})")
    return text


# A name becomes part of names of files, with a few letters and a number behind it.
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=LONGEST_NAME)]
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_printable)]
# Strict, or `yes` would be the number 1.
Whole = Annotated[int, Field(strict=True, ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
Count = Annotated[Whole, Field(gt=0)]
# Strict, or 1 and "off" would be true and false.
Flag = Annotated[bool, Field(strict=True)]


class Strict(BaseModel):
    """A mapping in which a misspelt key is an error."""

    # A bound or a weight without end decides nothing. Most models are asked for within larger ones alone.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
