"""A tiny study, its tables, and a look at the page made of them, for the tests of the report."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pandas as pd

from hyperslab.layouts import layout_of
from hyperslab.report.answer import site_answer
from hyperslab.report.build import build_page
from hyperslab.report.checks import checks
from hyperslab.report.data import Inputs, gather
from hyperslab.report.model import Check, Page, SiteAnswer
from hyperslab.results.columns import of_type
from hyperslab.results.recommend import recommend, size_bound
from hyperslab.results.scoring import absolute_score, matched_score
from hyperslab.results.statistics import summarise
from hyperslab.results.tables import tidy
from hyperslab.studies.criteria import IMPERCEPTIBLE_MS
from hyperslab.studies.summary import layout_meta

LAYOUTS = {"contiguous": None, "auto": [2, 2, 5], "4x4x2": [4, 4, 2]}
# Seconds in an average round; the confirming rounds have another truth, so that it shows which are quoted.
MAIN = {"contiguous": (0.08, 0.08), "auto": (0.02, 0.02), "4x4x2": (0.01, 0.01)}
CONFIRM = {"contiguous": (0.04, 0.04), "auto": (0.02, 0.02), "4x4x2": (0.01, 0.01)}
CRITERIA = [{"case": "slices", "state": "cold", "statistic": "median_s", "below": 0.05},
            {"statistic": "file_bytes", "below": 2 * 2**20, "title": "file < 2 MiB"}]  # fmt: skip
# What all repeats share.
NUMBERS = {"asked_bytes": 10, "requested_bytes": 20, "requested_predicted_bytes": 20, "resident_before": 0.0,
           "data_bytes": 2000, "padding_bytes": 4, "padding_predicted_bytes": 4, "index_bytes": 6,
           "index_predicted_bytes": 6, "chunks": 1, "chunks_predicted": 1, "probe_compute_s": 1e-3,
           "probe_read_s": 1e-4}  # fmt: skip
# Columns of which checks and tables say something, and no summary, score or recommendation is made.
BESIDE = ["requested_bytes", "requested_predicted_bytes", "requested_reads", "requested_predicted_reads",
          "began_wall_s", "ended_wall_s", "noisy", "overlap", "resident_before"]  # fmt: skip
HOSTILE = """<script>alert("1")</script>'&amp;<img src=x onerror=y>"""


def plain_layout(chunks: Any) -> dict[str, Any]:
    """What the report asks of a layout that names chunks alone, of an array of uint16."""
    return layout_meta(layout_of(plain(chunks)), list("xyz"), 2)


def plain(chunks: Any, **more: Any) -> dict[str, Any]:
    """A resolved layout that names chunks, and what `more` says."""
    described = {"format": "hdf5", "chunks": chunks, "order": list("xyz"), "filters": [], "settings": {}}
    return {**described, "label": None, **more}


def meta(**changes: Any) -> dict[str, Any]:
    """What the report asks of a study of two read cases."""
    layouts = {name: plain_layout(chunks) for name, chunks in LAYOUTS.items()}
    case = {"kind": "read", "states": ["cold"], "shape": [10, 10, 10], "raw_bytes": 2000}
    cases = {"slices": {**case, "title": "some slices"}, "spectra": {**case, "title": "some spectra"}}
    study = {
        "name": "tiny",
        "title": "A tiny study",
        "source": "nowhere",
        "axes": list("xyz"),
        "shape": [10, 10, 10],
        "dtype": "uint16",
        "itemsize": 2,
        "raw_bytes": 2000,
        "fill": "mixed",
        "layouts": layouts,
        "cases": cases,
        "rounds": 3,
        "states": ["cold"],
        "size_bound": 1000,
        "tradeoff": ["slices", "spectra"],
    }
    return {**study, **changes}


def measured(times: Mapping[str, tuple[float, float]], phase: str, rounds: int = 3) -> pd.DataFrame:
    """Repeats with the given times; rounds differ by a factor that all cells share, cells by a little."""
    return _measured(tuple(times.items()), phase, rounds).copy()


