"""What a column of a table is: its type, its unit, what it holds, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Type = Literal["text", "whole number", "number", "yes or no"]


@dataclass(frozen=True)
class Column:
    """A column: what it holds, the unit of its numbers ("" for words, counts and ratios), and its type."""

    meaning: str
    unit: str = ""
    type: Type = "number"
    # It is what the file says of itself, under the same name in a record.
    of_file: bool = False
    # The summary holds it, too: it is the same for all repeats of a round.
    in_summary: bool = False
    # What stands for it in a record that is older than the column; None: nothing is known.
    before: float | None = None


def text(meaning: str, in_summary: bool = False) -> Column:
    """Return a column of words."""
    return Column(meaning, type="text", in_summary=in_summary)


def seconds(meaning: str) -> Column:
    """Return a column of seconds."""
    return Column(meaning, "s")


def size(meaning: str, in_summary: bool = False) -> Column:
    """Return a column of bytes."""
    return Column(meaning, "bytes", in_summary=in_summary)


def yes_no(meaning: str) -> Column:
    """Return a column that says yes or no."""
    return Column(meaning, type="yes or no")


def whole(meaning: str) -> Column:
    """Return a column of whole numbers, none of which may be missing."""
    return Column(meaning, type="whole number")


def said_by_files(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return columns of what files say of themselves."""
    return {name: replace(column, of_file=True) for name, column in columns.items()}
