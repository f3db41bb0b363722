"""Which figures a study has, and what each shows, as rules need to know it. Nothing is drawn here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.layouts import layout_of
from hyperslab.studies import case_kinds
from hyperslab.studies.case_kinds import families, kind_of, measured_at
from hyperslab.studies.case_kinds.workers import TEAM_KEYS
from hyperslab.studies.summary import prices_meta, settings_vary

if TYPE_CHECKING:
    from hyperslab.studies.study import LoadedStudy


# The module of hyperslab.figures that draws a kind has the same name.
KINDS = (
    "session",
    "ramp",
    "grid",
    "sizes",
    "ratios",
    "writes",
    "published",
    "objects",
    "rows",
    "requests",
    "speedup",
    "parallel",
    "clients",
    "levels",
    "resolution",
    "each_level",
    "score",
    "tradeoff",
    "mix",
    "prices",
    "counts",
)
# Kinds that show how many criteria are met; no other depends on them.
SCORED = {"score"}
# What a kind shows and how to read it, one file each, which Snakemake's own report reads, too.
CAPTIONS = {kind: Path(__file__).parents[3] / "report" / "captions" / f"{kind}.rst" for kind in KINDS}


def describe(study: LoadedStudy) -> dict[str, Any]:
    """Return the part of a study that names its figures and gives their words,
    as JSON so that rules can pass it.

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
                **{key: case[key] for key in (*TEAM_KEYS, "rows", "level") if key in case},
                **({"raw_bytes": study.dataset.bytes_of(case["shape"])} if study.dataset.rows else {}),
            }
            for name, case in study.cases.items()
        },
        "score": bool(study.study.score and study.study.score.criteria),
        "tradeoff": study.tradeoff,
        **({"filtered": filtered} if filtered else {}),
        **({"published": study.study.published} if study.study.published else {}),
        **({"settings_vary": True} if settings_vary(study) else {}),
        **prices_meta(study),
    }


def names(study: Mapping[str, Any], site: str | None = None) -> list[str]:
    """Return the names of a study's figures in order, from `describe` of it alone; of one site,
    those of its cases.

    A case whose states have no session keeps its bars, of its first state, and has no ramp.
    """
    cases = {name: case for name, case in study["cases"].items() if site is None or measured_at(case, site)}
    gridded = {layout for grid in study["grids"] for layout in grid["layouts"]}
    result, wanted = [], set()
    for name, case in cases.items():
        kind = kind_of(case)
        # Cases of a family have some together.
        own = kind.figures(name, case, bool(gridded.intersection(case["layouts"])))
        result += [figure for figure in own if figure not in result]
        wanted |= {*kind.study_figures, *(["sizes"] if kind.sized else [])}
    result += [f"published-{name}" for name in study.get("published", {}) if name in cases]
    for figure in dict.fromkeys(kind.family_figure for kind in case_kinds.KINDS.values()):
        result += [f"{figure}-{family}" for family in families(cases, figure)]
    result += [f"levels-{family}" for family in case_kinds.levels(cases)]
    two = [name for name in study["tradeoff"] if name in cases and kind_of(cases[name]).reads_selections]
    asked = {
        "ratios": bool(study.get("filtered")),
        "requests": bool(study.get("settings_vary") and cases),
        "score": study["score"],
        "tradeoff": len(two) > 1,
        "mix": len(two) > 1,
        "prices": "prices" in study,
    }
    wanted |= {figure for figure, there in asked.items() if there}
    return result + [figure for figure in KINDS if figure in wanted]


def caption_file(name: str) -> Path:
    """Return where the caption of the figure `name` stands."""
    return CAPTIONS[name.partition("-")[0]]


def caption(name: str) -> str:
    """Return what the figure `name` shows and how to read it."""
    return " ".join(caption_file(name).read_text(encoding="utf-8").split())
