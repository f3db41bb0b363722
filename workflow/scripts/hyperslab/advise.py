"""Say how an array should be stored for the way it is read: probe, predict, and write what to measure.

Named by a file on the command line, or asked for by a study (`advise: …`). It writes a study of the few
layouts that are predicted to be best, today's and contiguous, which Snakemake then measures, and what was
predicted; `make advise` does both and makes one page of it, results/advice-NAME/advice.html.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hyperslab.advising import at_sites, budget, prospect, study_text
from hyperslab.advising import reads as reading
from hyperslab.advising.budget import TooShort
from hyperslab.advising.copies import TwoCopies
from hyperslab.advising.probe import storage_of_file
from hyperslab.advising.prospect import NoneFits
from hyperslab.advising.reads import Read
from hyperslab.advising.subject import Subject, Unclear, subject_of
from hyperslab.data.donor_paths import NotThere
from hyperslab.formats.donor_files import DonorError
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.site_checks import check_roots
from hyperslab.records import write_record
from hyperslab.sites.configuration import load_sites
from hyperslab.studies import advised
from hyperslab.studies.advice_schema import AdviceStudy, Advise
from hyperslab.text import listing, megabytes, seconds, shape
from hyperslab.validation.errors import ConfigurationError, name_mistake, validate


class Refused(Exception):
    """What cannot be advised on; the text is one line with the fix."""


# What a user may get wrong, each with a text of one line.
MISTAKES = (
    Refused, at_sites.OutOfReach, reading.ReadMistake, DonorError, ConfigurationError, NotThere, Unclear,
    TooShort, NoneFits, OSError, UnicodeError,
)  # fmt: skip


def say(text: str) -> None:
    """Print how far it is."""
    print(f"hyperslab.advise: {text}", file=sys.stderr, flush=True)


def reads_of(asked: Advise, subject: Subject) -> list[Read]:
    """Return how the array is read: as asked, else in usual ways; raises ReadMistake."""
    if not asked.reads:
        return reading.usual(subject.axes, subject.shape)
    if isinstance(asked.reads, str):
        if asked.mix:
            raise reading.ReadMistake("mix: say `3 x NAME: …` in the line of reads")
        return reading.parse(asked.reads, subject.axes, subject.shape)
    return reading.of_mapping(asked.reads, asked.mix, subject.axes, subject.shape)


def _from_prediction(
    subject: Subject, asked: Advise, reads: Sequence[Read], site: Mapping[str, Any]
) -> Refused:
    """Return the advice for a site where nothing can be written, in one line: from prediction alone."""
    if subject.found is None:
        return Refused(f"{site['root']} cannot be written, and there is no file to probe it by")
    try:
        probe = storage_of_file(subject.found.file, Path(tempfile.gettempdir()), site["read_ahead_bytes"])
    except ValueError as error:
        return Refused(f"{site['root']} cannot be written, and {error}")
    effort = budget.Effort(1, 1)
    chosen = prospect.Part(subject.shape, effort, reads)
    with prospect.in_place(subject) as values:
        found = prospect.foresee(subject, asked, reads, chosen, values, {site["name"]: probe}, 1e9, say)
    best = found.sites[site["name"]]["predicted"][0]
    times = listing([f"{name} in {seconds(value)}" for name, value in best["times"].items()])
    return Refused(
        f"{site['root']} cannot be written, so that nothing was measured; predicted from probes of "
        f"{subject.found.file}: {best['layout']} reads {times}, {megabytes(best['file_bytes'])}"
    )


def advise(study_file: Path, study: AdviceStudy, sites_file: Path) -> None:
    """Probe, predict, and write the study that measures, with its prediction, into results/NAME.

    Raises what is among MISTAKES before anything is written there.
    """
    begun, wall = time.monotonic(), time.time()
    asked = study.advise
    subject = subject_of(asked)
    whole = reads_of(asked, subject)
    sites = load_sites(sites_file)
    names = at_sites.named(asked.sites, sites, sites_file)
    for name in names:
        if sites[name]["executor"] == "local" and not at_sites.writable(Path(sites[name]["root"])):
            raise _from_prediction(subject, asked, whole, sites[name])
    if asked.seconds is not None:
        budget.check(asked.seconds, len(whole), len(prospect.always(subject)))
    found = {}
    for name in names:
        say(f"probing {name} ({sites[name]['root']})")
        found[name] = at_sites.probed(sites[name], "zarr" in asked.formats)
        ahead = f"{1e-6 / found[name].ahead_s:,.0f} MB/s read ahead"
        say(f"{found[name].latency_s * 1e6:.0f} µs until a read begins, {ahead}")
    at_probed = time.monotonic()
    part = prospect.part(subject, asked, whole, found, at_probed - begun)
    results = Path("results") / study_file.stem
    _check_room(results, subject.part(part.extents), subject.itemsize)
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    try:
        donor = results / "donor.npy"
        say(f"reading {shape(part.extents)} of {shape(subject.shape)}")
        values = prospect.values_of(subject, part.extents, donor)
        at_read = time.monotonic()
        left = part.seconds * (1 - budget.PREDICTING_SHARE) - (at_read - begun)
        foreseen = prospect.foresee(subject, asked, whole, part, values, found, left, say)
        done = time.monotonic()
        text = study_text.measuring(
            study, subject, part.extents, part.reads, foreseen.layouts, foreseen.effort, names
        )
        advised.place(study_file.stem).write_text(text, encoding="utf-8")
        planned = PlannedStudy(study_file)
        check_roots(
            planned, [name for name in names if sites[name]["executor"] == "local"], sites, sites_file
        )
        if donor.exists():
            donor.rename(results / f"donor.{planned.donor_digest}.npy")
        write_record(results / "prediction.json", {
            "array": subject.words, "has_file": subject.found is not None,
            "shape": subject.shape, "measured_shape": part.extents,
            "axes": subject.axes, "dtype": subject.spec["dtype"], "today": subject.today(part.extents)[0],
            "raw_bytes": planned.dataset.nbytes, "whole_bytes": subject.raw_bytes,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "unnamed_filters": bool(subject.found and subject.found.other_filters),
            "guessed": not asked.reads, "reads": [asdict(read) for read in whole], "asked": asked.asked(),
            "state": asked.state, "began_wall_s": wall, "limit_s": part.seconds,
            "seconds": {"probe": at_probed - begun, "read": at_read - at_probed, "predict": done - at_read},
            "sites": foreseen.sites, "copies": _copies(foreseen.copies, whole),
        })  # fmt: skip
    except BaseException:
        shutil.rmtree(results, ignore_errors=True)
        with suppress(OSError):
            results.parent.rmdir()
        raise
    new = ", ".join(one.name for one in foreseen.layouts)
    say(
        f"predicted in {done - at_read:.1f} s; to be measured in {part_words(part.extents, subject)}: {new}, "
        f"about {foreseen.round_seconds * foreseen.effort.rounds:.0f} s at each site"
    )


def _copies(pair: TwoCopies | None, reads: Sequence[Read]) -> dict[str, Any] | None:
    """Return which copy serves which reads, as JSON has it."""
    if pair is None:
        return None
    first = [read.name for read in reads if read.name not in pair.reads]
    served = [(pair.first.name, first), (pair.second.name, list(pair.reads))]
    return {"layout": pair.name, "reads": dict(served)}


def part_words(extents: Sequence[int], subject: Subject) -> str:
    """Return how much of the array is measured, in words."""
    return "all of it" if list(extents) == subject.shape else f"the first {shape(list(extents))}"


def _check_room(results: Path, spec: Mapping[str, Any], itemsize: int) -> None:
    """Raise Refused where the copy of the values does not fit beside the results."""
    if not spec.get("donor"):
        return
    needed = itemsize
    for extent in spec["shape"]:
        needed *= extent
    there = os.statvfs(next(parent for parent in (results, *results.absolute().parents) if parent.exists()))
    if there.f_bavail * there.f_frsize < 1.1 * needed:
        raise Refused(f"{results} has no room for {megabytes(needed)} of values; free some, or lower SECONDS")


def _study_of(options: argparse.Namespace) -> tuple[Path, AdviceStudy]:
    """Return the study that asks for advice: one by its file, or what the command line says, written."""
    if options.study:
        return options.study, advised.question(options.study)
    given = {
        "file": options.array, "reads": options.reads, "filters": options.filters, "formats": options.formats,
        "orders": options.orders, "state": options.state, "size_bound": options.size_bound,
        "sites": options.sites_named, "seconds": options.seconds,
    }  # fmt: skip
    asked = validate(Advise, {key: value for key, value in given.items() if value}, Path("make advise"), "")
    # Which array it is has to be clear before the study has a name.
    file = subject_of(asked).found
    assert file is not None
    stem = options.name or re.sub(r"[^A-Za-z0-9_.+-]+", "-", file.file.stem).strip("-.") or "mine"
    if wrong := name_mistake(f"advice-{stem}"):
        raise Refused(f"the name of a study {wrong}; give another with NAME=")
    path = options.studies / f"advice-{stem}.yaml"
    if path.exists() and not path.read_text(encoding="utf-8").startswith(study_text.WRITTEN):
        raise ConfigurationError(path, "", "is there already and yours; give another name with NAME=")
    asked = asked.model_copy(update={"file": str(file.file) + (f"::{file.dataset}" if file.dataset else "")})
    return path, AdviceStudy(advise=asked)


def run(options: argparse.Namespace) -> str:
    """Write what is to be measured, and return the study's name; what fails leaves no study behind."""
    path, study = _study_of(options)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    if not options.study:
        path.write_text(study_text.asking(study.advise), encoding="utf-8")
    try:
        advise(path, study, options.sites)
    except BaseException:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
        raise
    return path.stem


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    local = Path("config/sites.local.yaml")
    parser = argparse.ArgumentParser(prog="python -m hyperslab.advise", description=__doc__)
    add = parser.add_argument
    add("array", nargs="?", metavar="FILE[::DATASET]", help="your array, such as mine.h5::/counts")
    add("--study", type=Path, help="a study that says `advise: …`, instead of all but --sites")
    add("--reads", default="", help=f"how it is read, such as {reading.EXAMPLE}; otherwise usual ways")
    add("--name", default="", help="of the study, after advice-; otherwise that of the file")
    add("--filters", default="", help="what readers have: builtin (of HDF5 itself), or any (hdf5plugin, too)")
    add("--formats", nargs="+", default=[], help="hdf5, zarr")
    add("--orders", default="", help="orders of the axes: file, or any")
    add("--state", default="", help="cold or warm")
    add("--size-bound", type=float, default=0.0, help="largest file, relative to the array without filters")
    add("--site", dest="sites_named", nargs="+", default=[], help="where it is measured")
    add("--sites", type=Path, default=local if local.exists() else Path("config/sites.yaml"))
    add("--seconds", type=float, default=0.0, help="how long all of it may take")
    add("--studies", type=Path, default=Path("config/studies"), help="where studies lie")
    options = parser.parse_args(arguments)
    if bool(options.array) == bool(options.study):
        parser.error("name an array, or a study with --study")
    if not options.studies.is_dir():
        sys.exit(f"hyperslab.advise: {options.studies}: no such directory; run it where the Snakefile is")
    try:
        print(run(options))
    except MISTAKES as error:
        sys.exit(f"hyperslab.advise: {error}")


if __name__ == "__main__":
    main()
