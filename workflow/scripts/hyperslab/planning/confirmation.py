"""Confirming rounds: which layouts are measured again, and how a run inside this one is asked for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.records import LETTER, read_json, record_of
from hyperslab.validation.errors import ConfigurationError

if TYPE_CHECKING:
    from hyperslab.planning.planned_study import PlannedStudy

# The Snakefile exports here which workflow and configuration a run inside it takes.
RUN_VARIABLE = "HYPERSLAB_RUN"


# The rule that such a run is asked for.
CONFIRMING = "confirming_cells"


def confirming_list(study: str) -> Path:
    """Return where the records of a study's confirming rounds are listed."""
    return Path(f"results/{study}/confirmation.json")


@contextmanager
def made_of_records(file: Path) -> Iterator[None]:
    """Raise ConfigurationError with the way out where the block cannot read what was made of records."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        why = " ".join(str(error).split())
        message = f"cannot be read ({type(error).__name__}: {why}); delete it, and it is made again"
        raise ConfigurationError(file, "", message) from None


def finalists(recommendation: Path, site: str) -> list[str]:
    """Return the layouts of a site that are measured again; none before there is a recommendation.

    Raises ConfigurationError where that is damaged.
    """
    if not recommendation.exists():
        return []
    with made_of_records(recommendation):
        sites = read_json(recommendation)["sites"]
        return next((list(entry["finalists"]) for entry in sites if entry["site"] == site), [])


def listed_records(listed: Path, which: str) -> list[str]:
    """Return the confirming records that were `wanted`, or the `records` of them that were there.

    Raises ConfigurationError where the list is damaged.
    """
    with made_of_records(listed):
        return list(map(str, read_json(listed)[which]))


def wanted_records(
    recommendation: dict[str, Any], study: PlannedStudy, cases: Sequence[str], rounds: int
) -> list[str]:
    """Return the records of every finalist of every site, in each case and confirming round; none of a layout
    that a case leaves out, or of a case that is not measured at the site.
    """
    known = {site["site"]: study.pairs(site["site"]) for site in recommendation["sites"]}
    return [
        record_of(study.name, site["site"], (layout, case, f"{LETTER['confirm']}{number}"))
        for site in recommendation["sites"]
        for number in range(rounds)
        for layout in site["finalists"]
        for case in cases
        if (layout, case) in known[site["site"]]
    ]
