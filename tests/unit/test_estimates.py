"""About how long cells take: what counts as a write, as a read of everything, or as a run on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from studies import Content, changed, load

from hyperslab.planning.estimates import READ_BYTES_PER_S, SECONDS_A_REPEAT, estimated_seconds

REDUCE = {"reduce": {"z": 25}, "processes": [2]}


def with_case(repeats: dict[str, int], **case: Any) -> Content:
    """The base study with a case more."""
    content = changed("title", "a study")
    content["cases"]["more"] = {**case, "repeats": repeats}
    return content


def test_a_reduction_takes_longer_for_more_repeats(tmp_path: Path) -> None:
    few, many = (
        estimated_seconds(load(tmp_path, with_case({"cold": n, "warm": n}, **REDUCE)), "4x4x64", "more-2p")
        for n in (5, 50)
    )
    assert 2 < few < many < 60


def test_reading_the_latest_of_many_datasets_is_no_write(tmp_path: Path) -> None:
    few, many = (
        estimated_seconds(
            load(tmp_path, with_case({"write": 2, "cold": n, "warm": 5}, objects="x")), "contiguous", "more"
        )
        for n in (5, 105)
    )
    assert many - few == pytest.approx(100 * SECONDS_A_REPEAT)


def test_a_team_reads_all_that_it_wrote(tmp_path: Path) -> None:
    case = {"parallel": {"datasets": 20, "bytes": 24000, "transfer": 800}, "ranks": [2]}
    content: Content = {
        "title": "a study",
        "dataset": {"axes": ["dataset", "element"], "shape": [20, 24000], "dtype": "uint16"},
        "layouts": {"contiguous": None},
        "cases": {"team": case},
    }
    few, many = (
        estimated_seconds(load(tmp_path, {**content, "repeats": {"cold": n}}), "contiguous", "team-posix-2r")
        for n in (5, 105)
    )
    assert many - few == pytest.approx(100 * 20 * 24000 * 2 / READ_BYTES_PER_S)


def test_whole_planes_lie_together_and_need_no_read_ahead_each(tmp_path: Path) -> None:
    content = changed("cases", {"planes": {"read": {"x": 2}}, "slices": {"read": {"z": 40}}})
    study = load(tmp_path, {**content, "score": None, "recommendation": {}})
    planes, slices = (estimated_seconds(study, "contiguous", case) for case in ("planes", "slices"))
    assert planes < slices
