"""A study of adaptive rounds of which it is known what stays open, and what its records say."""

from __future__ import annotations

import copy
import json
from typing import Any

from clones import TINY, Clone

ROUNDS = "results/tiny/rounds.json"


def claim(says: str, **comparison: Any) -> dict[str, Any]:
    """A claim of one comparison, on any file system."""
    side = {"case": "slices", "state": "cold", **comparison.pop("a")}
    told = {"sentence": says, "source": "D", "section": "S", "testability": "V", "at": {"in_memory": True}}
    return {**told, "comparisons": [{"says": says, "a": side, **comparison}]}


def study(rounds: Any) -> dict[str, Any]:
    """The tiny study with a layout's twin: equal within a millionth, which no number of rounds can tell."""
    twins = {
        f"9.{number}": claim(
            f"twin, {state}", a={"layouts": "twin", "state": state}, b={"layouts": "4x4x64"},
            similar=1, margin=1.000001,
        )
        for number, state in enumerate(("cold", "warm", "session"), 2)
    }  # fmt: skip
    plain = claim("less than a minute", a={"layouts": "contiguous"}, below=60)
    layouts = {name: TINY["layouts"][name] for name in ("contiguous", "4x4x64")}
    return {
        **copy.deepcopy(TINY),
        "layouts": {**layouts, "twin": {"chunks": [4, 4, 64], "label": "again"}},
        "rounds": rounds,
        "score": None,
        "recommendation": {"confirm_rounds": 0, "size_bound": 2.0},
        "claims": {"9.1": plain, **twins},
    }


def records(clone: Clone) -> dict[str, int]:
    """site/layout/case.round of every record -> when it was written, in ns."""
    cells = clone.directory / "results/tiny/cells"
    return {
        str(file.relative_to(cells).with_suffix("")): file.stat().st_mtime_ns
        for file in cells.glob("*/*/*.json")
    }


def anew(before: dict[str, int], after: dict[str, int]) -> set[str]:
    """The records that were written in between."""
    return {cell for cell, written in after.items() if before.get(cell) != written}


def listed(clone: Clone) -> Any:
    """What rounds.json says."""
    return json.loads((clone.directory / ROUNDS).read_text(encoding="utf-8"))
