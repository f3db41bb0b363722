"""Draft a study of a file of yours: its axes, shape and type, layouts to compare and ways to read it.

The draft is a file like any other in config/studies: cut what you never ask, say what you ask more often.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.formats.donor_files import DonorArray, DonorError, check, open_donor
from hyperslab.layouts.chunks import automatic_chunk
from hyperslab.planning.estimates import estimated_seconds
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import about
from hyperslab.text import megabytes
from hyperslab.validation.errors import ConfigurationError, name_mistake
from hyperslab.validation.nearest import choices

# A longer array is cut for the test files: each cell writes its own.
LARGEST_BYTES = 256 * 10**6
# About how large the chunks are that a draft compares, by name.
CHUNKS = {"chunks-64K": 2**16, "chunks-256K": 2**18, "chunks-1M": 2**20}
FILTERED = "chunks-256K"
# What axes are called where the file does not say.
USUAL = {1: ["i"], 2: ["row", "column"], 3: ["x", "y", "z"], 4: ["t", "x", "y", "z"]}
# Types that a study does not know, and those that hold their values.
WIDER = {"float16": "float32", "float128": "float64"}
# Reads of more axes than these would be more than anybody compares at first.
MOST_CASES = 4


@dataclass(frozen=True)
class Found:
    """What a file says of the array to be measured: extents, type, chunks and filters in study terms."""

    file: Path
    dataset: str | None
    axes: list[str]
    shape: list[int]
    dtype: str
    chunks: list[int] | None
    filters: list[Any]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return np.dtype(self.dtype).itemsize


def look(file: Path, dataset: str | None) -> Found:
    """Return what a file says of its array; raises DonorError, also for one of several that is not named."""
    if dataset is None and file.is_file() and h5py.is_hdf5(file):
        dataset = _only_dataset(file)
    with open_donor(file, dataset) as array:
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "iuf":
            raise DonorError(f"{file}: holds {dtype}, not numbers")
        if not array.shape or 0 in array.shape:
            raise DonorError(f"{file}: has no axis to be read along: its shape is {tuple(array.shape)}")
        stored: Any = array if isinstance(array, h5py.Dataset) else None
        return Found(
            file=file.absolute(),
            dataset=dataset,
            axes=_axes(array),
            shape=list(array.shape),
            dtype=WIDER.get(dtype.newbyteorder("=").name, dtype.newbyteorder("=").name),
            chunks=list(stored.chunks) if stored and stored.chunks else None,
            filters=_filters(stored) if stored else [],
        )


def _only_dataset(file: Path) -> str:
    """Return the name of the one array of numbers with more than one axis, or with one; raises DonorError."""
    found: dict[str, int] = {}

    def visit(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape and item.size and item.dtype.kind in "iuf":
            found[f"/{name}"] = len(item.shape)

    with h5py.File(file, "r") as opened:
        opened.visititems(visit)
    wide = [name for name, axes in found.items() if axes > 1] or list(found)
    if len(wide) != 1:
        known = choices("", wide)
        raise DonorError(f"{file}: name an array of the file as {file.name}{SEPARATOR}NAME; it has {known}")
    return wide[0]


def _axes(array: DonorArray) -> list[str]:
    """Return a name for each axis: the file's labels or scales where they can be names, else usual ones."""
    count = len(array.shape)
    usual = USUAL.get(count, [f"a{number}" for number in range(count)])
    if not isinstance(array, h5py.Dataset):
        return usual
    named = []
    for dimension, fallback in zip(array.dims, usual, strict=True):
        scale = dimension[0].name if len(dimension) else ""
        text = re.sub(r"\W+", "-", dimension.label or (scale or "").rsplit("/", 1)[-1]).strip("-")
        named.append(fallback if not text or name_mistake(text) else text)
    return named if len(set(named)) == count else usual


