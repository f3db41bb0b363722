"""Draft a study of a file of yours: its axes, shape and type, layouts to compare and ways to read it.

The draft is a file like any other in config/studies: cut what you never ask, say what you ask more often.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hyperslab.advising.found import LARGEST_BYTES, Found, flow, look, shortened
from hyperslab.data.donor_paths import SEPARATOR
from hyperslab.formats.donor_files import check
from hyperslab.formats.donor_opening import DonorError
from hyperslab.layouts.chunks import automatic_chunk, even_chunks
from hyperslab.planning.estimates import estimated_seconds
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.progress import about
from hyperslab.text import megabytes
from hyperslab.validation.errors import ConfigurationError, name_mistake

# Where a run looks for studies.
STUDIES = Path("config/studies")
# About how large the chunks are that a draft compares, by name.
CHUNKS = {"chunks-64K": 2**16, "chunks-256K": 2**18, "chunks-1M": 2**20}
FILTERED = "chunks-256K"
# Reads of more axes than these would be more than anybody compares at first.
MOST_CASES = 4


def _layouts(found: Found, shape: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return layouts to compare: no chunks, the library's, the file's own, even ones, filtered ones."""
    wanted: list[tuple[str, list[int] | None, list[Any]]] = [("contiguous", None, [])]
    wanted.append(("auto", list(automatic_chunk(shape, found.itemsize)), []))
    if found.chunks and not found.unknown:
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
    longer = [axis for axis, extent in zip(found.axes, shape[:-1], strict=False) if extent > 1]
    # Beside one longer axis it would be what is read at one of that.
    if len(shape) > 2 and not (len(longer) == 1 and f"one-{longer[0]}" in cases):
        others = dict.fromkeys(found.axes[:-1], 1)
        cases[f"along-{found.axes[-1]}"] = {"title": f"a line along {found.axes[-1]}", "read": others}
    return cases or {"all": {"title": "all of it", "read": {found.axes[0]: "all"}}}


def lines(found: Found, largest: int = LARGEST_BYTES) -> Iterator[str]:
    """Yield the lines of the draft."""
    shape = shortened(found.shape, found.itemsize, largest)
    donor = {"path": str(found.file), **({"dataset": found.dataset} if found.dataset else {})}
    name = f"{found.file.name}{SEPARATOR}{found.dataset}" if found.dataset else found.file.name
    cases = _cases(found, shape)
    yield f"title: {flow(f'How should {name} be stored?')}"
    yield "dataset:"
    yield f"  axes: {flow(found.axes)}"
    if shape != found.shape:
        yield f"  # The file's is {found.shape}; the array is a part of it, since every cell writes its own."
    yield f"  shape: {shape}"
    yield f"  dtype: {found.dtype}"
    yield f"  donor: {flow(donor)}"
    yield "layouts:"
    for key, layout in _layouts(found, shape).items():
        if key == "as-it-is" and layout["chunks"] != found.chunks:
            yield f"  # The file's chunks, {found.chunks}, are cut to this array, and so are read faster."
        yield f"  {flow(key)}: {flow(layout) if layout else ''}".rstrip()
    yield "# What is read: cut what you never do, and raise in `mix` what you do most."
    yield "cases:"
    for key, case in cases.items():
        yield f"  {flow(key)}: {flow({**case, 'states': ['cold', 'warm']})}"
    yield f"recommendation: {{mix: {flow(dict.fromkeys(cases, 1))}}}"
    if len(cases) > 1:
        yield f"tradeoff: {flow(list(cases)[-2:])}"
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
    if study.file.parent.resolve() == STUDIES.resolve():
        yield "Look it through, then see what would run, and run it:"
    else:
        yield f"Look it through, and move it to {STUDIES}. Then see what would run, and run it:"
    yield f"  .venv/bin/snakemake --profile profiles/local --dry-run results/{study.name}/report.html"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m hyperslab.draft", description=__doc__)
    parser.add_argument("array", metavar="FILE[::DATASET]", help="your array, such as mine.h5::/counts")
    parser.add_argument("--name", help="name of the study; otherwise that of the file")
    parser.add_argument("--directory", type=Path, default=STUDIES, help="where studies lie")
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
