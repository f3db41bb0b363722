"""The plan by which advice is judged: arrays, how they are read, and sites (config/advice-judge.yaml)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from hyperslab.advising.reads import ReadMistake, of_mapping
from hyperslab.studies.advice_schema import LEAST_SECONDS
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.studies.schema import Extent, Factor
from hyperslab.validation.errors import Forms, validate
from hyperslab.validation.models import Name, Strict
from hyperslab.validation.nearest import choices
from hyperslab.validation.yaml_files import read_yaml

# Of an advice, where the plan says nothing, seconds.
USUAL_S = 60.0
READS_FORMS = "a mapping of names to boxes, such as {image: [all, all, 1], spectrum: {x: 1, y: 1}}"
SECONDS_FORMS = (
    f"seconds from {LEAST_SECONDS:g} on, or a mapping of sites to such, as in {{disk: 60, portal: 120}}"
)
Seconds = Annotated[Factor, Field(ge=LEAST_SECONDS)]


class JudgedArray(Strict):
    """An array, how it is read, and how often each read happens: by each of its mixes there is an advice."""

    dataset: Dataset = Field(description="the array, and what fills it")
    reads: Annotated[dict[Name, list[Extent] | dict[Name, Extent]], Forms(READS_FORMS)] = Field(
        description="how it is read"
    )
    mixes: dict[Name, dict[str, Annotated[Factor, Field(ge=0)]]] = Field(
        min_length=1, description="how often each read happens; an empty one is advice without a mix"
    )

    @model_validator(mode="after")
    def _can_be_read(self) -> JudgedArray:
        if self.dataset.rows:
            raise ValueError("dataset.rows: advice is for arrays")
        asked: dict[str, dict[str, float]] = {"reads": {}}
        asked |= {f"mixes.{name}": mix for name, mix in self.mixes.items()}
        for place, mix in asked.items():
            try:
                of_mapping(self.reads, mix, self.dataset.axes, self.dataset.shape)
            except ReadMistake as error:
                raise ValueError(f"{place}: {error}") from None
        return self


class Plan(Strict):
    """What is judged: arrays, and the sites at which each is asked for."""

    sites: list[Name] = Field(min_length=1, description="where each is advised on and measured")
    seconds: Annotated[Seconds | dict[Name, Seconds], Forms(SECONDS_FORMS)] = Field(
        default=USUAL_S, description="how long an advice may take, at all sites or at some"
    )
    arrays: dict[Name, JudgedArray] = Field(min_length=1, description="what is advised on, by names")

    @model_validator(mode="after")
    def _names_sites(self) -> Plan:
        if len(set(self.sites)) != len(self.sites):
            raise ValueError("sites: each at most once")
        for site in self.seconds if isinstance(self.seconds, dict) else ():
            if site not in self.sites:
                raise ValueError(f"seconds: no site {site!r}; there are {choices(site, self.sites)}")
        return self


def plan_of(file: Path) -> dict[str, Any]:
    """Return what a plan says; raises ConfigurationError."""
    return validate(Plan, read_yaml(file), file).model_dump(mode="json", exclude_none=True)
