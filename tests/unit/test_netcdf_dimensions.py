"""Files with the dimensions of netCDF-4: what is in them, and that nothing else changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from samples import file_specification, values_of
from studies import changed, load, mistake

from hyperslab.data.models import open_content
from hyperslab.formats import format_of
from hyperslab.formats.hdf5.array import FORMAT
from hyperslab.layouts import layout_of
from hyperslab.studies import specification

SHAPE = (10, 12, 30)
GZIP = ({"name": "gzip", "level": 1},)


def written(directory: Path, netcdf: bool, chunks: Any, filters: Any = (), order: str | None = None) -> Path:
    spec = file_specification(SHAPE, chunks, order, filters)
    if netcdf:
        spec["layout"]["netcdf"] = True
    path = directory / f"{netcdf}.h5"
    FORMAT.generate(str(path), spec, values_of(spec))
    return path


@pytest.mark.parametrize(
    ("chunks", "filters", "order"),
    [(None, (), None), ((4, 4, 16), (), "zxy"), ((4, 4, 16), GZIP, None)],
    ids=["contiguous", "turned", "gzip"],
)
def test_each_axis_is_a_dimension_without_a_variable(
    tmp_path: Path, chunks: Any, filters: Any, order: Any
) -> None:
    with h5py.File(written(tmp_path, True, chunks, filters, order)) as file:
        data, names = file["data"], order or "xyz"
        found = [dimension[0].name.strip("/") for dimension in data.dims]
        assert "".join(found) == names
        for name, extent in zip(names, data.shape, strict=True):
            scale = file[name]
            assert scale.shape == (extent,) and scale.is_scale and scale.id.get_storage_size() == 0
            said = scale.attrs["NAME"].decode()
            assert said.startswith("This is a netCDF dimension but not a netCDF variable.")
            assert int(said[-10:]) == extent
        with h5py.File(written(tmp_path, False, chunks, filters, order)) as other:
            assert np.array_equal(other["data"][...], data[...])
            assert other["data"].id.get_storage_size() == data.id.get_storage_size()
            assert other["data"].chunks == data.chunks
            assert set(file) - set(other) == set("xyz")


def test_the_bound_of_bytes_covers_them(tmp_path: Path) -> None:
    planned = load(tmp_path, changed("layouts.contiguous", {"netcdf": True}))
    layout = layout_of(planned.layouts["contiguous"])
    path = written(tmp_path, True, None)
    array = planned.dataset.model_copy(update={"shape": list(SHAPE)})
    assert path.stat().st_size <= layout.largest_bytes(array)
    assert "with dimensions of netCDF-4" in layout.words(["x", "y", "z"], 2)
    assert "netcdf" not in planned.layouts["auto"]


def test_an_axis_called_as_what_is_there_is_a_mistake(tmp_path: Path) -> None:
    content = {
        "title": "a study",
        "dataset": {"axes": ["data", "x"], "shape": [4, 5], "dtype": "uint8"},
        "layouts": {"one": {"netcdf": True}},
        "cases": {"row": {"read": {"x": 1}}},
    }
    assert mistake(tmp_path, content) == (
        "layouts.one.netcdf: a dimension cannot be called data, which the file has already"
    )


# Not in this process, which has the library of h5py: dimensions, shape and values of each file, as JSON.
BY_NETCDF = """
import json, sys
import netCDF4
found = {}
for path in sys.argv[1:]:
    with netCDF4.Dataset(path) as file:
        variable = file["data"]
        variable.set_auto_mask(False)
        dimensions = {name: one.size for name, one in file.dimensions.items()}
        values = variable[...].astype("float64")
        said = [variable.dimensions, list(variable.shape), dimensions, values.sum(), values[-1, -1, -1]]
        found[path] = said
print(json.dumps(found))
"""


def test_netcdfs_own_library_reads_each_file_of_a_collection(tmp_path: Path) -> None:
    grid = {"axes": ["day", "lat", "lon"], "shape": [40, 18, 36], "dtype": "float32", "fill": "daily-grid"}
    content = {
        "title": "a study",
        "dataset": {**grid, "collection": {"along": "day", "first": "1988-02-15"}},
        "layouts": {"month": {"files": "month", "netcdf": True, "chunks": [10, 9, 12], "filters": ["gzip"]}},
        "cases": {"map": {"read": {"day": 1}}},
    }
    planned = load(tmp_path, content)
    (tmp_path / "made").mkdir()
    spec: Any = json.loads(specification.text(specification.file_specification(planned, "month", "map")))
    path, values = tmp_path / "made" / "data", open_content(spec["dataset"])
    format_of(spec["layout"]).generate(str(path), spec, values)
    files = sorted(path.iterdir())
    assert [file.stem for file in files] == ["1988-02", "1988-03"]
    done = subprocess.run(
        [sys.executable, "-c", BY_NETCDF, *map(str, files)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first = 0
    for file, (axes, shape, dimensions, total, last) in zip(
        files, json.loads(done.stdout).values(), strict=True
    ):
        days = shape[0]
        right = values.block((first, 0, 0), (days, 18, 36)).astype(np.float64)
        assert axes == ["day", "lat", "lon"] and shape == [days, 18, 36], file
        assert dimensions == {"day": days, "lat": 18, "lon": 36}
        assert (total, last) == (right.sum(), right[-1, -1, -1])
        first += days
    assert first == 40
