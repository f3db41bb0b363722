"""What a study file may say: dataset, layouts, cases, sites, rounds, criteria. Strictly checked."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyperslab.layouts.hdf5_schema import Settings as Settings
from hyperslab.studies import case_kinds
from hyperslab.studies.case_kinds.kind import Kind
from hyperslab.studies.claims.schema import Claim
from hyperslab.studies.worker_schema import Counts, Parallel
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Count as Count
from hyperslab.validation.models import Name as Name
from hyperslab.validation.models import Strict as Strict
from hyperslab.validation.models import Text as Text
from hyperslab.validation.models import Whole as Whole

DType = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64"
]
ITEMSIZE = {name: int(name.lstrip("uintfloa")) // 8 for name in get_args(DType)}
State = Literal["cold", "warm", "session"]
Strategy = Literal["whole", "chunk", "spectrum", "spectra-block"]
Extent = Count | Literal["all"]
Block = dict[Name, Count | Literal["all", "chunk"]]
# What pydantic would report form by form, in one sentence.
SELECTION_FORMS = (
    "a mapping of axes to extents, 'all' or {extent, step, block}, such as {z: 25} or "
    "{y: {extent: 100, step: 4, block: 2}}"
)
WRITE_FORMS = (
    f"one of {', '.join(get_args(Strategy))}, or a mapping of axes to extents, 'all' or 'chunk', "
    "such as {x: 1, y: chunk, z: all}"
)
REDUCE_FORMS = "a mapping of one axis to a number of planes, such as {z: 25}"
LARGEST_BYTES = 2**62
# Far more than a statistic needs; rounds write new files each.
MOST_ROUNDS = 1000
MOST_REPEATS = 100_000
# Columns of which a source may give numbers (results/columns.py).
Published = Literal["total_s", "write_s", "call_mean_s", "file_bytes"]


Rounds = Annotated[Whole, Field(ge=0, le=MOST_ROUNDS)]
Repeats = dict[Literal["cold", "warm", "session", "write"], Annotated[Count, Field(le=MOST_REPEATS)]]
# Products of weights, bounds and sizes stay finite.
Factor = Annotated[float, Field(le=1e9)]


class Stride(Strict):
    """Of every `step` elements along an axis the first `block`, within an extent."""

    extent: Extent = "all"
    step: Annotated[Whole, Field(ge=2)]
    block: Count = 1


Selection = dict[Name, Extent | Stride]


class DonorFile(Strict):
    """A real file whose values fill the array."""

    path: Text
    dataset: Text | None = None
    window: list[Count] | None = None


class Dataset(Strict):
    """Shape, type and content of the array, in array terms."""

    axes: list[Name] = Field(min_length=1)
    shape: list[Count] = Field(min_length=1)
    dtype: DType = "uint16"
    fill: Literal["mixed", "constant-per-spectrum", "random-below-256", "counts"] = "mixed"
    donor: DonorFile | None = None

    @model_validator(mode="before")
    @classmethod
    def _shape_of_a_donor(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("donor") and not given.keys() & {"shape", "axes"}:
            raise ValueError(
                "has a donor, but neither axes nor shape; `python -m hyperslab.draft FILE::DATASET` writes a "
                "study with those of a file"
            )
        return given

    @model_validator(mode="after")
    def _one_name_an_axis(self) -> Dataset:
        if len(self.axes) != len(self.shape) or len(set(self.axes)) != len(self.axes):
            raise ValueError(f"axes {self.axes} and shape {self.shape} need one distinct name an axis")
        if len(self.axes) > 32:
            raise ValueError("HDF5 knows at most 32 dimensions")
        if self.nbytes > LARGEST_BYTES:
            raise ValueError(f"shape {self.shape} is beyond any file system")
        if self.fill == "random-below-256" and self.dtype == "int8":
            raise ValueError("fill random-below-256 needs a dtype that holds 255, not int8")
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


class Grid(BaseModel):
    """Many layouts at once: every combination of the variables' values.

    What else stands in it says the layouts, whose extents may be variables of `over`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Text
    over: dict[Name, Annotated[list[Count], Field(min_length=1)]] = Field(min_length=1, max_length=2)

    @property
    def layout(self) -> dict[str, Any]:
        """What the grid says of each of its layouts, variables not filled in."""
        return dict(self.model_extra or {})


