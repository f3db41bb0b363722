"""A study with a grid, measurements of it with a known truth, and verdicts on claims about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from studies import load

from hyperslab.claims.evaluate import evaluate, site_facts

BASE = """
title: a study
dataset: {axes: [x, y, z], shape: [20, 20, 400], dtype: uint16}
layouts:
  contiguous:
  2x2x10-64K: {chunks: [2, 2, 10], settings: {chunk_cache_bytes: 65536}}
grids:
  - {name: "{m}x{m}x{n}", over: {m: [1, 2, 4, 8], n: [10, 100]}, chunks: [m, m, n]}
cases:
  slices: {read: {z: 25}, states: [cold, warm, session]}
  spectra: {read: {x: 5}, states: [cold, warm, session]}
  spectrum: {write: spectrum}
  chunk: {write: chunk, layouts: ["*x*"]}
score:
  criteria:
    - {case: slices, below: 0.1}
    - {case: spectra, below: 0.1}
    - {statistic: file_bytes, below: 1000}
  target: 3
"""
CLAIM = {"sentence": "S.", "source": "D", "section": "T", "testability": "V"}
# (case, layout, values of the grid) -> seconds in an average round.
Truth = Callable[[str, str, Mapping[str, int]], float]
GRID = {f"{m}x{m}x{n}": {"m": m, "n": n} for m, n in itertools.product((1, 2, 4, 8), (10, 100))}
LAYOUTS = ["contiguous", *GRID]
READS = ("cold", "session")


def context(**sites: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Facts about sites, from what is particular to the file system of each."""
    entries: list[dict[str, Any]] = []
    for site, particular in sites.items():
        given = dict(particular)
        throttle, data = given.pop("throttle", None), given.pop("data", "synthetic")
        file_system = {"type": "ext4", "memory_resident": False, **given}
        entries.append({"site": site, "data": data, "file_system": file_system, "throttle": throttle})
    return site_facts(entries)


def measured_at(
    sites: Sequence[str],
    truth: Truth,
    rng: np.random.Generator | None = None,
    rounds: int = 3,
    sd: float = 0.03,
    round_sd: float = 0.05,
    repeats: int = 1,
) -> pd.DataFrame:
    """Repeats of every layout, case and state; without `rng` rounds agree but for a ten-thousandth."""
    noise = rng or np.random.default_rng(1)
    sd, round_sd = (sd, round_sd) if rng is not None else (1e-4, 1e-4)
    cells = []
    for case in ("slices", "spectra", "spectrum", "chunk"):
        write = case in ("spectrum", "chunk")
        layouts = LAYOUTS if case != "chunk" else list(GRID)
        seconds = np.array([truth(case, layout, GRID.get(layout, {})) for layout in layouts])
        for state in ("write",) if write else READS:
            cells.append(((case, state, "write" if write else "read"), layouts, seconds))
    rows: list[tuple[Any, ...]] = []
    for site, (cell, layouts, seconds) in itertools.product(sites, cells):
        opened = 3 * cell[1].count("cold")
        whole, own = noise.normal(0, round_sd, rounds), noise.normal(0, sd, (len(layouts), rounds))
        times = (seconds[:, None] * np.exp(whole + own)).tolist()
        rows += [
            (*cell, layout, number, repeat, time * (1 + 0.1 * repeat), time * opened, time / 2, site)
            for layout, in_rounds in zip(layouts, times, strict=True)
            for number, time in enumerate(in_rounds)
            for repeat in range(repeats)
        ]
    names = ["case", "state", "kind", "layout", "round", "repeat", "time_s", "open_s", "write_s", "site"]
    return pd.DataFrame(rows, columns=names).assign(
        phase="main", stale=False, file_bytes=500.0, padding_bytes=0.0, chunks=7.0
    )


def measured(
    truth: Truth,
    rng: np.random.Generator | None = None,
    rounds: int = 3,
    sd: float = 0.03,
    round_sd: float = 0.05,
    site: str = "disk",
    repeats: int = 1,
    **columns: Any,
) -> pd.DataFrame:
    """The same of one site."""
    return measured_at([site], truth, rng, rounds, sd, round_sd, repeats).assign(**columns)


def resolved_claims(
    directory: Path, asked: Mapping[str, Sequence[Mapping[str, Any]]], **claim: Any
) -> list[dict[str, Any]]:
    """Claims by number with their comparisons, as evaluation takes them."""
    content = yaml.safe_load(BASE)
    content["claims"] = {
        number: {**CLAIM, "comparisons": [{"says": "a", **c} for c in comparisons], **claim}
        for number, comparisons in asked.items()
    }
    return load(directory, content).claims


def resolved(directory: Path, *comparisons: Mapping[str, Any], **claim: Any) -> list[dict[str, Any]]:
    """One claim with these comparisons."""
    return resolved_claims(directory, {"000.1": comparisons}, **claim)


def judged(
    claims: list[dict[str, Any]], table: pd.DataFrame, **sites: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The verdicts on the only claim, one for each site."""
    facts = context(**(sites or {"disk": {}}))
    found: list[dict[str, Any]] = evaluate("mine", claims, table, facts)["claims"][0]["verdicts"]
    return found


def results(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every atomic result of a verdict."""
    return [result for comparison in verdict["comparisons"] for result in comparison["results"]]