def _filters(dataset: h5py.Dataset) -> list[Any]:
    """Return the filters of a dataset that a study can name so."""
    found: list[Any] = ["shuffle"] if dataset.shuffle else []
    if dataset.compression == "gzip":
        found.append({"gzip": dataset.compression_opts})
    elif dataset.compression == "lzf":
        found.append("lzf")
    return [*found, *(["fletcher32"] if dataset.fletcher32 else [])]


def shortened(shape: Sequence[int], itemsize: int, largest: int = LARGEST_BYTES) -> list[int]:
    """Return the shape with its longest axes cut until the array has at most `largest` bytes."""
    kept = list(shape)
    while math.prod(kept) * itemsize > largest and max(kept) > 1:
        axis = kept.index(max(kept))
        second = max([extent for at, extent in enumerate(kept) if at != axis], default=1)
        wanted = max(1, int(largest // (math.prod(kept) // kept[axis] * itemsize)))
        kept[axis] = max(wanted, min(second, kept[axis] // 2), 1)
    return kept


def even_chunks(shape: Sequence[int], itemsize: int, size: int) -> list[int]:
    """Return a chunk shape of about `size` bytes with as many chunks along every axis as axes allow.

    Planes across any axis then touch about equally many chunks.
    """
    chunk = list(shape)
    while math.prod(chunk) * itemsize > size:
        counts = [-(-extent // part) for extent, part in zip(shape, chunk, strict=True)]
        splittable = [axis for axis, part in enumerate(chunk) if part > 1]
        axis = min(splittable, key=lambda at: (counts[at], -chunk[at]))
        chunk[axis] = -(-chunk[axis] // 2)
    return chunk


def _layouts(found: Found, shape: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return layouts to compare: no chunks, the library's, the file's own, even ones, filtered ones."""
    wanted: list[tuple[str, list[int] | None, list[Any]]] = [("contiguous", None, [])]
    wanted.append(("auto", list(automatic_chunk(shape, found.itemsize)), []))
    if found.chunks:
        own = [min(part, extent) for part, extent in zip(found.chunks, shape, strict=True)]
        wanted.append(("as-it-is", own, found.filters))
    for name, size in CHUNKS.items():
        chunks = even_chunks(shape, found.itemsize, size)
        wanted.append((name, chunks, []))
        if name == FILTERED:
            wanted.append((f"{name}-gzip", chunks, ["shuffle", {"gzip": 4}]))
    layouts: dict[str, dict[str, Any]] = {}
    seen: list[tuple[list[int] | None, list[Any]]] = []
    for name, resolved, filters in wanted:
        if (resolved, filters) not in seen:
            seen.append((resolved, filters))
            chunked = {"chunks": "auto" if name == "auto" else resolved} if resolved else {}
            layouts[name] = {**chunked, **({"filters": filters} if filters else {})}
    return layouts


def _cases(found: Found, shape: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return a plane across each axis (a part of the only one), and a line along the last."""
    if len(shape) == 1:
        part = max(1, shape[0] // 100)
        return {"part": {"title": f"{part} neighbours", "read": {found.axes[0]: part}}}
    cases: dict[str, dict[str, Any]] = {}
    for axis, extent in list(zip(found.axes, shape, strict=True))[-MOST_CASES:]:
        if extent > 1:
            cases[f"one-{axis}"] = {"title": f"all at one {axis}", "read": {axis: 1}}
    if len(shape) > 2:
        others = dict.fromkeys(found.axes[:-1], 1)
        cases[f"along-{found.axes[-1]}"] = {"title": f"a line along {found.axes[-1]}", "read": others}
    return cases or {"all": {"title": "all of it", "read": {found.axes[0]: "all"}}}


def _flow(value: Any) -> str:
    """Return a value as YAML on one line; whatever is JSON is YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z](?:[\w /-]*\w)?", value)
    words = ("true", "false", "yes", "no", "on", "off", "null")
    return value if plain and value.lower() not in words else json.dumps(value, ensure_ascii=False)


def lines(found: Found, largest: int = LARGEST_BYTES) -> Iterator[str]:
    """Yield the lines of the draft."""
    shape = shortened(found.shape, found.itemsize, largest)
    donor = {"path": str(found.file), **({"dataset": found.dataset} if found.dataset else {})}
    name = f"{found.file.name}{SEPARATOR}{found.dataset}" if found.dataset else found.file.name
    cases = _cases(found, shape)
    yield f"title: {_flow(f'How should {name} be stored?')}"
    yield "dataset:"
    yield f"  axes: {_flow(found.axes)}"
    if shape != found.shape:
        yield f"  # The file's is {found.shape}; the array is a part of it, since every cell writes its own."
    yield f"  shape: {shape}"
    yield f"  dtype: {found.dtype}"
    yield f"  donor: {_flow(donor)}"
    yield "layouts:"
    for key, layout in _layouts(found, shape).items():
        yield f"  {_flow(key)}: {_flow(layout) if layout else ''}".rstrip()
    yield "# What is read: cut what you never do, and raise in `mix` what you do most."
    yield "cases:"
    for key, case in cases.items():
        yield f"  {_flow(key)}: {_flow({**case, 'states': ['cold', 'warm']})}"
    yield f"recommendation: {{mix: {_flow(dict.fromkeys(cases, 1))}}}"
    if len(cases) > 1:
        yield f"tradeoff: {_flow(list(cases)[-2:])}"
    yield "sites: all"


def draft(given: str, name: str | None, directory: Path, largest: int = LARGEST_BYTES) -> PlannedStudy:
    """Write a draft into `directory` and return it as it loads; raises DonorError and ConfigurationError."""
    path, _, dataset = given.partition(SEPARATOR)
    found = look(Path(path).expanduser(), dataset or None)
    stem = name or re.sub(r"[^A-Za-z0-9_.+-]+", "-", found.file.stem).strip("-.") or "mine"
    file = directory / f"{stem}.yaml"
    if wrong := name_mistake(stem):
        raise ConfigurationError(file, "", f"the name of a study {wrong}")
    if file.exists():
        raise ConfigurationError(file, "", "is there already; give the draft another name with --name")
    text = "\n".join(lines(found, largest)) + "\n"
    file.write_text(text, encoding="utf-8")
    try:
        study = PlannedStudy(file)
        check(study.dataset.model_dump(exclude_none=True))
    except BaseException:
        file.unlink()
        raise
    return study


def _said(study: PlannedStudy) -> Iterator[str]:
    dataset = study.dataset
    extents = " x ".join(map(str, dataset.shape))
    cells = study.cells("", "r0")
    one_round = sum(estimated_seconds(study, layout, case) for layout, case, _ in cells)
    seconds = study.study.first_rounds * one_round
    yield str(study.file)
    yield f"  {extents} {dataset.dtype}, {megabytes(dataset.nbytes)} a test file"
    yield f"  {len(study.layouts)} layouts, {len(study.cases)} cases, {about(seconds)} at each site"
    yield "Look it through, then see what would run, and run it:"
    yield f"  .venv/bin/snakemake --profile profiles/local --dry-run results/{study.name}/report.html"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m hyperslab.draft", description=__doc__)
    parser.add_argument("array", metavar="FILE[::DATASET]", help="your array, such as mine.h5::/counts")
    parser.add_argument("--name", help="name of the study; otherwise that of the file")
    parser.add_argument("--directory", type=Path, default=Path("config/studies"), help="where studies lie")
    parser.add_argument(
        "--largest-mb", type=int, default=LARGEST_BYTES // 10**6, help="of a test file; a longer array is cut"
    )
    options = parser.parse_args(arguments)
    if options.largest_mb < 1:
        parser.error("--largest-mb should be at least 1")
    if not options.directory.is_dir():
        sys.exit(f"hyperslab.draft: {options.directory}: no such directory; run it where the Snakefile is")
    try:
        study = draft(options.array, options.name, options.directory, options.largest_mb * 10**6)
    except (DonorError, ConfigurationError, OSError, UnicodeError) as error:
        sys.exit(f"hyperslab.draft: {error}")
    print("\n".join(_said(study)))


if __name__ == "__main__":
    main()
