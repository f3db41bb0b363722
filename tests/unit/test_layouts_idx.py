"""What an IDX layout may say, the arithmetic of its files, and cases of coarser levels."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_cells import cell, dataset_of
from pydantic import ValidationError
from studies import changed, load, mistake

from hyperslab.formats.idx import description
from hyperslab.layouts import layout_of
from hyperslab.layouts.idx_files import IdxFiles, name_of
from hyperslab.layouts.idx_schema import IdxModel
from hyperslab.validation.errors import ConfigurationError


def resolved(shape: tuple[int, ...], **layout: Any) -> dict[str, Any]:
    """A layout of an array of 16-bit integers as it goes into a specification."""
    return dict(cell(shape, **layout)["layout"])


def test_a_layout_carries_its_own_keys_alone() -> None:
    assert resolved((10, 20, 30)) == {
        "format": "idx", "axes": ["x", "y", "z"], "order": ["x", "y", "z"], "bitmask": "V01201201201201",
        "bits_per_block": 14, "blocks_per_file": 256, "within_block": "hz", "codec": "raw",
        "settings": {"library": "hyperslab"}, "label": None,
    }  # fmt: skip
    several = resolved((3, 2, 10, 20, 30), times="f", fields="w", bits_per_block=6)
    assert (several["order"], several["times"], several["fields"]) == (["f", "w", "x", "y", "z"], "f", "w")


@pytest.mark.parametrize(
    ("layout", "path", "says"),
    [
        ({"bitmask": "V01"}, ".bitmask", "covers 1 along its axis 2, and the array has 10"),
        ({"bitmask": "none"}, ".bitmask", "should be V and the number of an axis"),
        ({"times": "a"}, ".times", "no such axis; the dataset has x, y, z"),
        ({"order": ["x", "y"]}, ".order", "must name each of"),
        ({"bitmask": "V" + "012" * 11}, ".bitmask", "has 33 splits, and the array needs 14; take guess"),
        ({"times": "x", "fields": "y"}, "", "has 2 to 5 axes beside those of time steps and fields, not 1"),
    ],
)
def test_a_layout_that_does_not_fit_is_refused(layout: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"study.yaml: layouts.this{path}: .*{says}"):
        resolved((10, 20, 30), **layout)


def test_openvisus_has_no_slowest_axis_of_one_element() -> None:
    with pytest.raises(ConfigurationError, match="name x in times or fields"):
        resolved((1, 20, 30), settings={"library": "openvisus"})
    resolved((20, 1, 30), settings={"library": "openvisus"})
    resolved((1, 20, 30), settings={"library": "openvisus"}, times="x")


@pytest.mark.parametrize("key", ["chunks", "filters", "release", "codecs"])
def test_what_other_formats_have_is_no_key_of_an_idx_layout(key: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        IdxModel.model_validate({key: "auto"})


def test_times_and_fields_are_two_axes() -> None:
    with pytest.raises(ValidationError, match="two axes, not one"):
        IdxModel.model_validate({"times": "x", "fields": "x"})


@settings(max_examples=40)
@given(
    # Of four axes shorter ones: all blocks are listed.
    st.lists(st.integers(1, 20), min_size=2, max_size=3)
    | st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(1, 12), st.integers(1, 300),
    st.sampled_from(["guess", "regular"]),
)  # fmt: skip
def test_counts_of_blocks_and_bytes_agree_with_the_blocks_listed(
    shape: list[int], bits: int, per_file: int, bitmask: str
) -> None:
    if max(shape) == 1:
        return
    layout = resolved(tuple(shape), bits_per_block=bits, blocks_per_file=per_file, bitmask=bitmask)
    files = IdxFiles(layout, layout["axes"], shape, 2)
    assert files.block_count() == len(files.present)
    assert files.padding_bytes() == len(files.present) * files.block_bytes - dataset_of(shape).nbytes
    held = [files.in_file(int(first)) for first in files.files]
    assert sum(map(len, held)) == len(files.present) and all(len(one) for one in held)
    ends = [int(files.offsets(int(first), 0)[-1]) + files.block_bytes for first in files.files]
    assert ends == [files.file_bytes(int(first)) for first in files.files]
    assert sum(ends) == len(held) * files.data_start + len(files.present) * files.block_bytes
    assert files.largest_bytes() >= sum(ends)


def test_folders_are_bounded_however_many_blocks_a_file_holds() -> None:
    layout = resolved((128, 128, 128), bits_per_block=1, blocks_per_file=4096)
    files = IdxFiles(layout, layout["axes"], (128, 128, 128), 2)
    names = [PurePath(name_of(files.template, "", 0, int(first))) for first in files.files]
    folders = {folder for name in names for folder in name.parents}
    assert (len(names), len(folders)) == (256, 18)
    # And the description.
    assert files.largest_files() >= len(names) + len(folders) + 1


def test_there_is_room_for_the_text_of_many_fields() -> None:
    layout = resolved((2000, 4, 4), fields="x")
    files = IdxFiles(layout, layout["axes"], (2000, 4, 4), 8)
    stored = sum(files.file_bytes(first) for first in files.files.tolist())
    assert files.largest_bytes() >= stored + len(description.written(files, "float64"))


def test_a_sub_volume_of_a_block_is_the_layouts_chunk() -> None:
    layout = layout_of(resolved((256, 256, 256)))
    assert layout.chunks == [64, 32, 32]
    assert layout.touched((64, 32, 32), (64, 32, 32)) < layout.touched((65, 33, 33), (64, 32, 32))
    assert layout_of(resolved((256, 256, 256), order=["z", "y", "x"])).chunks == [32, 32, 64]


def test_a_coarse_level_is_in_the_first_block() -> None:
    layout, shape = layout_of(resolved((256, 256, 256))), (256, 256, 256)
    # Every sixteenth element: all of them are in block 0; a piece more is counted for each level.
    assert layout.estimated_reading(shape, shape, 2, level=4) == (2, 2 * 2**16)
    blocks, size = layout.estimated_reading(shape, shape, 2)
    assert blocks >= 2**24 // 2**15 and size == 2**25


def test_words_of_a_layout() -> None:
    text = layout_of(resolved((256, 256, 256), codec="zip")).words(list("xyz"), 2)
    assert text == (
        "blocks of 64 KiB in HZ order, 256 of them a file, bitmask V012012012012012012012012, filters zip, "
        "IDX"
    )
    visus = layout_of(resolved((256, 256), within_block="row-major", settings={"library": "openvisus"}))
    assert visus.words(list("yz"), 2).endswith("bitmask V0101010101010101, no filters, IDX through openvisus")
    assert visus.environment() == ".venv-releases/openvisus-2.2.149/made-from.lock"


def test_an_array_beyond_2_to_the_63_is_one_line(tmp_path: Path) -> None:
    content = changed("layouts", {"mine": {"format": "idx"}})
    content = {
        **content,
        "grids": [],
        "cases": {"all": {"write": "whole"}},
        "recommendation": {},
        "score": None,
    }
    content["dataset"] = {"axes": ["x", "y"], "shape": [2**31, 2**31], "dtype": "float64"}
    assert mistake(tmp_path, content) == f"dataset: shape [{2**31}, {2**31}] is beyond any file system"
    content["dataset"]["shape"] = [2**63, 2]
    assert "dataset.shape.0: should be less than or equal to" in mistake(tmp_path, content)


# ---- levels in a study


def with_level(level: Any, **more: Any) -> dict[str, Any]:
    content = changed("cases.view", {"read": {"x": "all"}, "level": level, "layouts": ["mine"], **more})
    content["layouts"]["mine"] = {"format": "idx"}
    return content


def test_each_of_several_levels_is_a_case(tmp_path: Path) -> None:
    study = load(tmp_path, with_level([3, 0], title="a view"))
    assert study.cases["view-level3"]["level"] == 3 and study.cases["view-level0"]["level"] == 0
    assert study.cases["view-level3"]["title"] == "a view, level 3"
    assert load(tmp_path, with_level(2)).cases["view"]["level"] == 2
    assert "level" not in load(tmp_path, changed("cases.view", {"read": {"x": 1}})).cases["view"]


@pytest.mark.parametrize(
    ("level", "says"),
    [
        (10, "cases.view.level: 10 does not exist; there are 0, which is all, to 9, which is one element"),
        (-1, "cases.view.level: -1 does not exist"),
        ([2, 2], "level: each at most once"),
        ("fine", "expected a level, such as 3, or a list of levels"),
    ],
)
def test_a_level_that_does_not_exist_is_one_line(tmp_path: Path, level: Any, says: str) -> None:
    assert says in mistake(tmp_path, with_level(level))


def test_a_level_has_no_strides(tmp_path: Path) -> None:
    strides = {"z": {"extent": 40, "step": 4, "block": 1}}
    assert "level or strides, not both" in mistake(tmp_path, with_level(2, read=strides))
