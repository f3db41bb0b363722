"""The seam of cases on the study's side: a kind is one module here and one entry in KINDS.

A kind has a field of its name in schema.Case and is measured by a module of hyperslab.cases. Everybody else
asks a kind what it is like, never what it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hyperslab.studies.case_kinds.clients import Clients
from hyperslab.studies.case_kinds.follow_rows import FollowRows
from hyperslab.studies.case_kinds.kind import Kind, Resolved
from hyperslab.studies.case_kinds.objects import Objects
from hyperslab.studies.case_kinds.open_all import OpenAll
from hyperslab.studies.case_kinds.parallel import ParallelAccess
from hyperslab.studies.case_kinds.read import Read
from hyperslab.studies.case_kinds.read_rows import ReadRows
from hyperslab.studies.case_kinds.reduce import Reduce
from hyperslab.studies.case_kinds.resolution import Resolution
from hyperslab.studies.case_kinds.rewrite_rows import RewriteRows
from hyperslab.studies.case_kinds.subvolumes import SubvolumeWrites
from hyperslab.studies.case_kinds.summaries import Summaries
from hyperslab.studies.case_kinds.write import Write
from hyperslab.studies.case_kinds.write_rows import WriteRows

if TYPE_CHECKING:
    from hyperslab.studies.schema import Case

# name -> kind, in the order in which figures and messages name them
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Read(),
        Write(),
        Objects(),
        Reduce(),
        ParallelAccess(),
        ReadRows(),
        WriteRows(),
        RewriteRows(),
        FollowRows(),
        SubvolumeWrites(),
        Resolution(),
        Summaries(),
        OpenAll(),
        Clients(),
    )
}


def kind_of(case: Resolved) -> Kind:
    """Return the kind of a resolved case, or of the case of a specification."""
    return KINDS[case["kind"]]


def measured_at(case: Resolved, site: str) -> bool:
    """Return whether a resolved case is measured at a site of this name."""
    return any(fnmatchcase(site, pattern) for pattern in case["sites"])


def names(fits: Callable[[Kind], object]) -> list[str]:
    """Return the names of the kinds that are like this, for a table's column `kind`."""
    return [name for name, kind in KINDS.items() if fits(kind)]


def shown_by(cases: Mapping[str, Resolved], figure: str) -> dict[str, Resolved]:
    """Return the cases whose families a figure of this name shows."""
    return {name: case for name, case in cases.items() if kind_of(case).family_figure == figure != ""}


def families(cases: Mapping[str, Resolved], figure: str) -> dict[str, dict[str, dict[int, str]]]:
    """Return family -> kind of workers -> number of workers -> case, of the cases that a figure shows."""
    found: dict[str, dict[str, dict[int, str]]] = {}
    for name, case in shown_by(cases, figure).items():
        by = found.setdefault(case["family"], {}).setdefault(case["by"], {})
        by[int(case["workers"])] = name
    return found


def levels(cases: Mapping[str, Resolved]) -> dict[str, dict[int, str]]:
    """Return family -> level -> case, of the cases that read one selection at several levels."""
    found: dict[str, dict[int, str]] = {}
    for name, case in cases.items():
        if "family" in case and case.get("level") is not None:
            found.setdefault(case["family"], {})[int(case["level"])] = name
    return found


def mistake(case: Case) -> str | None:
    """Return what is wrong with the fields of a case of a study, or None."""
    given = [kind for name, kind in KINDS.items() if getattr(case, name) is not None]
    if len(given) != 1:
        *others, last = (f"`{kind.name}` ({kind.given})" for kind in KINDS.values())
        return f"a case has either {', '.join(others)} or {last}"
    (kind,) = given
    if wrong := kind.mistake(case):
        return wrong
    for option in dict.fromkeys(option for one in KINDS.values() for option in one.options):
        if option not in kind.options and getattr(case, option) is not None:
            owners = [f"a `{one.name}`" for one in KINDS.values() if option in one.options]
            return f"{option}: only {' or '.join(owners)} case has it"
    return None