class Case(Strict):
    """What is timed: a selection, a write strategy, many small datasets, or what several workers do.

    Exactly one field has the name of a kind (studies/case_kinds).
    """

    title: Text | None = None
    read: Annotated[Selection | None, Forms(SELECTION_FORMS)] = None
    write: Annotated[Strategy | Block | None, Forms(WRITE_FORMS)] = None
    # The axis of which each index becomes a dataset of its own.
    objects: Name | None = None
    # The variance of a run of planes, split along an axis among workers; how many, one case each.
    reduce: Annotated[Selection | None, Forms(REDUCE_FORMS)] = None
    parallel: Parallel | None = None
    processes: Counts | None = None
    ranks: Counts | None = None
    split: Name | None = None
    pattern: Literal["checkerboard"] | None = None
    memory_dtype: DType | None = None
    states: list[State] = ["cold", "warm"]
    repeats: Repeats = {}
    layouts: list[str] = Field(default=["*"], min_length=1)
    shape: dict[Name, Count] = {}
    sites: list[str] = Field(default=["*"], min_length=1)

    @model_validator(mode="after")
    def _one_kind(self) -> Case:
        if wrong := case_kinds.mistake(self):
            raise ValueError(wrong)
        if len(set(self.states)) != len(self.states) or not self.states:
            raise ValueError("states: each of cold, warm, session at most once, at least one")
        return self

    @property
    def kind(self) -> Kind:
        """What kind of case it is: the one of which it gives the field."""
        return next(kind for name, kind in case_kinds.KINDS.items() if getattr(self, name) is not None)


class Criterion(Strict):
    """A bound on one statistic of one case, or on the file size; a layout's score is how many it meets."""

    case: str | None = None
    state: State | Literal["write"] = "session"
    statistic: Literal["median_s", "max_s", "first_access_s", "mean_s", "file_bytes"] = "median_s"
    below: Annotated[float, Field(gt=0)]
    title: Text | None = None


class Score(Strict):
    """The score's criteria, and the layouts that a published study found to meet them all."""

    criteria: list[Criterion]
    published: list[str] = []
    target: Count = 8


class Recommendation(Strict):
    """How the recommended layout is chosen."""

    weights: dict[str, Annotated[Factor, Field(ge=0)]] = {}
    states: list[State] = Field(default=["cold"], min_length=1)
    size_bound: Annotated[Factor, Field(gt=0)] = 1.15
    # Whether a layout that changes values may be recommended.
    lossy: Annotated[bool, Field(strict=True)] = False
    confirm_rounds: Rounds = 3


class Study(Strict):
    """One study file."""

    title: Text
    source: Text | None = None
    dataset: Dataset
    settings: dict[str, Any] = {}
    # Each is checked by the model of its format (studies/layout_expansion.py).
    layouts: dict[Name, dict[str, Any] | None] = {}
    grids: list[Grid] = []
    cases: dict[Name, Case] = Field(min_length=1)
    sites: Annotated[
        Annotated[list[Name], Field(min_length=1)] | Literal["all"],
        Forms("a list of names of sites, or 'all'"),
    ] = "all"
    rounds: Annotated[Rounds, Field(gt=0)] = 3
    repeats: Repeats = {}
    seed: Whole = 1
    score: Score | None = None
    recommendation: Recommendation = Recommendation()
    tradeoff: list[str] = []
    claims: dict[Name, Claim] = {}
    # The source's own numbers, shown beside the measured ones: case -> layout -> statistic.
    published: dict[str, dict[str, dict[Published, Annotated[float, Field(gt=0)]]]] = {}
    # other-node: a file is written on another node of the job than reads it.
    reader: Literal["any", "other-node"] = "any"
