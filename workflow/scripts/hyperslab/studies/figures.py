"""Which figures a study has, and what each shows, as rules need to know it. Nothing is drawn here."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hyperslab.layouts import layout_of
from hyperslab.studies.summary import settings_vary
from hyperslab.studies.worker_cases import TEAM_KEYS, families

if TYPE_CHECKING:
    from hyperslab.studies.study import LoadedStudy


# kind -> what its caption says; the module of hyperslab.figures that draws it has the same name
CAPTIONS = {
    "session": (
        "Minimum, median, mean and maximum of a round's selections for each layout, stacked as in the "
        "document: each part ends at its statistic, the median of that statistic over the rounds. Shorter is "
        "faster; a pale bar runs beyond the axis and has its maximum written on it, and the diamond is the "
        "first access."
    ),
    "ramp": (
        "The selections of a session in the order in which they ran, one panel a layout: thin lines are the "
        "rounds, the thick one their geometric mean, grey the other layouts. A line that falls shows the "
        "page cache filling, so its end says little of a first access."
    ),
    "grid": (
        "Median time for every combination of chunk extents, cold and warm side by side, each with its own "
        "logarithmic colours. Light is fast; the frame marks the recommended layout, and a line in a colour "
        "bar the contiguous one where it lies within the colours."
    ),
    "sizes": (
        "File size of each layout as data, padding, chunk index and remainder, with the contiguous file, if "
        "any, as baseline; on the right the index alone. A dot inside its ring means that the index which "
        "the file reports is the computed one; a disagreement is red."
    ),
    "ratios": (
        "Compression ratio of each layout: the bytes of the array over the bytes stored for it (bar), and "
        "the same of its chunks filled up at the edges (diamond), which flatters large chunks. A lossy "
        "layout has its largest error beside it."
    ),
    "writes": (
        "Durable time to write the array, from create to fsync, for each strategy and layout (median; the "
        "parts are shares of the total time). The black line is a plain write and fsync of the same bytes, "
        "measured in between: the closer a bar comes to it, the less the layout costs."
    ),
    "published": (
        "The source's own table beside what was measured here: the time inside the write calls, and what is "
        "left of the time from open to close. What a cache keeps back is paid when the file is closed."
    ),
    "objects": (
        "Time of one small dataset against the number of them in the file: its share of writing them all, "
        "and reading the latest written, on the file still open (session) and on a newly opened one."
    ),
    "requests": (
        "Times by library setting, one row a layout, with the calls and bytes that the library asked of the "
        "kernel beside them: a setting that changes the requests and not the time shows what the kernel's "
        "cache hides."
    ),
    "speedup": (
        "The same reduction by more and more workers: above mean time and standard deviation over all "
        "repeats, below how many times faster than the fewest workers it is. Hollow points and the shaded "
        "part lie beyond the physical cores, where nothing is claimed."
    ),
    "parallel": (
        "Bytes per second that ranks write durably and read, by interface and number of ranks; higher is "
        "faster. Pale bars have more ranks than there are physical cores, and nothing is claimed of them."
    ),
    "score": (
        "How many criteria each layout meets, one block a criterion: on the left with the bounds as given, "
        "on the right with all time bounds multiplied by the one factor λ that leaves the wanted number of "
        "layouts with full marks. Full marks are opaque, all others pale."
    ),
    "tradeoff": (
        "Median time of one case against another, one point a layout, cold beside warm; left and down is "
        "faster. The line joins the Pareto front: layouts that no other beats in both cases."
    ),
    "counts": (
        "Cold median time against four counts of bytes, one point a layout and case. The count along which "
        "the points of a case line up is the one that explains its time; the four measure different things "
        "and are never added up."
    ),
}


def describe(study: LoadedStudy) -> dict[str, Any]:
    """The part of a study that names its figures and gives their words, as JSON so that rules can pass it.

    No criterion, repeat or round is in it: a change of these does not change every figure.
    """
    kept = ("kind", "title", "states", "shape", "layouts", "sites")
    grids, names = [], list(study.grid_values)
    for grid in study.study.grids:
        count = 1
        for values in grid.over.values():
            count *= len(values)
        own, names = names[:count], names[count:]
        layouts = {name: list(study.grid_values[name].values()) for name in own}
        grids.append({"name": grid.name, "variables": list(grid.over), "layouts": layouts})
    filtered = [name for name, layout in study.layouts.items() if layout_of(layout).filters_text()]
    return {
        "shape": list(study.dataset.shape),
        "layouts": list(study.layouts),
        "grids": grids,
        "cases": {
            name: {
                **{key: case.get(key) for key in kept},
                **{key: case[key] for key in TEAM_KEYS if key in case},
            }
            for name, case in study.cases.items()
        },
        "score": bool(study.study.score and study.study.score.criteria),
        "tradeoff": list(study.study.tradeoff),
        **({"filtered": filtered} if filtered else {}),
        **({"published": study.study.published} if study.study.published else {}),
        **({"settings_vary": True} if settings_vary(study) else {}),
    }


def names(study: Mapping[str, Any], site: str | None = None) -> list[str]:
    """Names of a study's figures in order, from `describe` of it alone; of one site, those of its cases.

    A case whose states have no session keeps its bars, of its first state, and has no ramp.
    """
    cases = {
        name: case
        for name, case in study["cases"].items()
        if site is None or any(fnmatch.fnmatchcase(site, pattern) for pattern in case.get("sites") or ["*"])
    }
    reads = {name: case for name, case in cases.items() if case["kind"] == "read"}
    gridded = {layout for grid in study["grids"] for layout in grid["layouts"]}
    result = []
    for name, case in reads.items():
        result.append(f"session-{name}")
        result += [f"ramp-{name}"] if "session" in case["states"] else []
        mapped = gridded.intersection(case["layouts"]) and case["states"] != ["session"]
        result += [f"grid-{name}"] if mapped else []
    result += [f"published-{name}" for name in study.get("published", {}) if name in cases]
    result += [f"speedup-{family}" for family in families(cases, "reduce")]
    result += [f"parallel-{family}" for family in families(cases, "parallel")]
    two = [case for case in study["tradeoff"] if case in reads]
    whole = {
        "sizes": any(case["kind"] != "parallel" for case in cases.values()),
        "ratios": bool(study.get("filtered")),
        "writes": any(case["kind"] == "write" for case in cases.values()),
        "objects": any(case["kind"] == "objects" for case in cases.values()),
        "requests": bool(study.get("settings_vary") and cases),
        "score": study["score"],
        "tradeoff": len(two) > 1,
        "counts": bool(reads),
    }
    return result + [kind for kind, wanted in whole.items() if wanted]


def caption(name: str) -> str:
    """What the figure `name` shows and how to read it."""
    return CAPTIONS[name.partition("-")[0]]
