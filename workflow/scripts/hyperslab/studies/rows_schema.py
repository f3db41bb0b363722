"""What a study may say of ragged rows: how long they are, and how they are written and read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hyperslab.data.rows import MODELS, parameters_of
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Count, Flag, Strict, Whole

# A row of more elements than these has no place in the memory of any node.
LONGEST = 2**40
# More readers, or longer waits between two looks, than anybody means.
MOST_READERS, MOST_POLL_MS = 64, 60_000.0
Rows = Count | Literal["all"]
ROWS_FORMS = "a number of rows or 'all'"


class RowLengths(Strict):
    """How many ragged rows there are, and how long each is."""

    count: Count = Field(description="number of rows; a case may have fewer, by its `shape: {row: N}`")
    lengths: Literal["constant", "linear", "uniform", "geometric", "heavy-tail", "many-empty", "donor"] = (
        Field(
            default="constant",
            description="constant; linear: rising to the longest, then falling; drawn; or those of the donor",
        )
    )
    longest: Annotated[Whole, Field(ge=0, le=LONGEST)] | None = Field(
        default=None, description="elements of the longest row; of each, where they are constant"
    )
    mean: Annotated[float, Field(gt=0, le=LONGEST)] | None = Field(
        default=None, description="geometric, heavy-tail: mean number of elements"
    )
    empty_share: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="many-empty: share of the rows that have no element, 0 to 1"
    )
    held: Count | None = Field(default=None, description="donor: rows in the file, which are repeated")
    elements: Count | None = Field(default=None, description="donor: elements of all rows in the file")
    seed: Whole | None = Field(default=None, description="decides what is drawn; 1 where none is given")

    @model_validator(mode="before")
    @classmethod
    def _seeded(cls, value: Any) -> Any:
        model = value.get("lengths", "constant") if isinstance(value, dict) else None
        drawn = model in MODELS and "seed" in parameters_of(str(model))
        return {"seed": 1, **value} if drawn else value

    @model_validator(mode="after")
    def _fitting_parameters(self) -> RowLengths:
        known = parameters_of(self.lengths)
        for name in ("longest", "mean", "empty_share", "held", "elements", "seed"):
            if (getattr(self, name) is None) == (name in known):
                needs = f"rows whose lengths are {self.lengths} need {', '.join(known)}"
                raise ValueError(f"{needs}, and have {'no' if name in known else 'a'} {name}")
        if self.held and self.count % self.held:
            raise ValueError(
                f"count {self.count:,} should be a multiple of the {self.held:,} rows that are held"
            )
        return self

    def words(self) -> str:
        """Return how many rows there are and how long they are, in a few words."""
        known = {"longest": "up to {:,} elements", "mean": "{:g} in the mean", "empty_share": "{:.0%} empty"}
        given = self.model_dump(include=set(known), exclude_none=True)
        parts = [known[name].format(value) for name, value in given.items()]
        if self.lengths == "constant":
            parts = [f"{self.longest:,} elements each"]
        return f"{self.count:,} rows, lengths {self.lengths}: {', '.join(parts)}"

    def described(self) -> dict[str, Any]:
        """Return what decides the lengths of however many rows a case has."""
        return self.model_dump(exclude_none=True, exclude={"count"})


class WriteRows(Strict):
    """How all rows are written: a number of rows for each call, or {call, datasets, growing}."""

    call: Annotated[Rows, Forms(ROWS_FORMS)] = Field(description="rows that one call writes")
    datasets: Count = Field(
        default=1, description="datasets in one file, which the calls write in turn, a block of rows each"
    )
    growing: Flag = Field(default=False, description="whether datasets begin empty and grow with every call")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"call": value}


class ReadRows(Strict):
    """Which rows are read: a number of them in a run, or {rows, scattered, call}."""

    rows: Annotated[Rows, Forms(ROWS_FORMS)] = Field(description="how many rows one selection has")
    scattered: Flag = Field(
        default=False, description="whether the rows lie anywhere, each at most once, instead of in a run"
    )
    call: Count | None = Field(
        default=None, description="rows that one call reads; by default as many as 16 MiB hold"
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"rows": value}

    @model_validator(mode="after")
    def _fitting(self) -> ReadRows:
        if self.scattered and (self.rows == "all" or self.call):
            raise ValueError("scattered rows are a number of rows, read in one call")
        return self


class FollowRows(Strict):
    """How rows are appended while others read them: rows a call, or {call, readers, poll_ms}.

    Every call is flushed before the next.
    """

    call: Count = Field(description="rows that one call appends")
    readers: Annotated[Whole, Field(ge=0, le=MOST_READERS)] = Field(
        default=1, description="processes that read rows as they come; 0: the same appends alone"
    )
    poll_ms: Annotated[float, Field(ge=0, le=MOST_POLL_MS)] = Field(
        default=1.0, description="how long a reader that finds nothing new waits before it looks again, ms"
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return value if isinstance(value, dict) else {"call": value}
