"""What a study file may say: layouts, cases, sites, rounds, criteria. Strictly checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyperslab.studies import case_kinds
from hyperslab.studies.case_kinds.kind import Kind
from hyperslab.studies.claims.schema import Claim
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS
from hyperslab.studies.dataset_schema import Dataset, DType
from hyperslab.studies.prices_schema import Prices
from hyperslab.studies.rounds_schema import AdaptiveRounds, Rounds, RoundsOrAdaptive
from hyperslab.studies.rows_schema import FollowRows, ReadRows, WriteRows
from hyperslab.studies.sites_file_schema import SitesFile
from hyperslab.studies.worker_schema import LEAST_NODE_MEMORY, Counts, Parallel, Subvolumes
from hyperslab.validation.errors import Forms
from hyperslab.validation.models import Count, Flag, Name, Strict, Text, Whole

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
CLIENTS_FORMS = "kinds of requests by name, each a mapping of axes to extents, such as {map: {time: 1}}"
REDUCE_FORMS = "a mapping of one axis to a number of planes, such as {z: 25}"
VIEW_FORMS = "a mapping of axes to extents or 'all', such as {x: 256, y: 256}"
SUMMARIES_FORMS = "a mapping of one axis to a number of planes or 'all', such as {day: all}"
FETCH_FORMS = "true, false or 'each', where every worker copies what it needs"
LEVEL_FORMS = "a level, such as 3, or a list of levels, such as [6, 3, 0]"
MOST_REPEATS = 100_000
# Columns of which a source may give numbers (results/columns.py).
Published = Literal["total_s", "write_s", "call_mean_s", "file_bytes"]
Repeats = Annotated[
    dict[Literal["cold", "warm", "session", "write"], Annotated[Count, Field(le=MOST_REPEATS)]],
    Field(
        description="repeats within one process, by state; cold, where not given, 15, or 45 if these take "
        "less than 50 ms each"
    ),
]
# Products of weights, bounds and sizes stay finite.
Factor = Annotated[float, Field(le=1e9)]


class Stride(Strict):
    """Of every `step` elements along an axis the first `block`, within an extent."""

    extent: Extent = Field(
        default="all", description="elements from the first to the last one, or all of the axis"
    )
    step: Annotated[Whole, Field(ge=2)] = Field(description="elements from one block to the next")
    block: Count = Field(default=1, description="elements taken of every step")


Selection = dict[Name, Extent | Stride]


class Grid(BaseModel):
    """Many layouts at once: every combination of the values of one or two variables. What else stands in it
    says the layouts, such as `chunks: [m, m, n]`, whose extents may be variables of `over`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    name: Text = Field(description="name of each layout, with variables in braces")
    over: dict[Name, Annotated[list[Count], Field(min_length=1)]] = Field(
        min_length=1, max_length=2, description="one or two variables, and the values that each takes"
    )

    @property
    def layout(self) -> dict[str, Any]:
        """What the grid says of each of its layouts, variables not filled in."""
        return dict(self.model_extra or {})


