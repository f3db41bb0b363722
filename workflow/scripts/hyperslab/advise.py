"""Say how an array should be stored for the way it is read: probe, predict, and write what to measure.

Named by a file on the command line, or asked for by a study (`advise: …`). It writes a study of the few
layouts that are predicted to be best, today's and contiguous, which Snakemake then measures, and what was
predicted; `make advise` does both and makes one page of it, results/advice-NAME/advice.html.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hyperslab.advising import Refused, at_sites, budget, exchange, foretold, prospect, study_text
from hyperslab.advising import reads as reading
from hyperslab.advising.budget import TooShort
from hyperslab.advising.candidates import HDF5
from hyperslab.advising.probe import Probe
from hyperslab.advising.prospect import NoneFits
from hyperslab.advising.reads import Read
from hyperslab.advising.subject import TODAY, Subject, Unclear, check_named, subject_of
from hyperslab.data.donor_paths import NotThere, located
from hyperslab.formats.donor_opening import DonorError
from hyperslab.formats.hdf5.filter_setters import of_plugins
from hyperslab.planning.planned_study import PlannedStudy
from hyperslab.planning.site_checks import check_results, check_roots
from hyperslab.records import write_record
from hyperslab.sites.configuration import Expansion, configured_file, load_sites
from hyperslab.studies import advised
from hyperslab.studies.advice_schema import AdviceStudy, Advise
from hyperslab.text import duration, listing, seconds, shape, significant, volume
from hyperslab.validation.errors import ConfigurationError, name_mistake, validate

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
    if asked.reads is None:
        if asked.mix:
            raise reading.ReadMistake("mix: says how often reads happen, and there are no `reads`")
        return reading.usual(subject.axes, subject.shape)
    if isinstance(asked.reads, str):
        if asked.mix:
            raise reading.ReadMistake("mix: say `3 x NAME: …` in the line of reads")
        return reading.parse(asked.reads, subject.axes, subject.shape)
    return reading.of_mapping(asked.reads, asked.mix, subject.axes, subject.shape)


def _from_prediction(subject: Subject, asked: Advise, reads: Sequence[Read], site: Mapping[str, Any]) -> str:
    """Return the advice for a site where nothing can be written, in one line: from prediction alone.

    Raises OutOfReach and Refused.
    """
    if subject.found is None:
        raise Refused(f"{site['root']} cannot be written, and there is no file to probe it by")
    asked = asked.model_copy(update={"formats": [HDF5]})
    # That of a virtual dataset has none of its values.
    file = max(subject.found.holders, key=lambda holder: holder.stat().st_size)
    storage = at_sites.probed(site, False, file).storage
    chosen = prospect.Part(subject.shape, budget.Effort(1, 1), reads)
    values = prospect.sampled(subject, reads, asked.seconds or budget.USUAL_S)
    found = prospect.foresee(subject, asked, reads, chosen, values, {site["name"]: storage}, 1e9, say)
    best = found.sites[site["name"]].choice.predicted[0]
    times = listing([f"{name} in {duration(value)}" for name, value in best.times.items()])
    layout = "today's layout" if best.candidate.name == TODAY else best.candidate.name
    elsewhere = ", which lies on another device" if _elsewhere(subject, site) else ""
    guessed = "" if asked.reads is not None else " (reads that are guessed)"
    return (
        f"{site['root']} cannot be written, so that nothing was measured; predicted from probes of "
        f"{file}{elsewhere}: {layout} reads {times}{guessed}, {volume(best.file_bytes)}"
    )


def _writable(
    subject: Subject, asked: Advise, reads: Sequence[Read], sites: Expansion, names: Sequence[str]
) -> list[str]:
    """Return the sites among `names` that can be written, and say what is predicted of the others.

    Raises Refused where there are none.
    """
    closed = [
        name
        for name in names
        if sites[name]["executor"] == "local" and not at_sites.writable(Path(sites[name]["root"]))
    ]
    told = [_from_prediction(subject, asked, reads, sites[name]) for name in closed]
    if len(closed) == len(names):
        raise Refused("; ".join(told))
    for line in told:
        say(line)
    return [name for name in names if name not in closed]


def advise(
    name: str, study: AdviceStudy, sites_file: Path, executor: str | None = None,
    known: Subject | None = None, spent: float = 0.0,
) -> None:  # fmt: skip
    """Probe, predict, and write the study that measures, with its prediction, into results/NAME.

    `executor` is how its jobs will be run and `known` the array that is meant, where these are known; `spent`
    are the seconds that are gone.
    Raises what is among MISTAKES; what lay there before stays until all is written, and then its pages do.
    """
    exchange.check_idle(Path("results") / name)
    begun, wall = time.monotonic() - spent, time.time() - spent
    asked = study.advise
    subject = known or subject_of(asked)
    whole = reads_of(asked, subject)
    sites = load_sites(sites_file)
    names = at_sites.named(asked.sites, sites, sites_file, executor)
    names = _writable(subject, asked, whole, sites, names)
    if asked.seconds is not None:
        budget.check(asked.seconds, len(whole), len(prospect.always(subject)))
    with exchange.beside(Path("results") / name) as results:
        probes = {site: _probed(sites[site], asked, sites_file) for site in names}
        at_probed = time.monotonic()
        storages = {site: one.storage for site, one in probes.items()}
        part = prospect.part(subject, asked, whole, storages, at_probed - begun)
        if asked.seconds is None and part.seconds > budget.usual(storages.values()):
            say(f"so many reads take about {part.seconds:.0f} s; SECONDS says how long it may take")
        if subject.spec.get("donor"):
            needed = subject.itemsize * math.prod(part.extents)
            check_results(needed, "values; free some, or lower SECONDS")
        donor = results / "donor.npy"
        say(f"reading {shape(part.extents)} of {shape(subject.shape)}")
        values = prospect.values_of(subject, part.extents, donor)
        at_read = time.monotonic()
        # The run that measures opens the file once more.
        left = part.seconds * (1 - budget.PREDICTING_SHARE) - (at_read - begun) - part.opening_s
        foreseen = prospect.foresee(subject, asked, whole, part, values, storages, left, say)
        text = study_text.measuring(
            study, subject, part.extents, part.reads, foreseen.measured, foreseen.effort, names,
            whole,
        )  # fmt: skip
        # Its boxes are those of its name.
        draft = results / f"{name}.yaml"
        draft.write_text(text, encoding="utf-8")
        planned = PlannedStudy(draft)
        check_roots(
            planned, [site for site in names if sites[site]["executor"] == "local"], sites, sites_file
        )
        told = {
            site: {
                "described": at_sites.described(sites[site]),
                "probes": [asdict(probes[site])],
                "elsewhere": _elsewhere(subject, sites[site]),
                **foretold.at_site(subject, part, whole, foreseen, found, planned, asked.state),
            }
            for site, found in foreseen.sites.items()
        }
        draft.rename(results / advised.STUDY)
        if donor.exists():
            donor.rename(results / f"donor.{planned.donor_digest}.npy")
        done = time.monotonic()
        write_record(results / advised.PREDICTION, {
            **_of_subject(subject, part.extents), "raw_bytes": planned.dataset.nbytes,
            "plugins": {one: found for one, layout in planned.layouts.items() if (found := _plugins(layout))},
            "guessed": asked.reads is None, "reads": [asdict(read) for read in whole], "asked": asked.asked(),
            "state": asked.state, "began_wall_s": wall, "limit_s": part.seconds,
            "deadline_wall_s": wall + part.seconds - budget.PAGES_S,
            "seconds": {"probe": at_probed - begun, "read": at_read - at_probed, "predict": done - at_read},
            "sites": told,
        })  # fmt: skip
    new = ", ".join(one.name for one in foreseen.measured)
    much = "all of it" if part.extents == subject.shape else f"the first {shape(part.extents)}"
    say(
        f"predicted in {done - at_read:.1f} s; to be measured in {much}: {new}, "
        f"about {foreseen.round_seconds * foreseen.effort.rounds:.0f} s at each site"
    )


def _probed(site: Mapping[str, Any], asked: Advise, sites_file: Path) -> Probe:
    """Return what is found of a site, and say it."""
    say(f"probing {site['name']} ({site['root']})")
    probe = at_sites.probed(site, "zarr" in asked.formats, sites=sites_file)
    ahead = f"{significant(1e-6 / probe.storage.ahead_s)} MB/s read ahead"
    say(f"{seconds(probe.storage.latency_s)} until a read begins, {ahead}")
    return probe


def _of_subject(subject: Subject, extents: list[int]) -> dict[str, Any]:
    """Return what a prediction says of the array that is meant, of which so much is measured."""
    found = subject.found
    return {
        "array": subject.words, "file": str(found.file) if found else None,
        "shape": subject.shape, "measured_shape": extents, "axes": subject.axes,
        "dtype": subject.spec["dtype"], "today": subject.today(extents)[0], "whole_bytes": subject.raw_bytes,
        "shorter_chunks": subject.has_longer_chunks(extents), "own_chunks": found.chunks if found else None,
        "grows": subject.grows, "unknown_layout": found.unknown if found else "",
        "stored_dtype": found.stored_dtype if found else "", "rewritable": bool(found and found.rewritable),
    }  # fmt: skip


def _plugins(layout: Mapping[str, Any]) -> list[str]:
    """Return which filters of a resolved layout, in either copy, are of plug-ins."""
    return of_plugins([*layout.get("filters", []), *layout.get("second", {}).get("filters", [])])


def _elsewhere(subject: Subject, site: Mapping[str, Any]) -> bool:
    """Return whether some of the user's values lie on another device of this machine than the test files of a
    site.
    """
    found = subject.found
    if found is None or site["executor"] != "local":
        return False
    return not all(at_sites.one_device(file, Path(site["root"])) for file in found.holders)


def _study_of(options: argparse.Namespace) -> tuple[Path, AdviceStudy, Subject | None]:
    """Return the study that asks for advice: one by its file, or what the command line says, written, and the
    array that was looked at for that, once: of a virtual dataset a look opens every file that it is made of.
    """
    if options.study:
        return options.study, advised.question(options.study), None
    if options.copies not in ("", "yes", "no"):
        raise ConfigurationError("make advise", "copies", f"should be yes or no, not {options.copies!r}")
    given = {
        "file": options.array, "reads": options.reads, "filters": options.filters, "formats": options.formats,
        "orders": options.orders, "state": options.state, "size_bound": options.size_bound,
        "sites": options.sites_named, "seconds": options.seconds,
        "copies": {"yes": True, "no": False, "": None}[options.copies],
    }  # fmt: skip
    said = {key: value for key, value in given.items() if value not in (None, "", [])}
    asked = validate(Advise, said, Path("make advise"), "")
    check_named(asked)
    # Which array it is has to be clear before the study has a name.
    subject = subject_of(asked)
    file = subject.found
    assert file is not None
    stem = options.name or re.sub(r"[^A-Za-z0-9_.+-]+", "-", file.file.stem).strip("-.") or "mine"
    if wrong := name_mistake(f"advice-{stem}"):
        raise Refused(f"the name of a study {wrong}; give another with NAME=")
    path = options.studies / f"advice-{stem}.yaml"
    if path.exists() and not path.read_text(encoding="utf-8").startswith(study_text.WRITTEN):
        raise ConfigurationError(path, "", "is there already and yours; give another name with NAME=")
    asked = asked.model_copy(update={"file": str(file.file) + (f"::{file.dataset}" if file.dataset else "")})
    other = advised.question(path).advise.file if path.exists() else asked.file
    if other is None or _array(other) != _array(asked.file):
        raise ConfigurationError(path, "", f"is there already, of {other}; give another name with NAME=")
    return path, AdviceStudy(advise=asked), subject


def _array(named: str | None) -> tuple[Path, str]:
    """Return the file and the dataset that FILE::DATASET names, however it does."""
    file, dataset = located({"path": named})
    return file.resolve(), f"/{(dataset or '').strip('/')}"


def run(options: argparse.Namespace) -> str:
    """Write what is to be measured, and return the study's name; what fails changes nothing."""
    begun = time.monotonic()
    path, study, subject = _study_of(options)
    executor = options.executor or at_sites.executor_of(options.profile)
    sites, spent = options.sites or configured_file(Path()), time.monotonic() - begun
    advise(path.stem, study, sites, executor, subject, spent)
    if not options.study:
        path.write_text(study_text.asking(study.advise), encoding="utf-8")
    return path.stem


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m hyperslab.advise", description=__doc__)
    add = parser.add_argument
    # What is taken where nothing is given.
    usual = {key: field.default for key, field in Advise.model_fields.items()}
    takes = f"{budget.USUAL_S:g} s, and {budget.USUAL_THROTTLED_S:g} s where a site is throttled"
    add("array", nargs="?", metavar="FILE[::DATASET]", help="your array, such as mine.h5::/counts")
    add("--study", type=Path, help="a study that says `advise: …`, instead of all but --sites")
    add("--reads", default="", help=f"how it is read, such as {reading.EXAMPLE}; otherwise usual ways")
    add("--name", default="", help="of the study, after advice-; otherwise that of the file")
    add(
        "--filters", default="",
        help=f"readers have: builtin (HDF5 alone) or any (hdf5plugin, too); otherwise {usual['filters']}",
    )  # fmt: skip
    add("--formats", nargs="+", default=[], help="hdf5, or hdf5 zarr; otherwise hdf5")
    add("--orders", default="", help=f"orders of the axes: file or any; otherwise {usual['orders']}")
    add("--state", default="", help=f"cold or warm; otherwise {usual['state']}")
    add(
        "--size-bound", default="",
        help=f"largest file, relative to the array without filters; otherwise {usual['size_bound']:g}",
    )  # fmt: skip
    add(
        "--site", dest="sites_named", nargs="+", default=[],
        help="where it is measured; otherwise at the first of the file of sites",
    )  # fmt: skip
    add("--sites", type=Path, help="the file of sites; otherwise that of config/config.yaml")
    add("--seconds", default="", help=f"how long all of it may take at one site; otherwise {takes}")
    add("--copies", default="", help="yes: advise two copies in one file where these are better")
    add("--profile", default="", help="of Snakemake, which says how it will be measured")
    add("--executor", default="", help="the same without a profile: local, slurm")
    add("--studies", type=Path, default=Path("config/studies"), help="where studies lie")
    options = parser.parse_args(arguments)
    if bool(options.array) == bool(options.study):
        parser.error("name an array, or a study with --study")
    if not options.studies.is_dir():
        sys.exit(f"hyperslab.advise: {options.studies}: no such directory; run it where the Snakefile is")
    try:
        print(run(options))
    except Unclear as listed:
        # Who names a file alone asks what it holds; reads, and studies, are of one array.
        if options.study or options.reads:
            sys.exit(f"hyperslab.advise: {listed}")
        print(listed, file=sys.stderr)
    except MISTAKES as error:
        sys.exit(f"hyperslab.advise: {error}")
    except KeyboardInterrupt:
        sys.exit("hyperslab.advise: interrupted; what lay there before stays")


if __name__ == "__main__":
    main()
