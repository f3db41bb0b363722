"""What a study may say of a claim: its sentence, the published number, and comparisons with their bounds.

A bound comes from the document and never follows a result; a reading that came after one says so.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hyperslab.studies.claims.bound_schema import Bound
from hyperslab.validation.models import Count, Name, Strict, Whole

Kind = Literal[
    "value", "ratio", "fastest", "slope", "count", "crossover", "optimum", "full_marks", "matched_marks"
]
# Under this name stand claims that no study tests.
NO_STUDY = ""


class Side(Strict):
    """Which rows: layouts by name, glob or with variables in braces; a case; a state; and what is looked at.

    Several layouts count with their geometric mean. `where` keeps the values of variables in braces that it
    lists. `per` divides by other rows, which are those of this side in all that it does not say.
    """

    layouts: str | list[str] | None = Field(
        default=None, description="names, patterns, or names with variables in braces"
    )
    where: dict[Name, list[Whole]] = Field(
        default={}, description="values of variables in braces that are kept"
    )
    case: str | None = Field(default=None, description="the case")
    state: str | None = Field(default=None, description="the state")
    of: str | None = Field(default=None, description="the quantity: a statistic, or a count")
    per: Side | None = Field(default=None, description="rows by which these are divided")


class Comparison(Bound):
    """One atomic comparison, or one for each value of `for_all`; claims.kinds says what a kind compares."""

    says: str = Field(description="the comparison in words")
    kind: Kind | None = Field(default=None, description="what is compared")
    a: Side = Field(description="the rows that are compared")
    b: Side | None = Field(default=None, description="the rows with which they are compared")
    for_all: dict[Name, Annotated[list[Whole | str], Field(min_length=1)]] = Field(
        default={}, description="variables, and the values for each of which it is made"
    )
    over: Name | None = Field(
        default=None, description="the variable along which a slope, a crossover or an optimum lies"
    )
    counting: Bound | None = Field(default=None, description="what a layout has to be to be counted")
    published: str | None = Field(default=None, description="the source's number")
    why: str | None = Field(
        default=None, description="why this bound: the words of the sentence that ask for it"
    )
    judged: bool = Field(
        default=True,
        description="whether it decides the verdict; a count beside a claim about times does not",
    )


class SiteKind(Strict):
    """Which sites: by name, type of file system, whether they are throttled, and least physical cores.

    Sites whose file systems lie in memory have nothing to be cold, and are left out unless asked for.
    """

    sites: list[str] = Field(default=["*"], description="names or patterns of sites")
    file_system: list[str] = Field(default=[], description="types of file system")
    throttled: bool | None = Field(default=None, description="whether the sites are throttled")
    cores: Count | None = Field(default=None, description="least physical cores")
    in_memory: bool = Field(default=False, description="whether sites in memory count")
    words: str | None = Field(default=None, description="what the claim calls them")


class Across(Strict):
    """A claim that compares two kinds of site: side `a` lies on one, side `b` on the other."""

    a: SiteKind = Field(description="the sites of side a")
    b: SiteKind = Field(description="the sites of side b")


class Claim(Strict):
    """A sentence of a source document, and what would show whether it holds.

    `testability` is V (reproducible), D (its direction), S (at a smaller scale) or X (not without the
    original machines); `untestable` says why nothing is compared.
    """

    sentence: str = Field(description="the sentence of the source")
    source: str = Field(description="the source")
    section: str = Field(description="where it stands there")
    testability: Annotated[str, Field(pattern=r"^[VDSX](/[VDSX])?$")] = Field(
        description="V (reproducible), D (its direction), S (at a smaller scale) or X (not at all)"
    )
    reading: str | None = Field(
        default=None, description="how the sentence is read here, where it can be read in two ways"
    )
    left: str | None = Field(
        default=None, description='why it stays at "cannot tell" here, shown as long as it does'
    )
    could: bool = Field(
        default=False,
        description="the sentence says that it can be so: one that holds is enough, all have to fail",
    )
    published: str | None = Field(default=None, description="the source's numbers")
    comparisons: list[Comparison] = Field(default=[], description="what would show whether it holds")
    untestable: str | None = Field(default=None, description="why nothing is compared")
    figure: str | None = Field(default=None, description="the figure that shows it")
    at: SiteKind = Field(default=SiteKind(), description="the sites at which it is judged")
    across: Across | None = Field(default=None, description="two kinds of site that it compares")
    explains: str | None = Field(default=None, description="a claim that this one may explain")
    explanation: str | None = Field(default=None, description="the explanation in a few words")
    goal: str | None = Field(
        default=None,
        description="what this project set itself beside the sentence, before anything was measured: its "
        "verdict is whether that was reached, and is not counted among those of the source",
    )

    @model_validator(mode="after")
    def _tested_or_not(self) -> Claim:
        if bool(self.comparisons) == bool(self.untestable):
            raise ValueError("needs either comparisons, or the reason why it is `untestable`")
        if (self.explains is None) != (self.explanation is None):
            raise ValueError("`explains` and `explanation` come together")
        if self.across and "at" in self.model_fields_set:
            raise ValueError("`at` and `across` cannot both say where")
        if self.comparisons and not any(comparison.judged for comparison in self.comparisons):
            raise ValueError("at least one comparison must be judged")
        return self
