"""Say how a file of yours should be stored for the way it is read: probe, predict, and write what to measure.

It writes a study of the few layouts that are predicted to be best, today's and contiguous, which Snakemake
then measures; `make advise` does both and makes one page of it, results/advice-NAME/advice.html.
"""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.advising import reads as reading
from hyperslab.advising.candidates import CODECS, Candidate, Filter
from hyperslab.advising.choice import Asked, Choice, choose
from hyperslab.advising.found import Found, arrays, flow, look, meant, shortened
from hyperslab.advising.model import Array, Predicted
from hyperslab.advising.probe import storage
from hyperslab.data.donor_paths import SEPARATOR, is_hdf5
from hyperslab.formats.donor_files import DonorError, check, converted, open_donor
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.site_checks import check_roots
from hyperslab.records import write_record
from hyperslab.sites import roots
from hyperslab.sites.configuration import load_sites
from hyperslab.text import megabytes, shape
from hyperslab.validation.errors import ConfigurationError, name_mistake
from hyperslab.validation.nearest import choices

# What a study that this command wrote begins with: only such a one is written over.
WRITTEN = "# Written by `make advise`, which writes it anew; copy it under another name to keep a change."
TODAY = "as-it-is"
# Each cell writes a file of its own, and all of them are to be measured within a minute.
LARGEST_BYTES = 64 * 10**6
# So many new layouts are measured, and of more than FEW_READS fewer, for an answer in about the same time.
MEASURED, FEW_READS, MEASURED_OF_MANY = 5, 3, 3
ROUNDS, COLD = 3, 7
# So many predictions are kept for the page.
KEPT = 40


class Refused(Exception):
    """What cannot be advised on; the text is one line with the fix."""


def say(text: str) -> None:
    """Print how far it is."""
    print(f"hyperslab.advise: {text}", file=sys.stderr, flush=True)


def array_of(given: str) -> Found:
    """Return the array that is meant; raises Refused with a line to copy where it is not clear which."""
    path, _, dataset = given.partition(SEPARATOR)
    file = Path(path).expanduser()
    if not dataset and file.is_file() and h5py.is_hdf5(file):
        found = arrays(file)
        if len(wide := meant(found)) != 1:
            lines = [
                f"    make advise FILE={file}{SEPARATOR}{name}    # {shape(found[name])}" for name in wide
            ]
            raise Refused(
                "\n".join(
                    [
                        f"{file}: which array? Copy a line:"
                        if wide
                        else f"{file}: holds no array of numbers",
                        *lines,
                    ]
                )
            )
    return look(file, dataset or None)


def today(found: Found, extents: Sequence[int]) -> tuple[str | None, Candidate | None]:
    """Return the name of today's layout in the study, and the candidate that it is; None where unknown."""
    if found.other_filters or not is_hdf5(found.file):
        return None, None
    if found.chunks is None:
        return "contiguous", Candidate(None)
    filters = []
    for one in found.filters:
        name, level = next(iter(one.items())) if isinstance(one, dict) else (one, None)
        filters.append(Filter(name, (("level", level),) if level is not None else ()))
    chunks = tuple(min(part, size) for part, size in zip(found.chunks, extents, strict=True))
    return TODAY, _Named(chunks, tuple(filters))


class _Named(Candidate):
    """Today's layout, under the name that it has in the study."""

    @property
    def name(self) -> str:
        return TODAY


