"""What a study may say of one filter or codec: its name, and parameters of the format's own table of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from hyperslab.layouts.parameters import Parametrised, check_parameters, known, spelt_out
from hyperslab.validation.models import Strict, Whole


class WithParameters(Strict):
    """One of a format's filters or codecs; further parameters are fields of the format's own model."""

    table: ClassVar[Mapping[str, Parametrised]]

    name: str = Field(description="the filter")
    level: Whole | None = Field(default=None, description="effort of a compressor")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return spelt_out(value, cls.table)

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return known(name, cls.table)

    @model_validator(mode="after")
    def _fitting_parameters(self) -> WithParameters:
        check_parameters(self.name, self.model_dump(exclude_none=True, exclude={"name"}), self.table)
        return self
