"""Pyramids in HDF5 and Zarr: what a study may say, what is stored, every level read back and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from studies import changed, load, mistake
from test_formats_zarr import content

from hyperslab import formats
from hyperslab.cases.context import Context, VerificationError
from hyperslab.cases.write import run as run_write
from hyperslab.data.levels import NextLevel, truth
from hyperslab.data.selections import Box, at_level
from hyperslab.data.values import open_values
from hyperslab.formats import pyramid
from hyperslab.formats.hdf5.array import FORMAT as HDF5
from hyperslab.formats.hdf5.array import level_name
from hyperslab.formats.zarr.array import FORMAT as ZARR
from hyperslab.layouts import layout_of, schema_of
from hyperslab.layouts.pyramids import level_specification
from hyperslab.measuring.counters import Counters, between
from hyperslab.rewriting import RewriteError
from hyperslab.rewriting.asking import asked
from hyperslab.specifications import Specification
from hyperslab.studies.dataset_schema import Dataset
from hyperslab.validation.errors import Place

PLACE = Place(Path("study.yaml"), "layouts.this")
SHAPE = (13, 11, 86)
SUBSAMPLING, AVERAGING = {"levels": 3}, {"levels": 3, "by": "averaging"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": [4, 4, 64]},
    "contiguous": {},
    "filters": {"chunks": [8, 8, 16], "filters": ["shuffle", {"gzip": 1}], "order": ["z", "x", "y"]},
    "fixed array": {"chunks": [4, 4, 64], "settings": {"libver": "v110"}},
    "zarr": {"format": "zarr", "chunks": [8, 8, 16], "order": ["y", "z", "x"]},
    "shards": {"format": "zarr", "chunks": [4, 4, 32], "shards": [8, 8, 64], "codecs": ["zstd"]},
    "zarrs": {
        "format": "zarr",
        "chunks": [4, 4, 32],
        "shards": [8, 8, 64],
        "settings": {"pipeline": "zarrs"},
    },
}


def cell(layout: dict[str, Any], dtype: str = "uint16", shape: tuple[int, ...] = SHAPE) -> Specification:
    """Dataset and layout of a specification; `layout` is what a study says of it."""
    given = {"axes": list("xyz"[: len(shape)]), "shape": list(shape), "dtype": dtype}
    dataset = Dataset.model_validate(given)
    schema = schema_of(layout.get("format", "hdf5"))
    resolved: Any = schema.resolve(PLACE.validate(schema.MODEL, layout), dataset, {}, PLACE)
    array: Any = dataset.model_dump(include={"axes", "shape", "dtype", "fill"})
    return {"dataset": array, "layout": resolved}


def boxes() -> list[Box]:
    """All of the array, and a part whose end is its edge along one axis only."""
    return [Box((0, 0, 0), SHAPE), Box((8, 8, 48), (5, 2, 30))]


@pytest.mark.parametrize("by", [None, SUBSAMPLING, AVERAGING], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_level_is_read_and_counted(tmp_path: Path, name: str, by: dict[str, Any] | None) -> None:
    spec = cell({**LAYOUTS[name], **({"pyramid": by} if by else {})})
    layout, format_ = layout_of(spec["layout"]), formats.load(spec["layout"]["format"])
    path, values = str(tmp_path / f"a{layout.suffix}"), open_values(spec["dataset"])
    format_.prepare(spec)
    format_.generate(path, spec, values)
    stored, counters, known = format_.stored_sizes(path, spec), Counters(), 0
    for box in boxes():
        # The last level is coarser than any that is stored.
        for level in range(5):
            asked_for = at_level(
                Box(tuple(start >> level << level for start in box.origin), box.extent), level
            )
            opened = format_.open(path, spec)
            read, before = opened.reader(asked_for), counters.read()
            found, after = read(), counters.read()
            opened.close()
            expected = truth(values, asked_for, layout.averaged_levels)
            assert found.dtype == expected.dtype and np.array_equal(found, expected)
            predicted, counted = format_.predict(asked_for, spec, stored), between(before, after)
            if predicted["requested"] == predicted["requested"]:
                known += 1
                assert counted["requested_bytes"] == predicted["requested"]
            if "requested_reads" in predicted:
                assert counted["requested_reads"] == predicted["requested_reads"]
    assert known == (10 if name != "fixed array" else 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_its_bytes_are_those_of_arithmetic(tmp_path: Path, name: str) -> None:
    plain, spec = cell(LAYOUTS[name]), cell({**LAYOUTS[name], "pyramid": AVERAGING})
    layout, format_ = layout_of(spec["layout"]), formats.load(spec["layout"]["format"])
    reports = []
    for number, one in enumerate((plain, spec)):
        path = str(tmp_path / f"{number}{layout.suffix}")
        format_.generate(path, one, open_values(one["dataset"]))
        reports.append(format_.report(path, one))
    before, found = reports
    compressed = spec["layout"].get("filters") or spec["layout"].get("codecs")
    assert "pyramid_bytes" not in before
    assert found["pyramid_predicted_bytes"] == (None if compressed else found["pyramid_bytes"])
    assert found["pyramid_bytes"] > 7 * 6 * 43 * 2 or compressed
    # The array itself is stored as without a pyramid.
    for same in ("stored_bytes", "data_bytes", "padding_bytes", "padding_predicted_bytes"):
        assert found[same] == before[same]
    assert found["chunks"] == found["chunks_predicted"] >= before["chunks"]
    assert found["index_bytes"] == found["index_predicted_bytes"] >= before["index_bytes"]
    parts = ("stored_bytes", "pyramid_bytes", "index_bytes", "remainder_bytes")
    assert found["file_bytes"] == sum(found[part] for part in parts)
    assert 0 < found["remainder_bytes"] < 30_000
    assert found["file_bytes"] <= layout.largest_bytes(Dataset.model_validate(spec["dataset"]))
    if "files_predicted" in found:
        assert found["files"] + found["folders"] == found["files_predicted"]


def places(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Where each dataset lies: offset, bytes and filter mask of its chunks, in the order of the index."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with h5py.File(path) as file:
        for level in range(4):
            dataset = file[level_name(level)].id
            if file[level_name(level)].chunks:
                seen: list[tuple[Any, ...]] = []
                dataset.chunk_iter(
                    lambda one, to=seen: to.append((one.byte_offset, one.size, one.filter_mask))
                )
                found[f"level{level}"] = seen
            else:
                found[f"level{level}"] = [(dataset.get_offset(), dataset.get_storage_size())]
    return found


@pytest.mark.parametrize("name", ["chunks", "contiguous", "filters"])
def test_a_shortcut_makes_the_plain_writers_file(tmp_path: Path, name: str) -> None:
    spec = cell({**LAYOUTS[name], "pyramid": SUBSAMPLING})
    made, plain = tmp_path / "made.h5", tmp_path / "plain.h5"
    HDF5.generate(str(made), spec, open_values(spec["dataset"]))
    HDF5.write_plain(str(plain), level_specification(spec, 0), open_values(spec["dataset"]))
    HDF5.add_levels(str(plain), spec)
    assert places(made) == places(plain)
    # The property list of the array says when its space was allocated; all else is equal.
    differ = np.frombuffer(made.read_bytes(), "u1") != np.frombuffer(plain.read_bytes(), "u1")
    assert np.count_nonzero(differ) <= 4


@pytest.mark.parametrize("name", ["zarr", "shards", "zarrs"])
def test_a_generated_store_is_the_plain_writers(tmp_path: Path, name: str) -> None:
    spec = cell({**LAYOUTS[name], "pyramid": AVERAGING})
    ZARR.generate(str(tmp_path / "made"), spec, open_values(spec["dataset"]))
    ZARR.write_plain(str(tmp_path / "plain"), spec, open_values(spec["dataset"]))
    assert content(tmp_path / "made") == content(tmp_path / "plain")


@pytest.mark.parametrize("name", ["chunks", "shards"])
def test_a_level_of_large_chunks_is_made_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec = cell({**LAYOUTS[name], "pyramid": AVERAGING})
    values, format_ = open_values(spec["dataset"]), formats.load(spec["layout"]["format"])
    monkeypatch.setattr(pyramid, "SOURCE_BYTES", 2000)
    opened = format_.create(str(tmp_path / "a"), spec)
    opened.write(boxes()[0], values.block((0, 0, 0), SHAPE))
    opened.flush()
    opened.close()
    opened = format_.open(str(tmp_path / "a"), spec)
    for level in range(4):
        box = at_level(boxes()[0], level)
        assert np.array_equal(opened.read(box), truth(values, box, 3))
    opened.close()


@pytest.mark.parametrize("name", ["chunks", "zarr"])
def test_a_write_makes_and_compares_its_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    spec = cell({**LAYOUTS[name], "pyramid": AVERAGING})
    spec = {**spec, "repeats": {"write": 1}, "case": {
        "name": "all", "kind": "write", "strategy": "box", "block": {"x": 5}, "states": ["write"],
    }}  # fmt: skip
    suffix, format_ = layout_of(spec["layout"]).suffix, formats.load(spec["layout"]["format"])
    context = Context(spec, format_, str(tmp_path / f"a{suffix}"), open_values(spec["dataset"]), False)
    outcome = run_write(context)
    assert outcome.report["pyramid_bytes"] == outcome.report["pyramid_predicted_bytes"] > 0
    assert outcome.repeats[0]["written_bytes"] > outcome.repeats[0]["asked_bytes"] * 8 // 7
    # One wrong element of a coarse level fails the cell.
    right = NextLevel.block

    def wrong(self: Any, origin: Any, extent: Any) -> Any:
        found = np.array(right(self, origin, extent))
        found.reshape(-1)[-1] += 1
        return found

    monkeypatch.setattr(pyramid, "NextLevel", type("Wrong", (NextLevel,), {"block": wrong}))
    with pytest.raises(VerificationError, match="level 1 is not that of what was written"):
        run_write(context)


def test_a_dataset_lies_beside_the_array(tmp_path: Path) -> None:
    shape = (21, 19, 150)
    layout = {**LAYOUTS["filters"], "order": ["x", "y", "z"], "pyramid": {"levels": 4}}
    spec = cell(layout, shape=shape)
    HDF5.generate(str(tmp_path / "a.h5"), spec, open_values(spec["dataset"]))
    with h5py.File(tmp_path / "a.h5") as file:
        shapes = {name: file[name].shape for name in file if isinstance(file[name], h5py.Dataset)}
        assert shapes == {"data": shape, "level1": (11, 10, 75), "level2": (6, 5, 38), "level3": (3, 3, 19),
                          "level4": (2, 2, 10)}  # fmt: skip
        assert np.array_equal(file["level2"][:], file["data"][::4, ::4, ::4])
        assert file["level1"].chunks == (8, 8, 16) and file["level3"].chunks == (3, 3, 16)
        assert file["level3"].compression == "gzip" and file["level3"].shuffle


@pytest.mark.parametrize("by", ["subsampling", "averaging"])
def test_a_group_is_described_as_ome_zarr_has_it(tmp_path: Path, by: str) -> None:
    spec = cell({**LAYOUTS["zarr"], "pyramid": {"levels": 2, "by": by}})
    path = str(tmp_path / "a.zarr")
    formats.load("zarr").generate(path, spec, open_values(spec["dataset"]))
    group = zarr.open_group(path, mode="r")
    said: Any = group.attrs["ome"]
    (image,) = said["multiscales"]
    assert said["version"] == "0.5"
    names = [axis["name"] for axis in image["axes"]]
    assert {axis["type"] for axis in image["axes"]} == {"space"}
    array = np.asarray(group["0"])
    for level, dataset in enumerate(image["datasets"]):
        held: Any = group[dataset["path"]]
        assert list(held.metadata.dimension_names) == names == ["y", "z", "x"]
        scale, *shift = dataset["coordinateTransformations"]
        assert scale == {"type": "scale", "scale": [2.0**level] * 3}
        # The middle of the first two elements is half a step from the first, that of four one and a half.
        middle = [{"type": "translation", "translation": [(2**level - 1) / 2] * 3}]
        assert shift == (middle if by == "averaging" and level else [])
        if by == "subsampling":
            assert np.array_equal(held[:], array[(slice(None, None, 2**level),) * 3])


def test_four_axes_have_no_description_that_may_be_wrong(tmp_path: Path) -> None:
    given = {"axes": list("twxy"), "shape": [3, 4, 5, 6], "dtype": "uint8"}
    dataset, schema = Dataset.model_validate(given), schema_of("zarr")
    layout: Any = schema.resolve(
        PLACE.validate(schema.MODEL, {"format": "zarr", "pyramid": {"levels": 1}}), dataset, {}, PLACE
    )
    spec: Any = {"dataset": dataset.model_dump(include={"axes", "shape", "dtype", "fill"}), "layout": layout}
    formats.load("zarr").generate(str(tmp_path / "a"), spec, open_values(spec["dataset"]))
    assert json.loads((tmp_path / "a" / "zarr.json").read_text())["attributes"] == {}
    coarse = zarr.open_array(str(tmp_path / "a" / "1"), mode="r")
    assert coarse.shape == (2, 2, 3, 3)


# ---- in a study


def with_layout(**layout: Any) -> dict[str, Any]:
    return changed("layouts.mine", layout)


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ({"pyramid": {"levels": 11}}, "layouts.mine.pyramid.levels: 11 is too many: the array has "),
        ({"pyramid": {"levels": 0}}, "layouts.mine.pyramid.levels: "),
        ({"pyramid": {"levels": 1, "by": "guessing"}}, "layouts.mine.pyramid.by: "),
        ({"pyramid": 3}, "layouts.mine.pyramid: "),
        (
            {"chunks": [4, 4, 8], "filters": [{"zfp": {"accuracy": 1.0}}], "pyramid": {"levels": 1}},
            "layouts.mine.",
        ),
        ({"storage": "compact", "pyramid": {"levels": 1}}, "compact storage is for small arrays"),
        ({"format": "idx", "pyramid": {"levels": 1}}, "pyramid"),
        (
            {"format": "zarr-s3", "chunks": [2, 3, 4], "pyramid": {"levels": 1}},
            "of Zarr in an object store the array alone is read",
        ),
    ],
    ids=str,
)
def test_a_pyramid_that_cannot_be_is_one_line(tmp_path: Path, layout: dict[str, Any], says: str) -> None:
    said = mistake(tmp_path, with_layout(**layout))
    assert says in said and "\n" not in said


@pytest.mark.parametrize(("dtype", "by"), [("int64", "averaging"), ("float32", "subsampling")])
def test_what_cannot_be_made_of_the_values_is_one_line(dtype: str, by: str) -> None:
    layout: dict[str, Any] = {"chunks": [4, 4, 8], "pyramid": {"levels": 1, "by": by}}
    says = "pyramid.by: sums of int64 may overflow; take subsampling"
    if by == "subsampling":
        layout["filters"] = [{"zfp": {"accuracy": 1.0}}]
        says = "pyramid: levels are made of what is stored, which a lossy filter changes"
    with pytest.raises(Exception, match=says):
        cell(layout, dtype)


def test_a_pyramid_holds_no_many_arrays_and_no_file_is_rewritten_with_one(tmp_path: Path) -> None:
    content = changed("cases.many", {"objects": "x", "layouts": ["mine"]})
    content["layouts"]["mine"] = {"pyramid": {"levels": 1}}
    assert "does not hold many arrays in a file" in mistake(tmp_path, content)
    study = load(tmp_path, with_layout(pyramid={"levels": 2}))
    with pytest.raises(RewriteError, match="has coarser levels beside the array"):
        asked(study.given["mine"], {})
    layout = layout_of(study.layouts["mine"])
    assert layout.words(study.dataset.axes, 2).endswith("2 coarser levels by subsampling")
    assert layout.abilities.coarse_levels and layout.averaged_levels == 0


def test_a_level_of_plain_zarr_is_a_case(tmp_path: Path) -> None:
    content = changed("cases.view", {"read": {"x": "all"}, "level": [2, 0], "layouts": ["mine"]})
    content["layouts"]["mine"] = {"format": "zarr", "chunks": "auto"}
    assert load(tmp_path, content).cases["view-level2"]["level"] == 2