def lines(found: Found, extents: Sequence[int], reads: Sequence[reading.Read], choice: Choice, site: str,
          bound: float) -> Iterator[str]:  # fmt: skip
    """Yield the lines of the study that measures a choice."""
    donor = {"path": str(found.file), **({"dataset": found.dataset} if found.dataset else {})}
    name = f"{found.file.name}{SEPARATOR}{found.dataset}" if found.dataset else found.file.name
    recommendation: dict[str, Any] = {"size_bound": bound, "confirm_rounds": 0}
    if any(read.weight is not None for read in reads):
        recommendation = {"mix": reading.shares(reads), **recommendation}
    yield WRITTEN
    yield f"title: {flow(f'How should {name} be stored?')}"
    yield "dataset:"
    yield f"  axes: {flow(found.axes)}"
    yield f"  shape: {list(extents)}"
    yield f"  dtype: {found.dtype}"
    yield f"  donor: {flow(donor)}"
    yield "layouts:"
    for one in choice.measured:
        yield f"  {flow(one.candidate.name)}: {flow(one.candidate.layout())}"
    yield "cases:"
    for read in reads:
        box = dict(zip(found.axes, read.extent, strict=True))
        case = {"title": _title(read, extents), "read": box, "states": ["cold"]}
        yield f"  {flow(read.name)}: {flow(case)}"
    yield f"repeats: {{cold: {COLD}}}"
    yield f"rounds: {ROUNDS}"
    yield f"recommendation: {flow(recommendation)}"
    if len(reads) > 1:
        yield f"tradeoff: {flow([read.name for read in reads[:2]])}"
    yield f"sites: [{flow(site)}]"


def _title(read: reading.Read, extents: Sequence[int]) -> str:
    box = [
        "all" if one == size and size > 1 else str(one)
        for one, size in zip(read.extent, extents, strict=True)
    ]
    return f"{read.name} of {' x '.join(box)}"


def _values(found: Found, extents: Sequence[int]) -> Any:
    """Return the part of the array that is measured, in memory."""
    part = tuple(slice(0, size) for size in extents)
    with open_donor(found.file, found.dataset) as array:
        return converted(np.asarray(array[part]), np.dtype(found.dtype), found.file)


def advise(options: argparse.Namespace) -> str:
    """Probe, predict and write the study and its prediction; return the study's name.

    Raises DonorError, ConfigurationError, ReadMistake and Refused before anything is written.
    """
    begun, wall = time.monotonic(), time.time()
    found = array_of(options.array)
    stem = options.name or re.sub(r"[^A-Za-z0-9_.+-]+", "-", found.file.stem).strip("-.") or "mine"
    name = f"advice-{stem}"
    if wrong := name_mistake(name):
        raise Refused(f"the name of a study {wrong}; give another with NAME=")
    study_file, results = options.studies / f"{name}.yaml", Path("results") / name
    if study_file.exists() and not study_file.read_text(encoding="utf-8").startswith(WRITTEN):
        raise ConfigurationError(study_file, "", "is there already and yours; give another name with NAME=")
    extents = shortened(found.shape, found.itemsize, options.largest_mb * 10**6)
    guessed = not options.reads
    whole = (
        reading.parse(options.reads, found.axes, found.shape)
        if options.reads
        else reading.usual(found.axes, found.shape)
    )
    reads = reading.cropped(whole, extents)
    sites = load_sites(options.sites)
    site = options.site or next(iter(sites))
    if site not in sites:
        raise ConfigurationError(options.sites, "", f"no site {site!r}; there are {choices(site, sites)}")
    if sites[site]["executor"] != "local":
        raise Refused(
            f"site {site} is reached through {sites[site]['executor']}; name one of this machine with SITE="
        )
    check(
        {
            "shape": extents,
            "dtype": found.dtype,
            "donor": {"path": str(found.file), **({"dataset": found.dataset} if found.dataset else {})},
        }
    )
    array = Array(tuple(extents), found.itemsize)
    raw = math.prod(extents) * found.itemsize
    todays_name, todays = today(found, extents)
    root = Path(sites[site]["root"])
    if not roots.identity_of(str(root)):
        roots.prepare(str(root), roots.Root())
    say(f"probing {site} ({root})")
    probed = storage(root)
    values = _values(found, extents)
    at_probed = time.monotonic()
    say(
        f"probed in {at_probed - begun:.1f} s: {probed.latency_s * 1e6:.0f} µs until a read begins, "
        f"{1e-6 / probed.ahead_s:,.0f} MB/s read ahead"
    )
    asked = Asked(array, reads, options.filters, options.size_bound * raw, options.seconds)
    count = MEASURED if len(reads) <= FEW_READS else MEASURED_OF_MANY
    choice = choose(asked, values, probed, todays if todays and todays.chunks else None, count, say)
    if choice.predicted[0].file_bytes > asked.most_bytes:
        raise Refused(
            f"no layout is predicted to have at most {megabytes(asked.most_bytes)}; "
            f"raise SIZE_BOUND={options.size_bound:g}"
        )
    done = time.monotonic()
    say(
        f"predicted in {done - at_probed:.1f} s; to be measured: "
        f"{', '.join(one.candidate.name for one in choice.measured)}"
    )
    _write(
        study_file,
        "\n".join(lines(found, extents, reads, choice, site, options.size_bound)) + "\n",
        {site: sites[site]},
        options.sites,
    )
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    write_record(results / "prediction.json", {
        "file": str(found.file), "dataset": found.dataset, "shape": found.shape, "measured_shape": extents,
        "axes": found.axes, "dtype": found.dtype, "raw_bytes": raw, "site": site, "today": todays_name,
        "unnamed_filters": found.other_filters, "guessed": guessed, "filters": options.filters,
        "reads": [asdict(read) for read in whole], "size_bound": options.size_bound,
        "probed": asdict(probed), "considered": choice.considered,
        "predicted": [_said(one) for one in choice.predicted[:KEPT]],
        "measured": [_said(one) for one in choice.measured],
        "began_wall_s": wall,
            "seconds": {"probe": at_probed - begun, "predict": done - at_probed},
    })  # fmt: skip
    return name


