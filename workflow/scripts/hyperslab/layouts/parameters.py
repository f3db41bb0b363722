"""Parameters of filters and codecs: what each may be, and how a study writes one that has some.

One is written "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

SMALL_INTEGERS = frozenset(("uint8", "int8", "uint16", "int16"))
INTEGERS = SMALL_INTEGERS | {"uint32", "int32", "uint64", "int64"}
FLOATS = frozenset(("float32", "float64"))
NUMBERS = INTEGERS | FLOATS


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be: one of `words`, or a number from `low` to `high`.

    `default` is in force where a study gives none; without one the parameter has to be given, unless it is
    one of several modes. `treats` are the types of elements for which it means something.
    """

    low: float = 0
    high: float = math.inf
    words: tuple[str, ...] = ()
    default: int | float | str | None = None
    even: bool = False
    treats: frozenset[str] = NUMBERS

    def mistake(self, value: Any) -> str | None:
        """Return what is allowed instead of `value`; None where it is allowed."""
        if self.words:
            return None if value in self.words else f"should be {' or '.join(map(repr, self.words))}"
        if math.isfinite(value) and self.low <= value <= self.high and not (self.even and value % 2):
            return None
        span = f"{self.low:g} to {self.high:g}" if math.isfinite(self.high) else "finite and above 0"
        return f"should be {'even, ' if self.even else ''}{span}"


class Parametrised(Protocol):
    """One filter or codec: a row of a format's table of them."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """What it takes, by name; a single value in a study means the first."""


def known(name: str, table: Mapping[str, Parametrised]) -> str:
    """Return a name of the table; raises ValueError for any other."""
    if name not in table:
        *others, last = map(repr, table)
        raise ValueError(f"should be {', '.join(others)} or {last}")
    return name


def spelt_out(value: Any, table: Mapping[str, Parametrised]) -> Any:
    """Return {name: …} and its parameters for one that a study writes in short, and anything else as it is.

    Raises ValueError for a parameter that it does not have.
    """
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict) or len(value) != 1 or "name" in value:
        return value
    ((name, given),) = value.items()
    parameters = table[name].parameters if name in table else None
    if not isinstance(given, dict):
        given = {next(iter(parameters or ()), "level"): given}
    if parameters is not None:
        for parameter in given:
            _known_parameter(name, str(parameter), parameters)
    return {"name": name, **given}


def check_parameters(name: str, given: Mapping[str, Any], table: Mapping[str, Parametrised]) -> None:
    """Raise ValueError where the one called `name` has no such parameter, or not with such a value."""
    parameters = table[name].parameters
    for parameter, value in given.items():
        _known_parameter(name, parameter, parameters)
        if wrong := parameters[parameter].mistake(value):
            raise ValueError(f"{name}'s {parameter} {wrong}, not {value!r}")


def in_short(chosen: Mapping[str, Any], table: Mapping[str, Parametrised]) -> str:
    """Return one in short, its first parameter without a name: "zstd 3", "blosc lz4 shuffle bit"."""
    plain = next(iter(table[chosen["name"]].parameters), None)
    given = {key: value for key, value in chosen.items() if key != "name"}
    words = [str(value) if key == plain else f"{key} {value}" for key, value in given.items()]
    return " ".join([chosen["name"], *words])


def _known_parameter(name: str, parameter: str, parameters: Mapping[str, Parameter]) -> None:
    if parameter not in parameters:
        has = f"it has {', '.join(parameters)}" if parameters else "it has no parameter"
        raise ValueError(f"{name} has no {parameter}; {has}")
