"""A filter as a study writes it: "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from hyperslab.filters import FILTERS
from hyperslab.studies.strict import Strict, Whole

# Strict, or `yes` would be the number 1.
Real = Annotated[float, Field(strict=True)]


def _known(name: str) -> str:
    if name not in FILTERS:
        *others, last = map(repr, FILTERS)
        raise ValueError(f"should be {', '.join(others)} or {last}")
    return name


def _has(name: str, parameter: str) -> None:
    """Raise ValueError where the filter `name` has no such parameter."""
    known = FILTERS[name].parameters if name in FILTERS else {parameter: None}
    if parameter not in known:
        has = f"it has {', '.join(known)}" if known else "it has no parameter"
        raise ValueError(f"{name} has no {parameter}; {has}")


class Filter(Strict):
    """One filter of a layout with its parameters: "gzip", {gzip: 4}, or {blosc: {codec: zstd, level: 5}}."""

    name: Annotated[str, AfterValidator(_known)]
    level: Whole | None = None
    block: Whole | None = None
    coding: str | None = None
    bits: Whole | None = None
    digits: Whole | None = None
    codec: str | None = None
    shuffle: str | None = None
    accuracy: Real | None = None
    precision: Whole | None = None
    rate: Real | None = None
    reversible: Literal[True] | None = None
    absolute: Real | None = None
    psnr: Real | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and len(value) == 1 and "name" not in value:
            ((name, given),) = value.items()
            parameters = FILTERS[name].parameters if name in FILTERS else {}
            if not isinstance(given, dict):
                given = {next(iter(parameters), "level"): given}
            for parameter in given:
                _has(name, str(parameter))
            return {"name": name, **given}
        return value

    @model_validator(mode="after")
    def _fitting_parameters(self) -> Filter:
        kind = FILTERS[self.name]
        given = self.model_dump(exclude_none=True, exclude={"name"})
        for name, value in given.items():
            _has(self.name, name)
            if wrong := kind.parameters[name].mistake(value):
                raise ValueError(f"{self.name}'s {name} {wrong}, not {value!r}")
        if kind.modes and len(given.keys() & set(kind.modes)) != 1:
            raise ValueError(f"{self.name} needs exactly one of {', '.join(kind.modes)}")
        return self