def _said(one: Predicted) -> dict[str, Any]:
    return {"layout": one.candidate.name, "times": dict(one.times), "file_bytes": one.file_bytes}


def _write(file: Path, text: str, sites: dict[str, Any], sites_file: Path) -> None:
    """Write the study as it loads and has room; what does not is taken back. Raises ConfigurationError."""
    before = file.read_text(encoding="utf-8") if file.exists() else None
    file.write_text(text, encoding="utf-8")
    try:
        check_roots(PlannedStudy(file), list(sites), sites, sites_file)
    except BaseException:
        if before is None:
            file.unlink()
        else:
            file.write_text(before, encoding="utf-8")
        raise


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    local = Path("config/sites.local.yaml")
    parser = argparse.ArgumentParser(prog="python -m hyperslab.advise", description=__doc__)
    parser.add_argument("array", metavar="FILE[::DATASET]", help="your array, such as mine.h5::/counts")
    parser.add_argument(
        "--reads", default="", help=f"how it is read, such as {reading.EXAMPLE}; otherwise usual ways"
    )
    parser.add_argument("--name", default="", help="of the study, after advice-; otherwise that of the file")
    parser.add_argument(
        "--filters",
        choices=list(CODECS),
        default="any",
        help="what the readers of the file have: those of HDF5 itself, or hdf5plugin, too",
    )
    parser.add_argument(
        "--size-bound", type=float, default=1.15, help="largest file, relative to the array without filters"
    )
    parser.add_argument(
        "--site", default="", help="where it is measured; otherwise the first of the file of sites"
    )
    parser.add_argument(
        "--sites",
        type=Path,
        default=local if local.exists() else Path("config/sites.yaml"),
        help="the file of sites",
    )
    parser.add_argument(
        "--largest-mb",
        type=int,
        default=LARGEST_BYTES // 10**6,
        help="of the array that is measured; a longer one is cut",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="to predict in")
    parser.add_argument("--studies", type=Path, default=Path("config/studies"), help="where studies lie")
    options = parser.parse_args(arguments)
    if options.largest_mb < 1 or not options.size_bound > 0 or not options.seconds > 0:
        parser.error("--largest-mb, --size-bound and --seconds should be above 0")
    if not options.studies.is_dir():
        sys.exit(f"hyperslab.advise: {options.studies}: no such directory; run it where the Snakefile is")
    try:
        print(advise(options))
    except (Refused, reading.ReadMistake, DonorError, ConfigurationError, OSError, UnicodeError) as error:
        sys.exit(f"hyperslab.advise: {error}")


if __name__ == "__main__":
    main()