class Case(Strict):
    """What is timed: a selection, a write strategy, many small datasets, or what several workers do.

    Exactly one field has the name of a kind (studies/case_kinds).
    """

    title: Text | None = Field(default=None, description="what reports call it")
    read: Annotated[Selection | None, Forms(SELECTION_FORMS)] = Field(
        default=None, description="a selection that is read: a box at random places"
    )
    write: Annotated[Strategy | Block | None, Forms(WRITE_FORMS)] = Field(
        default=None, description="the whole array is written, in this order"
    )
    read_rows: ReadRows | None = Field(default=None, description="rows that are read: a run, or scattered")
    write_rows: WriteRows | None = Field(default=None, description="all rows are written, so many a call")
    rewrite_rows: Count | None = Field(
        default=None, description="so many rows anywhere are replaced by rows of other lengths"
    )
    follow_rows: FollowRows | None = Field(
        default=None, description="rows are appended, so many a call, while other processes read them"
    )
    objects: Name | None = Field(
        default=None, description="the axis of which each index becomes a dataset of its own"
    )
    reduce: Annotated[Selection | None, Forms(REDUCE_FORMS)] = Field(
        default=None, description="the variance over so many planes, carried out by several workers"
    )
    parallel: Parallel | None = Field(default=None, description="what MPI ranks write and read at once")
    subvolumes: Subvolumes | None = Field(
        default=None, description="sub-volumes of one dataset that MPI ranks write"
    )
    resolution: Annotated[dict[Name, Extent] | None, Forms(VIEW_FORMS)] = Field(
        default=None,
        description="a box at random places that is read from coarse to fine, as a viewer does it",
    )
    summaries: Annotated[Selection | None, Forms(SUMMARIES_FORMS)] = Field(
        default=None,
        description="least, greatest, mean and deviation of each plane along an axis, missing values left "
        "out, carried out by several workers",
    )
    open_all: bool | None = Field(default=None, description="all files of the layout are found and opened")
    clients: Annotated[Annotated[dict[Name, Selection], Field(min_length=1)] | None, Forms(CLIENTS_FORMS)] = (
        Field(
            default=None,
            description="kinds of requests, mixed evenly, that several client processes make at once",
        )
    )
    requests: Annotated[Count, Field(le=MOST_REPEATS)] | None = Field(
        default=None, description="requests of a run, which the clients share evenly"
    )
    processes: Counts | None = Field(
        default=None, description="numbers of worker processes, or of clients, a case each"
    )
    ranks: Counts | None = Field(default=None, description="numbers of MPI ranks, a case each")
    dask: Counts | None = Field(default=None, description="numbers of workers of a Dask cluster, a case each")
    split: Name | None = Field(default=None, description="the axis along which workers share a reduction")
    fetch: Annotated[bool | Literal["each"] | None, Forms(FETCH_FORMS)] = Field(
        default=None,
        description="summaries: all files are copied first, and the copy is what is read; each: every worker "
        "copies the files that hold its part",
    )
    ahead: bool | None = Field(
        default=None,
        description="summaries: while one piece is computed with, the kernel already reads the next two, "
        "where a dataset lies in one piece; a cold pass over everything has a plain read of the same files "
        "beside it",
    )
    node_memory_bytes: Annotated[Count, Field(ge=LEAST_NODE_MEMORY, le=2**50)] | None = Field(
        default=None,
        description="bytes of memory of each worker, page cache included, as if it had its own node; a "
        "control group holds it to that, which only root can make",
    )
    pattern: Literal["checkerboard"] | None = Field(
        default=None,
        description="blocks and their shifted copies, where a selection has strides along two axes",
    )
    memory_dtype: DType | None = Field(
        default=None, description="type into which the library converts what is read"
    )
    level: Annotated[Whole | Annotated[list[Whole], Field(min_length=1)] | None, Forms(LEVEL_FORMS)] = Field(
        default=None,
        description="of a selection every 2^level-th element along each axis, from multiples of that; of "
        "several levels each is a case of its own; of a `resolution` case the coarsest level, or all "
        "that are read",
    )
    picture: list[Name] | None = Field(
        default=None, description="the two axes of a view's small pictures; the last two without it"
    )
    states: list[State] = Field(
        default=["cold", "warm"], description="how the page cache stands when a selection starts"
    )
    repeats: Repeats = Field(default={})
    layouts: list[str] = Field(
        default=["*"], min_length=1, description="names or patterns of the layouts that are measured"
    )
    shape: dict[Name, Count] = Field(
        default={}, description="extents of axes of which the case has less than the dataset, elements"
    )
    sites: list[str] = Field(
        default=["*"], min_length=1, description="names or patterns of the sites at which it is measured"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Case:
        if wrong := case_kinds.mistake(self):
            raise ValueError(wrong)
        if isinstance(self.level, list) and len(set(self.level)) != len(self.level):
            raise ValueError("level: each at most once")
        if len(set(self.states)) != len(self.states) or not self.states:
            raise ValueError("states: each of cold, warm, session at most once, at least one")
        return self

    @property
    def kind(self) -> Kind:
        """What kind of case it is: the one of which it gives the field."""
        return next(kind for name, kind in case_kinds.KINDS.items() if getattr(self, name) is not None)


class Criterion(Strict):
    """A bound on one statistic of one case, or on the file size; a layout's score is how many it meets."""

    case: str | None = Field(
        default=None,
        description="the case; of a bound on the file size those whose times have bounds, if none is given",
    )
    state: State | Literal["write"] = Field(
        default="session", description="the state in which it is measured"
    )
    statistic: Literal["median_s", "max_s", "first_access_s", "mean_s", "file_bytes"] = Field(
        default="median_s",
        description="what is bounded: seconds, or bytes of the file; first_access_s is opening plus "
        "selection of a cold file",
    )
    below: Annotated[float, Field(gt=0)] = Field(description="the bound: seconds, or bytes")
    title: Text | None = Field(default=None, description="what reports call it")

    @model_validator(mode="before")
    @classmethod
    def _first_access_is_cold(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("statistic") == "first_access_s":
            if given.get("state", "cold") != "cold":
                raise ValueError("first_access_s is that of a cold file; leave state out")
            return {**given, "state": "cold"}
        return given


class Score(Strict):
    """The score's criteria, and the layouts that a published study found to meet them all."""

    criteria: list[Criterion] = Field(description="the bounds; a score is how many a layout meets")
    published: list[str] = Field(default=[], description="layouts that the source found to meet them all")
    target: Count = Field(default=8, description="how many layouts the matched score lets have full marks")


class Recommendation(Strict):
    """How the recommended layout is chosen."""

    mix: dict[str, Annotated[Factor, Field(ge=0)]] = Field(
        default={},
        description="how often each case is asked, relative to the others: the expected time counts; without "
        "a mix the largest regret does, a layout's time over the best one's for that case",
    )
    imperceptible_ms: Annotated[Factor, Field(ge=0)] = Field(
        default=IMPERCEPTIBLE_MS,
        description="a time below this counts as this, because nobody notices, milliseconds",
    )
    states: list[State] = Field(default=["cold"], min_length=1, description="the states whose times count")
    size_bound: Annotated[Factor, Field(gt=0)] = Field(
        default=1.15,
        description="largest file that may be recommended, relative to the array without filters",
    )
    lossy: Flag = Field(default=False, description="whether a layout that changes values may be recommended")
    copies: Flag = Field(
        default=False, description="whether a layout of two copies in one file may be recommended"
    )
    mixed: Flag = Field(
        default=False,
        description="whether results of several places under the name of one site may be recommended from",
    )
    confirm_rounds: Rounds = Field(
        default=3, description="fresh rounds in which the finalists are measured again"
    )
    quoted: list[str] = Field(
        default=[],
        description="layouts that are measured again beside the finalists, since a text quotes them",
    )
    excluded: dict[str, Text] = Field(
        default={},
        description="layouts that are measured and never recommended, each with the reason",
    )


class Study(Strict):
    """One study file."""

    title: Text = Field(description="what the study is called")
    source: Text | None = Field(default=None, description="the document whose experiment it repeats")
    dataset: Dataset = Field(description="the array")
    settings: dict[str, Any] = Field(default={}, description="settings of HDF5 for all layouts")
    # Each is checked by the model of its format (studies/layout_expansion.py).
    layouts: dict[Name, dict[str, Any] | None] = Field(
        default={}, description="how the array is stored, by name"
    )
    grids: list[Grid] = Field(default=[], description="many layouts at once")
    cases: dict[Name, Case] = Field(min_length=1, description="what is timed, by name")
    sites: Annotated[
        Annotated[list[Name], Field(min_length=1)] | Literal["all"],
        Forms("a list of names of sites, or 'all'"),
    ] = Field(default="all", description="where it is measured; all: wherever its layouts can lie")
    sites_file: SitesFile | None = Field(
        default=None, description="what describes these sites, where config/sites.yaml does not"
    )
    rounds: RoundsOrAdaptive = Field(
        default=3,
        description="how often everything is measured anew, with new files and processes, or as often as "
        "decides",
    )
    repeats: Repeats = Field(default={})
    seed: Whole = Field(
        default=1, description="decides where selections lie and in which order cells are measured"
    )
    score: Score | None = Field(default=None, description="how many criteria each layout meets")
    recommendation: Recommendation = Field(
        default=Recommendation(), description="how the recommended layout is chosen"
    )
    tradeoff: list[str] | None = Field(
        default=None,
        description="the two read cases of the opening picture; without it the first two, [] for none",
    )
    claims: dict[Name, Claim] = Field(default={}, description="what the source claims, by number")
    keep_claims: list[Name] = Field(
        default=[], description="claims of the study that this one extends, judged by its own rows, too"
    )
    published: dict[str, dict[str, dict[Published, Annotated[float, Field(gt=0)]]]] = Field(
        default={}, description="the source's own numbers: case, layout, statistic; seconds or bytes"
    )
    prices: Prices | None = Field(
        default=None,
        description="what storage, requests and machines cost, for what answers and a month cost",
    )
    shared_files: Flag = Field(
        default=False,
        description="whether cases of one layout and round that read equal test files read one, which is "
        "written once; else each cell has its own",
    )
    reader: Literal["any", "other-node"] = Field(
        default="any", description="other-node: another node of the job reads than wrote"
    )

    @property
    def first_rounds(self) -> int:
        """Rounds of every cell."""
        return self.rounds.first if isinstance(self.rounds, AdaptiveRounds) else self.rounds

    @property
    def most_rounds(self) -> int:
        """Rounds that a cell can have; more than the first where rounds are adaptive."""
        return self.rounds.most if isinstance(self.rounds, AdaptiveRounds) else self.rounds

    @property
    def adaptive(self) -> bool:
        """Whether rounds are added for comparisons that are still open."""
        return self.most_rounds > self.first_rounds
