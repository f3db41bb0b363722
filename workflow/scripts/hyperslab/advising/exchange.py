"""The exchange of an advice for the one before it: made beside its place and moved there, all or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.advising import Refused
from hyperslab.measuring.locks import HeldElsewhere, exclusive

# What Snakemake holds while it runs: the files that each run makes.
LOCKS = Path(".snakemake", "locks")
# Where a user's own file lies in a layout that was measured (rewriting/choice.py).
REWRITTEN = "layout"
# Pages of the advice before -> what they are called beside those that are to come: measuring may fail.
BEFORE = {"advice.html": "advice-before.html", "report.html": "report-before.html"}


@contextmanager
def beside(results: Path) -> Iterator[Path]:
    """Yield a directory beside results/NAME that takes its place in the end; what fails leaves nothing.

    What lay there goes, but for files that were rewritten, and for its pages, which get other names. Raises
    Refused where another advice of this name is at it.
    """
    work, old, lock = (results.with_name(f".{results.name}.{word}") for word in ("new", "old", "lock"))
    above = results.parent.exists()
    results.parent.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(lock, passing=True, wait=False):
            _settle(old, results)
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                yield work
                check_idle(results)
            except BaseException:
                shutil.rmtree(work, ignore_errors=True)
                # While it is held, so that nobody else has taken it.
                lock.unlink(missing_ok=True)
                if not above:
                    with suppress(OSError):
                        results.parent.rmdir()
                raise
            if results.exists():
                results.rename(old)
            work.rename(results)
            _settle(old, results)
    except HeldElsewhere:
        raise Refused(
            f"{results}: another advice of this name is being made; wait for it, or give another name with "
            "NAME="
        ) from None


def check_idle(results: Path) -> None:
    """Raise Refused where a run of Snakemake makes something of these results."""
    for lock in LOCKS.glob("*.output.lock"):
        # A run that ends removes its own.
        with suppress(FileNotFoundError):
            if any(Path(made).is_relative_to(results) for made in lock.read_text("utf-8").splitlines()):
                raise Refused(
                    f"{results} is being made by another run; wait for it, give another name with NAME=, or, "
                    "if that run was killed, say `.venv/bin/snakemake --unlock`"
                )


def _settle(old: Path, results: Path) -> None:
    """Remove the advice before, which a run that was killed may have left in the middle of its exchange."""
    if old.exists() and not results.exists():
        old.rename(results)
    # Files of the user's that were rewritten by the advice before are not this one's to remove.
    for there, here in [(REWRITTEN, REWRITTEN), *BEFORE.items(), *((page, page) for page in BEFORE.values())]:
        if (old / there).exists() and not (results / here).exists():
            (old / there).rename(results / here)
    shutil.rmtree(old, ignore_errors=True)
