"""What a study may say of its rounds: how many, or as many as decide its comparisons."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from hyperslab.validation.models import Strict, Whole

# Far more than a statistic needs; rounds write new files each.
MOST_ROUNDS = 1000
# With fewer there is no interval, so nothing could be decided.
LEAST_FIRST = 3

Rounds = Annotated[Whole, Field(ge=0, le=MOST_ROUNDS)]


class AdaptiveRounds(Strict):
    """As many rounds as decide: the first of every cell, then more of those whose comparisons are open.

    Open are a claim that cannot be told and, where finalists are confirmed, a layout that cannot be told from
    the recommended one.
    """

    first: Annotated[Rounds, Field(ge=LEAST_FIRST)] = Field(
        default=LEAST_FIRST, description="rounds of every cell"
    )
    most: Rounds = Field(description="rounds after which no more are added, whatever is open")

    @model_validator(mode="after")
    def _more_than_first(self) -> AdaptiveRounds:
        if self.most <= self.first:
            raise ValueError(f"most should be more than first, not {self.most} beside {self.first}")
        return self


def _form(given: object) -> str:
    """Return which form of rounds is given, so that a mistake is one of that form."""
    return "adaptive" if isinstance(given, dict | AdaptiveRounds) else "number"


RoundsOrAdaptive = Annotated[
    Annotated[Rounds, Field(gt=0), Tag("number")] | Annotated[AdaptiveRounds, Tag("adaptive")],
    Discriminator(_form),
]
