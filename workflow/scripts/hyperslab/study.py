"""A study as its YAML file gives it: dataset, layouts, cases, sites, rounds, criteria. Strictly checked."""

from __future__ import annotations

import fnmatch
import itertools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hyperslab import chunks as arithmetic
from hyperslab.errors import NAME_PATTERN, NAME_RULE, ConfigurationError, read_yaml, validate

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


class Layout(Strict):
    """How the array is stored."""

    format: Literal["hdf5"] = "hdf5"
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
        if (self.read is None) == (self.write is None):
            raise ValueError("a case has either `read` (a selection) or `write` (a strategy)")
        if len(set(self.states)) != len(self.states) or not self.states:
            raise ValueError("states: each of cold, warm, session at most once, at least one")
        return self

    @property
    def kind(self) -> str:
        """ "read" or "write"."""
        return "read" if self.read is not None else "write"


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


REPEATS: dict[str, int] = {"cold": 15, "warm": 25, "session": 50, "write": 10}


def _extended(file: Path, seen: tuple[Path, ...] = ()) -> Any:
    """A study's content on top of the study that it `extends`.

    `dataset`, `settings` and `repeats` are merged key by key; every other key replaces the other study's.
    """
    content = read_yaml(file)
    if not isinstance(content, dict) or "extends" not in content:
        return content
    name = content.pop("extends")
    others = {path.stem: path for path in sorted(file.parent.glob("*.yaml")) if path not in (file, *seen)}
    if not isinstance(name, str) or name not in others:
        raise ConfigurationError(
            file, "extends", f"{name!r} is not another study; there are {', '.join(others)}"
        )
    merged = _extended(others[name], (file, *seen))
    # A mistake in the other study is one of its own file.
    validate(Study, merged, others[name])
    for key in ("dataset", "settings", "repeats"):
        if isinstance(content.get(key), dict) and isinstance(merged.get(key), dict):
            content[key] = {**merged[key], **content[key]}
    return {**merged, **content}