@cache
def _measured(times: tuple[tuple[str, tuple[float, float]], ...], phase: str, rounds: int) -> pd.DataFrame:
    rows = []
    for (layout, pair), number, repeat in itertools.product(times, range(rounds), range(3)):
        for case, seconds in zip(("slices", "spectra"), pair, strict=True):
            own = 1 + 0.001 * ((7 * number + len(layout + case)) % 5)
            row: dict[str, Any] = dict.fromkeys(of_type("text"), "")
            row |= {"study": "tiny", "site": "disk", "layout": layout, "case": case, "kind": "read"}
            row |= {"phase": phase, "round": number, "state": "cold", "repeat": repeat}
            row["time_s"] = seconds * 1.1**number * own * (1 + 0.01 * (repeat - 1))
            row["file_bytes"] = 2e6 if layout != "contiguous" else 1e6
            rows.append(row | NUMBERS)
    return tidy(rows)


CONTEXT = {
    "site": "disk", "machine": {"node": "n", "cores": 2, "reclaims_by_itself": False}, "cells": 18,
    "file_system": {"type": "ext4", "memory_resident": False, "server_cache": "not controlled"},
    "versions": {"hdf5": "2.0.0"}, "settings": {}, "locks": {"node": True, "root": True}, "skipped": {},
}  # fmt: skip


def inputs(
    main: pd.DataFrame, confirmation: pd.DataFrame | None, floor_ms: float = IMPERCEPTIBLE_MS, **changes: Any
) -> dict[str, Any]:
    """The arguments of `build_page`, as the rules make them from `main`."""
    known = main.drop(columns=BESIDE, errors="ignore").copy()
    made = pickle.loads(_made(pickle.dumps(known), floor_ms))
    expected = [
        ("disk", layout, case, f"r{number}")
        for layout, case, number in itertools.product(LAYOUTS, ("slices", "spectra"), range(3))
    ]
    given = {
        "study": meta(), "measurements": main, "context": [CONTEXT], **made, "confirmation": confirmation,
        "figures": {}, "expected": expected,
    }  # fmt: skip
    return {**given, **changes}


@cache
def _made(main: bytes, floor_ms: float) -> bytes:
    """What rules make from a table: many tests have the same one, and a copy of what is made of it."""
    table = pickle.loads(main)
    summary = summarise(table[~table["stale"]])
    score = {
        "criteria": CRITERIA,
        "published": ["4x4x2"],
        "absolute": json.loads(absolute_score(summary, CRITERIA).to_json(orient="records")),
        "matched": [
            entry.to_dict() for entry in matched_score(summary, CRITERIA, 1, list(LAYOUTS), ["4x4x2"])
        ],
    }
    bound = size_bound(2000, 1000)
    chosen = recommend(
        summary, None, bound, contiguous="contiguous", automatic="auto", imperceptible_ms=floor_ms
    )
    answer = {"contiguous": "contiguous", "automatic": "auto", "sites": [entry.to_dict() for entry in chosen]}
    return pickle.dumps({"summary": summary, "score": score, "recommendation": answer})


def confirmed(**changes: Any) -> dict[str, Any]:
    """The arguments of `build_page` of the tiny study, with confirming rounds unless changed."""
    return inputs(measured(MAIN, "main"), measured(CONFIRM, "confirm")) | changes


def page_of(**changes: Any) -> Page:
    """The page of the tiny study, with confirming rounds unless changed."""
    return build_page(Inputs(**confirmed(**changes))) if changes else _page()


@cache
def _page() -> Page:
    return build_page(Inputs(**confirmed()))


def answer_of(given: Mapping[str, Any]) -> SiteAnswer:
    """The answer for the disk, sooner than on the page that `build_page` makes of the same."""
    return site_answer(gather(Inputs(**given)), "disk", "answer-1")


def check_of(found: Page | Mapping[str, Any], name: str) -> Check:
    """The check of this name, on a page or, sooner, of what `build_page` makes one from."""
    told = found.checks if isinstance(found, Page) else checks(gather(Inputs(**found)))
    return next(check for check in told if check.name == name)


class Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_headings_nest(html: str) -> None:
    """No heading is more than one level below the one before, as whoever hears a page steps through it."""
    levels = [int(tag[1]) for tag, _ in Tags(html).found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 < len(levels)
    assert not [pair for pair in itertools.pairwise(levels) if pair[1] > pair[0] + 1], levels


def assert_self_contained(html: str) -> None:
    """No script, no handler, and no address but data: and places in the page."""
    for tag, attributes in Tags(html).found:
        assert tag not in ("script", "iframe", "object", "embed", "base", "form")
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "srcset", "action", "poster", "background"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), (tag, name, value)
    assert "url(" not in html
    assert "@import" not in html
    assert "http://" not in html
    assert "https://" not in html
