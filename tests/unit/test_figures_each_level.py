"""The figure of the time of each level holds the numbers of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_samples import STUDY, data_of, repeats

from hyperslab import figures
from hyperslab.figures.each_level import bytes_by_level
from hyperslab.studies import figures as named

WAYS = {"per-level": "level by level", "per-level-fast": "fast order"}
TIMES = [0.004, 0.002, 0.002, 0.003, 0.008]


def study() -> dict[str, Any]:
    """The sample study, in which two ranks write sub-volumes in two ways, and plainly."""
    cases = {
        f"volume-{way}-2r": {
            **STUDY["cases"]["slices"],
            "kind": "subvolumes", "title": f"16 MiB, {words}, 2 MPI ranks", "states": ["write"],
            "family": "volume", "by": "ranks", "workers": 2, "subvolumes": {"way": way},
        }
        for way, words in {**WAYS, "plain": "plain MPI-IO"}.items()
    }  # fmt: skip
    return {**STUDY, "cases": cases, "tradeoff": []}


def table() -> pd.DataFrame:
    """Writes whose levels take times that we know; in the faster way half of them."""
    rows = repeats()
    rows = rows[(rows["state"] == "write") & (rows["layout"] == "contiguous")]
    parts = [rows.assign(case="volume-plain-2r", physical_cores=2)]
    for number, way in enumerate(WAYS):
        text = " ".join(f"{one / 2**number:.6g}" for one in TIMES)
        told = {"case": f"volume-{way}-2r", "time_by_level": text, "asked_bytes": 16 * 2**20}
        parts.append(rows.assign(**told, physical_cores=2))
    return pd.concat(parts, ignore_index=True)


def test_a_family_that_writes_level_by_level_has_one_figure() -> None:
    names = named.names(study())
    assert [name for name in names if name.startswith("each_level-")] == ["each_level-volume"]
    assert not [name for name in named.names(STUDY) if name.startswith("each_level-")]


def test_a_line_is_the_time_of_each_level_in_one_way() -> None:
    figure = figures.draw("each_level-volume", "disk", data_of(table(), study=study()))
    left, right = figure.axes
    for line, share in zip(left.lines, (1, 2), strict=True):
        assert np.asarray(line.get_ydata()) == pytest.approx(np.array(TIMES) / share)
    (sizes,) = right.lines
    assert np.asarray(sizes.get_ydata()).sum() == 16 * 2**20
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [f"{words}, 2 MPI ranks, contiguous" for words in WAYS.values()]
    assert figure.texts[0].get_text() == "16 MiB: time of each level · disk"


def test_each_level_has_twice_the_bytes_of_the_one_before() -> None:
    assert bytes_by_level(16, 5, 1).tolist() == [1, 1, 2, 4, 8]


def test_no_level_has_a_part_of_a_sample() -> None:
    """Of a bitmask of 64 samples an array may fill a quarter, and has none in two levels."""
    found = bytes_by_level(32, 7, 2)
    assert found[0] == 2 and np.isnan(found[1:3]).all() and found[3:].tolist() == [2, 4, 8, 16]
