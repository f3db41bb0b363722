"""Names that may have been meant: of many names a message lists the nearest only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# So many names are listed; of more, only those that are near.
LISTED = 8
MENTIONED = 3
# How alike two names are that may have been mistaken for each other, as difflib counts it (0 to 1).
ALIKE = 0.7


def near(name: object, known: Iterable[str]) -> list[str]:
    """Return the known names that `name` may have been meant for, the most alike first."""
    return difflib.get_close_matches(str(name), list(known), n=MENTIONED, cutoff=ALIKE)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with what a name may have been meant for, "" where nothing is near."""
    found = near(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def choices(name: object, known: Iterable[str]) -> str:
    """Return what stands after "there are" or "it has": few names in full, of many the nearest to `name`."""
    names = list(known)
    if len(names) <= LISTED:
        return ", ".join(names) or "none"
    found = near(name, names)
    if not found:
        return f"{len(names)}, such as {', '.join(names[:MENTIONED])}"
    return f"{len(names)}: the nearest {'is' if len(found) == 1 else 'are'} {', '.join(found)}"
