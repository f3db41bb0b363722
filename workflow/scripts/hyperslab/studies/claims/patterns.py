"""Names that match a pattern: a glob in which {variable} stands for a whole number."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping

Values = dict[str, int]

VARIABLE = re.compile(r"\{([^\W\d]\w*)\}")
# Private characters, which neither a name nor fnmatch has a use for.
OPEN, CLOSE = "\ue000", "\ue001"


def variables(pattern: str) -> list[str]:
    """Return the variables of a pattern, each once, in order."""
    return list(dict.fromkeys(VARIABLE.findall(pattern)))


def fill(pattern: str, known: Mapping[str, int | str]) -> str:
    """Return the pattern with the known variables filled in; others stay."""
    return VARIABLE.sub(lambda found: str(known.get(found[1], found[0])), pattern)


def matches(pattern: str, names: Iterable[str]) -> dict[str, Values]:
    """Return name -> value of each variable, for the names that fit;
    a variable has one value wherever it stands.
    """
    regular = fnmatch.translate(VARIABLE.sub(rf"{OPEN}\1{CLOSE}", pattern))
    # Groups are numbered: not every name of a variable is one of a group, and fnmatch has groups of its own.
    seen: list[str] = []

    def group(found: re.Match[str]) -> str:
        if found[1] in seen:
            return f"(?P=v{seen.index(found[1])})"
        seen.append(found[1])
        return rf"(?P<v{len(seen) - 1}>\d+)"

    compiled = re.compile(re.sub(f"{OPEN}(\\w+){CLOSE}", group, regular))
    fits = {name: compiled.match(name) for name in names}
    return {
        name: {key: int(fit[f"v{number}"]) for number, key in enumerate(seen)}
        for name, fit in fits.items()
        if fit
    }
