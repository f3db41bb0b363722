"""A website of the reports of packs, which opens with the page of all claims. It measures nothing.

website.py                                    site/ of every pack in packs/
website.py packs/quick.tar.xz --site DIR      DIR of these packs

Records, tables and figures lie in .work in that folder; results/ is neither read nor written. Run again, it
makes what has changed. What it does is said on standard error; the front page is printed.
"""

import argparse
import fcntl
import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from hyperslab.records import read_json, write_whole
from hyperslab.results.packing import unpack
from hyperslab.results.packs import SUFFIX, PackError

PROJECT = Path(__file__).resolve().parents[2]
PACKS = Path(os.path.relpath(PROJECT / "packs"))
FRONT_PAGE = "index.html"
CLAIMS = "results/claims.html"
REPORT = "report.html"
# In a folder that this command has made: the studies whose reports it has put there.
MARKER = ".website"
# What a report says lies beside it.
TABLES = ("summary.csv", "measurements.parquet", "confirmation.parquet")
# Lines that say why Snakemake failed, the most telling first: a job, the name of one, a plan.
REASONS = (
    re.compile(r"hyperslab\.\w+: (.+)"),
    re.compile(r"(Error in rule .+):"),
    re.compile("hyperslab: (.+)"),
)
STEPS = re.compile(r"(\d+) of (\d+) steps")
# Between two lines that say how far it is.
SAID_SECONDS = 5.0


class WebsiteError(Exception):
    """A website that cannot be made; the text is one line."""


def say(text: str) -> None:
    """Say on standard error what is being done."""
    print(f"website: {text}", file=sys.stderr, flush=True)


@contextmanager
def alone(work: Path) -> Iterator[None]:
    """Keep another run out of `work` for a while.

    Raises WebsiteError where one is there, and where the folder around it holds what is no website.
    """
    site, marker = work.parent, work.parent / MARKER
    if site.exists() and not marker.exists() and any(site.iterdir()):
        raise WebsiteError(f"{site}: holds other files; name a new folder, or one that this command made")
    if not marker.exists():
        write_whole(marker, b"[]")
    shown(site)
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WebsiteError(f"{site}: another run makes this website; wait for its end") from None
        yield


def shown(site: Path) -> list[str]:
    """Return the studies whose reports this command has put into `site`; raises WebsiteError."""
    try:
        return [str(study) for study in read_json(site / MARKER)]
    except (ValueError, TypeError):
        said = f"cannot be read; delete {site}, or name a new folder, and all is made anew"
        raise WebsiteError(f"{site / MARKER}: {said}") from None


def gather(packs: Sequence[Path], work: Path) -> list[str]:
    """Unpack what is new or has changed into `work`, remove what no pack holds; return the studies, sorted.

    Raises PackError, and WebsiteError for two packs of one study.
    """
    noted = work / "packs.json"
    known: dict[str, str] = {}
    # Without it, all are unpacked again.
    with suppress(OSError, ValueError, TypeError):
        known.update(read_json(noted))
    found: dict[str, Path] = {}
    for number, pack in enumerate(packs, 1):
        digest = hashlib.sha256(pack.read_bytes()).hexdigest() if pack.is_file() else ""
        study = next((name for name, of in known.items() if of == digest), "")
        if not (work / "results" / study / "cells").is_dir() or not study:
            say(f"unpacking {pack}, {number} of {len(packs)}")
            study = _unpacked(pack, work)
        if study in found:
            raise WebsiteError(f"{found[study]} and {pack}: both hold study {study}; name one of them")
        found[study] = pack
        known[study] = digest
        write_whole(noted, json.dumps(known, indent=1).encode())
    for study in {cells.parent.name for cells in (work / "results").glob("*/cells")} - found.keys():
        say(f"{study} is in none of the packs any more")
        shutil.rmtree(work / "results" / study, ignore_errors=True)
    write_whole(noted, json.dumps({study: known[study] for study in found}, indent=1).encode())
    return sorted(found)


