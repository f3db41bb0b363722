"""What a study file may say: dataset, layouts, cases, sites, rounds, criteria. Strictly checked."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hyperslab.errors import NAME_PATTERN
from hyperslab.formats import FORMATS

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
# Strict, or `yes` would be the number 1.
Whole = Annotated[int, Field(strict=True)]
Count = Annotated[Whole, Field(gt=0)]
DType = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"
]
ITEMSIZE = {name: int(name.lstrip("uintfloa")) // 8 for name in get_args(DType)}
State = Literal["cold", "warm", "session"]
Strategy = Literal["whole", "chunk", "spectrum", "spectra-block"]
Chunks = list[Count | Literal["all"]] | Literal["auto"]
Selection = dict[Name, Count | Literal["all"]]
Block = dict[Name, Count | Literal["all", "chunk"]]
# What pydantic would report form by form, in one sentence.
CHUNKS_FORMS = "a list with an extent or 'all' for each axis, or 'auto'"
SELECTION_FORMS = "a mapping of axes to extents or 'all', such as {z: 25}"
WRITE_FORMS = (
    f"one of {', '.join(get_args(Strategy))}, or a mapping of axes to extents, 'all' or 'chunk', "
    "such as {x: 1, y: chunk, z: all}"
)
LARGEST_BYTES = 2**62
# Fields of a case of which it has exactly one (case_kinds.py).
KINDS = ("read", "write")
# What szip takes where a study names no block (formats/filters.py).
SZIP_BLOCK = 16


class Strict(BaseModel):
    """A mapping in which a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DonorFile(Strict):
    """A real file whose values fill the array."""

    path: str
    dataset: str | None = None
    window: list[Count] | None = None


class Dataset(Strict):
    """Shape, type and content of the array, in array terms."""

    axes: list[Name]
    shape: list[Count]
    dtype: DType = "uint16"
    fill: Literal["mixed", "constant-per-spectrum"] = "mixed"
    donor: DonorFile | None = None

    @model_validator(mode="after")
    def _one_name_an_axis(self) -> Dataset:
        if len(self.axes) != len(self.shape) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"axes {self.axes} and shape {self.shape} need one distinct name an axis")
        if len(self.axes) > 32:
            raise ValueError("HDF5 knows at most 32 dimensions")
        if self.nbytes > LARGEST_BYTES:
            raise ValueError(f"shape {self.shape} is beyond any file system")
        if self.donor and self.donor.window and len(self.donor.window) != len(self.shape):
            raise ValueError(f"donor.window needs {len(self.shape)} extents, one an axis")
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEMSIZE[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of the raw array."""
        return math.prod(self.shape) * self.itemsize


class Filter(Strict):
    """One HDF5 filter with its parameters."""

    name: Literal["gzip", "shuffle", "fletcher32", "lzf", "szip"]
    level: Annotated[Whole, Field(ge=0, le=9)] | None = None
    block: Annotated[Whole, Field(ge=2, le=32)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        # "gzip" and {gzip: 4} read better in a study than {name: gzip, level: 4}.
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and len(value) == 1 and "name" not in value:
            ((name, parameter),) = value.items()
            return {"name": name, ("block" if name == "szip" else "level"): parameter}
        return value

    @model_validator(mode="after")
    def _fitting_parameter(self) -> Filter:
        if self.level is not None and self.name != "gzip":
            raise ValueError(f"{self.name} has no level; only gzip has one (0 to 9)")
        if self.block is not None and self.name != "szip":
            raise ValueError(f"{self.name} has no block; only szip has one (even, 2 to 32)")
        if self.block is not None and self.block % 2:
            raise ValueError(f"szip's block should be even (2 to 32), not {self.block}")
        return self


class Settings(Strict):
    """Library settings in force while a file is written and read."""

    chunk_cache_bytes: Annotated[Whole, Field(ge=0)] = 8 * 2**20
    chunk_cache_slots: Count = 8191
    chunk_cache_w0: Annotated[float, Field(ge=0, le=1)] = 0.75
    sieve_bytes: Count = 65536
    libver: Literal["earliest", "v108", "v110", "v112", "v114", "latest"] = "earliest"


def _known_format(name: str) -> str:
    if name not in FORMATS:
        raise ValueError(f"should be {' or '.join(map(repr, FORMATS))}")
    return name


class Layout(Strict):
    """How the array is stored."""

    format: Annotated[str, AfterValidator(_known_format)] = "hdf5"
    chunks: Chunks | None = Field(default=None, description=CHUNKS_FORMS)
    order: list[Name] | None = None
    filters: list[Filter] = []
    settings: dict[str, Any] = {}
    label: str | None = None


class Grid(Strict):
    """Many layouts at once: every combination of the variables' values."""

    name: str
    over: dict[Name, Annotated[list[Count], Field(min_length=1)]] = Field(min_length=1, max_length=2)
    chunks: list[Count | Literal["all"] | Name] = Field(
        description="a list of extents, 'all' or variables of `over`"
    )
    order: list[Name] | None = None
    filters: list[Filter] = []
    settings: dict[str, Any] = {}
    # Lets the grid's layouts equal others, to compare a layout with itself.
    label: str | None = None


class Case(Strict):
    """What is timed: a selection (`read`) or a write strategy (`write`)."""

    title: str | None = None
    read: Selection | None = Field(default=None, description=SELECTION_FORMS)
    write: Strategy | Block | None = Field(default=None, description=WRITE_FORMS)
    states: list[State] = ["cold", "warm"]
    repeats: dict[Literal["cold", "warm", "session", "write"], Count] = {}
    layouts: list[str] = ["*"]
    shape: dict[Name, Count] = {}
    sites: list[str] = ["*"]

    @model_validator(mode="after")
    def _one_kind(self) -> Case:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError("a case has either `read` (a selection) or `write` (a strategy)")
        if len(set(self.states)) != len(self.states) or not self.states:
            raise ValueError("states: each of cold, warm, session at most once, at least one")
        return self

    @property
    def kind(self) -> str:
        """The one of KINDS that the case gives."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)


class Criterion(Strict):
    """A bound on one statistic of one case, or on the file size; a layout's score is how many it meets."""

    case: str | None = None
    state: State | Literal["write"] = "session"
    statistic: Literal["median_s", "max_s", "first_access_s", "mean_s", "file_bytes"] = "median_s"
    below: Annotated[float, Field(gt=0)]
    title: str | None = None


class Score(Strict):
    """The score's criteria, and the layouts that a published study found to meet them all."""

    criteria: list[Criterion]
    published: list[str] = []
    target: Count = 8


class Recommendation(Strict):
    """How the recommended layout is chosen."""

    weights: dict[str, Annotated[float, Field(ge=0)]] = {}
    states: list[State] = ["cold"]
    size_bound: Annotated[float, Field(gt=0)] = 1.15
    confirm_rounds: Annotated[Whole, Field(ge=0)] = 3


class Study(Strict):
    """One study file."""

    title: str
    source: str | None = None
    dataset: Dataset
    settings: dict[str, Any] = {}
    layouts: dict[Name, Layout | None] = {}
    grids: list[Grid] = []
    cases: dict[Name, Case] = Field(min_length=1)
    sites: list[Name] | Literal["all"] = Field(
        default="all", description="a list of names of sites, or 'all'"
    )
    rounds: Count = 3
    repeats: dict[Literal["cold", "warm", "session", "write"], Count] = {}
    seed: Whole = 1
    score: Score | None = None
    recommendation: Recommendation = Recommendation()
    tradeoff: list[str] = []
    # other-node: a file is written on another node of the job than reads it.
    reader: Literal["any", "other-node"] = "any"
