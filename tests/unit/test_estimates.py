"""About how long cells take: what counts as a write, as a read of everything, or as a run on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import REDUCE, Content, changed, load, parallel_study, with_case

from hyperslab.planning.estimates import READ_BYTES_PER_S, SECONDS_A_REPEAT, estimated_seconds


def seconds(directory: Path, content: Content, layout: str, case: str) -> float:
    """About how long a cell of a study with this content takes."""
    return estimated_seconds(load(directory, content), layout, case)


def test_how_long_a_reduction_takes_can_be_estimated(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, with_case(**REDUCE, repeats={"cold": count, "warm": count}), "4x4x64", "team-2p")
        for count in (5, 50)
    )
    assert 2 < few < many < 60


def test_reading_the_latest_of_many_datasets_is_no_write(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, with_case(objects="x", repeats={"write": 2, "cold": count}), "contiguous", "team")
        for count in (5, 105)
    )
    assert many - few == pytest.approx(100 * SECONDS_A_REPEAT)


def test_a_team_reads_all_that_it_wrote(tmp_path: Path) -> None:
    few, many = (
        seconds(tmp_path, {**parallel_study(), "repeats": {"cold": count}}, "contiguous", "team-posix-2r")
        for count in (5, 10**5)
    )
    assert few > 2
    assert many - few == pytest.approx((10**5 - 5) * 3 * 64 * 2 / READ_BYTES_PER_S)


def test_whole_planes_lie_together_and_need_no_read_ahead_each(tmp_path: Path) -> None:
    content = changed("cases", {"planes": {"read": {"x": 2}}, "slices": {"read": {"z": 40}}})
    study = load(tmp_path, {**content, "score": None, "recommendation": {}})
    planes, slices = (estimated_seconds(study, "contiguous", case) for case in ("planes", "slices"))
    assert planes < slices