def _unpacked(pack: Path, work: Path) -> str:
    """Put a pack's records in the place of all that `work` has of its study; return the study's name."""
    fresh = work / "unpacked"
    shutil.rmtree(fresh, ignore_errors=True)
    done = unpack(pack, fresh, PROJECT / "config" / "studies")
    for note in done.notes:
        say(note.replace(str(fresh), str(work / "results")))
    place = work / "results" / done.study
    # What was made of other records goes with them.
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    (fresh / done.study).rename(place)
    shutil.rmtree(fresh)
    return done.study


def make(studies: Sequence[str], work: Path) -> None:
    """Have Snakemake make the pages of `studies` in `work`; raises WebsiteError where it cannot."""
    with (work / "log").open("w", encoding="utf-8") as log:
        _run("reports", [f"results/{study}/{REPORT}" for study in studies], work, log)
        # It is asked for alone.
        _run("the page of all claims", [CLAIMS], work, log)


def _run(what: str, targets: Sequence[str], work: Path, log: TextIO) -> None:
    """Run Snakemake in `work`, say how far it is, keep what it says; raises WebsiteError where it fails."""
    # The sites of this machine are no matter here, and a lock that a dead run left is not in the way.
    settings = ["measure=false", "website=true", f"sites={PROJECT / 'config' / 'sites.yaml'}"]
    command = [
        sys.executable, "-m", "snakemake", "--snakefile", str(PROJECT / "Snakefile"),
        "--profile", str(PROJECT / "profiles" / "local"), "--directory", str(work), "--nolock", "--nocolor",
        "--config", *settings, "--", *targets,
    ]  # fmt: skip
    say(what)
    reasons, said = [""] * len(REASONS), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        for line in running.stdout or ():
            log.write(line)
            reasons = [
                found[1] if (found := each.match(line)) else old
                for each, old in zip(REASONS, reasons, strict=True)
            ]
            if (step := STEPS.match(line)) and time.monotonic() - said > SAID_SECONDS:
                say(f"{what}: {step[1]} of {step[2]} steps")
                said = time.monotonic()
    if running.returncode:
        reason = next(filter(None, reasons), "Snakemake failed")
        anew = f"the website is as it was before; without {work} the next run begins anew"
        raise WebsiteError(f"{reason} ({log.name} has the rest); {anew}")


def publish(studies: Sequence[str], work: Path, site: Path) -> int:
    """Put the pages and what lies beside them into `site`, and remove those of other studies.

    Returns how many bytes they have together.
    """
    places = {CLAIMS: FRONT_PAGE}
    for study in studies:
        made = [name for name in (REPORT, *TABLES) if (work / "results" / study / name).exists()]
        for name in {*TABLES}.difference(made):
            (site / study / name).unlink(missing_ok=True)
        places |= {f"results/{study}/{name}": f"{study}/{name}" for name in made}
    for source, target in places.items():
        page = site / target
        if not page.exists() or not filecmp.cmp(work / source, page, shallow=False):
            page.parent.mkdir(exist_ok=True)
            shutil.copyfile(work / source, page)
    for study in set(shown(site)) - set(studies):
        shutil.rmtree(site / study, ignore_errors=True)
    write_whole(site / MARKER, json.dumps(studies).encode())
    return sum((site / target).stat().st_size for target in places.values())


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packs", type=Path, nargs="*", help="the packs to show (default: all in packs/)")
    parser.add_argument("--site", type=Path, default=Path("site"), help="the folder to make (default: site)")
    options = parser.parse_args()
    packs: list[Path] = options.packs or sorted(PACKS.glob(f"*{SUFFIX}"))
    site: Path = options.site
    try:
        if not packs:
            raise WebsiteError(f"{PACKS}: holds no packs; name some, or make one with pack.py")
        with alone(site / ".work"):
            studies = gather(packs, site / ".work")
            make(studies, site / ".work")
            size = publish(studies, site / ".work", site)
    except (PackError, WebsiteError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")
    say(f"{len(studies)} reports, {size / 1e6:.1f} MB")
    print(site / FRONT_PAGE)


if __name__ == "__main__":
    main()
