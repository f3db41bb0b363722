"""Daily grids: any box alone is that part of the whole, and gzip makes of them what it makes of data."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import changed, load, mistake

from compare_fields import ratio, synthetic
from hyperslab.data.daily_grid import LEAST, MISSING, DailyGrid
from hyperslab.data.models import missing_of, open_content

SHAPE = (40, 18, 36)
WHOLE = DailyGrid(SHAPE, "float32").block((0, 0, 0), SHAPE)
DONOR = Path(__file__).parents[3] / "shared" / "donors" / "sst.mnmean.nc"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_box_alone_is_that_part_of_the_whole_bit_by_bit(data: st.DataObject) -> None:
    extent = tuple(data.draw(st.integers(1, size)) for size in SHAPE)
    origin = tuple(data.draw(st.integers(0, size - width)) for size, width in zip(SHAPE, extent, strict=True))
    part = WHOLE[tuple(slice(o, o + e) for o, e in zip(origin, extent, strict=True))]
    assert DailyGrid(SHAPE, "float32").block(origin, extent).tobytes() == part.tobytes()


def test_values_are_the_same_today_and_elsewhere() -> None:
    assert zlib.crc32(WHOLE.tobytes()) == 3695902952


def test_land_has_no_values_and_the_sea_no_two_days_alike() -> None:
    land = WHOLE == MISSING
    assert (land == land[0]).all()
    assert 0.25 < land[0].mean() < 0.4
    sea = WHOLE[:, ~land[0]]
    assert sea.min() == np.float32(LEAST) and 20 < sea.max() < 40
    assert len(np.unique(sea, axis=0)) == len(sea)
    # Ice apart, every value differs from that of the next day.
    free = sea[:, (sea > LEAST).all(axis=0)]
    assert (np.diff(free, axis=0) != 0).mean() > 0.99


def test_fields_are_warm_at_the_equator_smooth_and_full_of_digits() -> None:
    field = DailyGrid((1, 180, 360), "float64").block((0, 0, 0), (1, 180, 360))[0]
    sea = np.where(field == MISSING, np.nan, field)
    assert np.nanmean(sea[80:100]) > np.nanmean(sea[:30]) + 15
    assert np.nanmedian(np.abs(np.diff(sea, axis=1))) < 0.5
    assert len(np.unique(field)) > 0.5 * field.size


@pytest.mark.parametrize(
    ("level", "shuffled", "measured"), [(4, False, 1.85), (4, True, 2.08), (9, True, 2.14)]
)
def test_gzip_makes_of_a_map_what_it_makes_of_a_measured_one(
    level: int, shuffled: bool, measured: float
) -> None:
    # Measured: NOAA's monthly sea surface temperature, ERSST v5, a map of 89 x 180 (sst.mnmean.nc).
    grid = DailyGrid((1900, 89, 180), "float32").block((1800, 0, 0), (1, 89, 180))
    assert ratio(grid, level, shuffled) == pytest.approx(measured, rel=0.1)


def compared(donor: str) -> list[list[float]]:
    """What the command says of a donor, each number beside that of the fill."""
    script = Path(__file__).parents[2] / "workflow" / "scripts" / "compare_fields.py"
    words = [sys.executable, str(script), donor]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    ratios = [[float(word) for word in line[44:].split()] for line in lines]
    assert len(ratios) == 20
    return ratios


def test_the_command_compares_with_a_donor() -> None:
    if not DONOR.exists():
        pytest.skip("there is no ../shared/donors/sst.mnmean.nc beside this clone")
    ratios = compared(f"{DONOR}::/sst")
    assert max(abs(made / measured - 1) for measured, made in ratios[2:]) < 0.08


def test_the_command_tells_a_field_of_fewer_digits_from_the_fill(tmp_path: Path) -> None:
    field = synthetic((24, 30, 60), np.dtype("float32"))
    with h5py.File(tmp_path / "field.h5", "w") as file:
        file["sst"] = np.round(2 * field) / 2
    ratios = compared(f"{tmp_path / 'field.h5'}::/sst")
    # Land is where it was, and every chunk is smaller.
    assert ratios[0][0] == ratios[0][1] > 0.2
    assert all(measured > 1.2 * made for measured, made in ratios[2:])


def test_what_is_missing_comes_with_the_fill_or_the_study() -> None:
    dataset = {"shape": [2, 3, 4], "dtype": "float32", "fill": "daily-grid"}
    assert missing_of(dataset) == MISSING
    assert open_content(dataset).block((0, 0, 0), (1, 1, 1)).dtype == np.float32
    assert missing_of({**dataset, "donor": {"path": "x"}, "missing": -9.0}) == -9.0
    assert missing_of({**dataset, "donor": {"path": "x"}}) is None
    assert missing_of({"fill": "mixed"}) is None


def test_a_daily_grid_of_whole_numbers_or_of_two_axes_is_a_mistake(tmp_path: Path) -> None:
    said = mistake(tmp_path, changed("dataset.fill", "daily-grid"))
    assert "fill daily-grid has three axes (day, latitude, longitude) of float32 or float64" in said
    grid = {"axes": ["day", "lat", "lon"], "shape": [4, 5, 6], "dtype": "float32", "fill": "daily-grid"}
    content = {
        "title": "a study",
        "dataset": grid,
        "layouts": {"one": None},
        "cases": {"map": {"read": {"day": 1}}},
    }
    assert load(tmp_path, content).dataset.fill == "daily-grid"
    content["dataset"] = {**grid, "missing": -1.0}
    assert "leave `missing` out" in mistake(tmp_path, content)