class LoadedStudy:
    """A valid study with its grids expanded and every default filled in.

    `layouts` and `cases` map names to plain dictionaries, ready for specifications.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.stem
        self.study = validate(Study, _extended(file), file)
        self.dataset = self.study.dataset
        validate(Settings, self.study.settings, file, "settings")
        self.grid_values: dict[str, dict[str, int]] = {}
        self.layouts = self._expand_layouts()
        self.cases = {name: self._resolve_case(name, case) for name, case in self.study.cases.items()}
        self._check_criteria()

    def _fail(self, path: str, message: str) -> ConfigurationError:
        return ConfigurationError(self.file, path, message)

    # Layouts

    def _expand_layouts(self) -> dict[str, dict[str, Any]]:
        layouts: dict[str, dict[str, Any]] = {}
        for name, layout in self.study.layouts.items():
            layouts[name] = self._resolve_layout(f"layouts.{name}", layout or Layout())
        for position, grid in enumerate(self.study.grids):
            for combination in itertools.product(*grid.over.values()):
                values = dict(zip(grid.over, combination, strict=True))
                path = f"grids.{position}"
                try:
                    name = grid.name.format(**values)
                except (KeyError, IndexError, ValueError, AttributeError, TypeError):
                    variables = ", ".join("{" + variable + "}" for variable in grid.over)
                    raise self._fail(f"{path}.name", f"only {variables} can be filled in") from None
                if not re.fullmatch(NAME_PATTERN, name):
                    raise self._fail(f"{path}.name", f"{NAME_RULE}, not {name!r}")
                if name in layouts:
                    raise self._fail(
                        f"{path}.name", f"duplicate layout {name!r}; every layout needs its own name"
                    )
                for extent in grid.chunks:
                    if isinstance(extent, str) and extent != "all" and extent not in values:
                        raise self._fail(
                            f"{path}.chunks", f"unknown variable {extent!r}; `over` has {', '.join(values)}"
                        )
                chunks = [values.get(str(extent), extent) for extent in grid.chunks]
                layout = Layout.model_validate(
                    {
                        "chunks": chunks,
                        "order": grid.order,
                        "filters": [f.model_dump(exclude_none=True) for f in grid.filters],
                        "settings": grid.settings,
                    }
                )
                layouts[name] = self._resolve_layout(f"{path} ({name})", layout)
                self.grid_values[name] = values
        if not layouts:
            raise self._fail("layouts", "a study needs at least one layout (under `layouts` or `grids`)")
        self._refuse_twins(layouts)
        return layouts

    def _refuse_twins(self, layouts: dict[str, dict[str, Any]]) -> None:
        seen: dict[str, str] = {}
        for name, layout in layouts.items():
            content = repr(sorted((key, value) for key, value in layout.items() if key != "label"))
            if content in seen and layout["label"] is None:
                raise self._fail(
                    f"layouts.{name}",
                    f"duplicate layout: the same as {seen[content]!r} "
                    "(give it a `label` to compare a layout with itself)",
                )
            seen.setdefault(content, name)

    def _resolve_layout(self, path: str, layout: Layout) -> dict[str, Any]:
        dataset = self.dataset
        shape, axes = dataset.shape, dataset.axes
        order = layout.order or axes
        if sorted(order) != sorted(axes):
            raise self._fail(f"{path}.order", f"{order} must name each of {axes} once")
        chunks = layout.chunks
        resolved: list[int] | None = None
        if chunks == "auto":
            on_disk = arithmetic.automatic_chunk([shape[axes.index(a)] for a in order], dataset.itemsize)
            resolved = [on_disk[order.index(a)] for a in axes]
        elif chunks is not None:
            if len(chunks) != len(shape):
                raise self._fail(
                    f"{path}.chunks", f"{chunks} needs {len(shape)} extents, one for each of {axes}"
                )
            resolved = [
                size if extent == "all" else int(extent) for extent, size in zip(chunks, shape, strict=True)
            ]
            if any(extent > size for extent, size in zip(resolved, shape, strict=True)):
                raise self._fail(f"{path}.chunks", f"{resolved} is larger than the array {shape}")
            if math.prod(resolved) * dataset.itemsize >= 2**32:
                raise self._fail(
                    f"{path}.chunks", f"{resolved} has 4 GiB or more; an HDF5 chunk must be smaller"
                )
        if layout.filters and resolved is None:
            raise self._fail(f"{path}.filters", "filters need chunks; a contiguous dataset cannot have any")
        for chosen in layout.filters:
            block = chosen.block or SZIP_BLOCK
            if chosen.name == "szip" and resolved and math.prod(resolved) < block:
                raise self._fail(
                    f"{path}.filters", f"a chunk of {resolved} is smaller than szip's block, {block}"
                )
        settings = validate(
            Settings, {**self.study.settings, **layout.settings}, self.file, f"{path}.settings"
        )
        return {
            "format": layout.format,
            "chunks": resolved,
            "order": list(order),
            "filters": [chosen.model_dump(exclude_none=True) for chosen in layout.filters],
            "settings": settings.model_dump(),
            "label": layout.label,
        }

    # Cases

    def _resolve_case(self, name: str, case: Case) -> dict[str, Any]:
        path = f"cases.{name}"
        axes = self.dataset.axes
        shape = dict(zip(axes, self.dataset.shape, strict=True))
        for axis, extent in case.shape.items():
            if axis not in shape or extent > shape[axis]:
                raise self._fail(f"{path}.shape.{axis}", f"not an axis, or longer than the array's {shape}")
            shape[axis] = extent
        block = case.write if isinstance(case.write, dict) else None
        box: Mapping[str, int | str] = case.read or block or {}
        for axis, asked in box.items():
            key = f"{path}.{case.kind}.{axis}"
            if axis not in shape:
                raise self._fail(key, f"no such axis; the dataset has {', '.join(axes)}")
            if isinstance(asked, int) and asked > shape[axis]:
                raise self._fail(key, f"extent {asked} does not fit: axis {axis} has {shape[axis]}")
        for pattern in case.layouts:
            if not fnmatch.filter(self.layouts, pattern):
                raise self._fail(f"{path}.layouts", f"{pattern!r} matches no layout of this study")
        repeats: Mapping[Any, int] = REPEATS | self.study.repeats | case.repeats
        resolved: dict[str, Any] = {
            "kind": case.kind,
            "shape": [shape[axis] for axis in axes],
            "layouts": [n for n in self.layouts if any(fnmatch.fnmatchcase(n, p) for p in case.layouts)],
            "sites": list(case.sites),
            "title": case.title or name,
        }
        if case.read is not None:
            resolved["extent"] = [
                shape[axis] if case.read.get(axis, "all") == "all" else case.read[axis] for axis in axes
            ]
            resolved["states"] = list(case.states)
            resolved["repeats"] = {state: repeats[state] for state in case.states}
        else:
            resolved["strategy"] = case.write if isinstance(case.write, str) else "box"
            resolved["block"] = block
            resolved["states"] = ["write"]
            resolved["repeats"] = {"write": repeats["write"]}
        for layout_name in resolved["layouts"]:
            chunk = self.layouts[layout_name]["chunks"]
            if case.shape and chunk and any(c > s for c, s in zip(chunk, resolved["shape"], strict=True)):
                raise self._fail(
                    f"{path}.shape", f"the chunks {chunk} of {layout_name} do not fit {resolved['shape']}"
                )
        return resolved

    def _check_criteria(self) -> None:
        score = self.study.score
        for position, criterion in enumerate(score.criteria if score else []):
            path = f"score.criteria.{position}.case"
            if criterion.statistic == "file_bytes":
                continue
            if criterion.case not in self.cases:
                raise self._fail(path, f"no case {criterion.case!r}; the study has {', '.join(self.cases)}")
            if criterion.state not in self.cases[criterion.case]["states"]:
                raise self._fail(
                    path, f"case {criterion.case!r} is not measured in state {criterion.state!r}"
                )
        for name in self.study.recommendation.weights:
            if name not in self.cases:
                raise self._fail(
                    "recommendation.weights", f"no case {name!r}; the study has {', '.join(self.cases)}"
                )
        for name in self.study.tradeoff:
            if name not in self.cases or self.cases[name]["kind"] != "read":
                raise self._fail("tradeoff", f"{name!r} is not a read case of this study")
