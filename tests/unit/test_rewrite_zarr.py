"""A dataset of an HDF5 file as a Zarr array: values, fill value and attributes stay, or one clear line."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from hyperslab import rewrite
from hyperslab.formats.zarr.array import ZarrArray
from hyperslab.rewriting import RewriteError, zarr_copy
from hyperslab.rewriting.asking import read_layout
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.supervise import made_whole, partial_of
from hyperslab.validation.errors import ConfigurationError

SHAPE = (21, 19, 350)
MIB = 2**20


def copied(tmp_path: Path, file: Path, **asked: Any) -> Any:
    """The array that the dataset /group/values of a file becomes."""
    new = tmp_path / "new.zarr"
    chosen = {"format": "zarr", "chunks": [8, 8, 64], **asked}
    refused = zarr_copy.refused_layouts(file, "/group/values", {"this": chosen})
    if refused:
        raise RewriteError(refused["this"])
    zarr_copy.copy(file, new, "/group/values", chosen, MIB, Progress())
    return zarr.open_array(new, mode="r")


def stored(path: Path, values: Any, **options: Any) -> Path:
    """An HDF5 file with a dataset /group/values."""
    with h5py.File(path, "w") as file:
        file.create_dataset("group/values", data=values, **options)
    return path


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "|i1", "<f4", ">f8", "<i8"])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"shards": [16, 24, 128], "codecs": [{"zstd": 3}]},
        {"chunks": ["all", 1, "all"], "codecs": ["gzip", "crc32c"]},
        {"chunks": "auto", "settings": {"pipeline": "zarrs"}},
    ],
    ids=str,
)
def test_every_value_is_kept(tmp_path: Path, dtype: str, asked: dict[str, Any]) -> None:
    values = np.random.default_rng(1).integers(-99, 99, SHAPE).astype(dtype)
    if values.dtype.kind == "f":
        values[0, 0, :4] = [np.nan, -0.0, np.inf, 0.0]
    array = copied(
        tmp_path, stored(tmp_path / "a.h5", values, chunks=(5, 19, 100), compression="gzip"), **asked
    )
    found = np.asarray(array[:])
    assert found.dtype == values.dtype.newbyteorder("=")
    assert found.tobytes() == values.astype(found.dtype).tobytes()
    assert array.shards == (tuple(asked["shards"]) if "shards" in asked else None)


def test_what_was_never_written_is_the_fill_value(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("group/values", SHAPE, "i4", chunks=(5, 5, 50), fillvalue=-7)
        made[3, 4, :10] = range(10)
    array = copied(tmp_path, tmp_path / "a.h5")
    assert array.fill_value == -7
    assert len(list((tmp_path / "new.zarr" / "c").rglob("*/*/*"))) == 1
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(array[:], file["group/values"][:])


def test_attributes_are_kept_and_those_of_dimension_scales_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(stored(tmp_path / "a.h5", np.ones(SHAPE)), "r+") as file:
        dataset = file["group/values"]
        dataset.attrs["unit"] = "m/z"
        dataset.attrs["old"] = np.bytes_("bytes")
        dataset.attrs["three"] = np.arange(3, dtype="u1")
        dataset.attrs["single"] = np.float32(0.1)
        dataset.attrs["missing"] = np.nan
        dataset.attrs["names"] = ["a", "ü"]
        dataset.attrs["empty"] = h5py.Empty("f4")
        dataset.attrs["flag"] = True
        file["scale"] = np.arange(SHAPE[0])
        file["scale"].make_scale("x")
        dataset.dims[0].attach_scale(file["scale"])
        dataset.attrs["CLASS"], dataset.attrs["NAME"] = np.bytes_("IMAGE"), "mine"
    array = copied(tmp_path, tmp_path / "a.h5")
    assert dict(array.attrs) == {
        "unit": "m/z", "old": "bytes", "three": [0, 1, 2], "single": float(np.float32(0.1)),
        "missing": "NaN", "names": ["a", "ü"], "empty": None, "flag": True, "CLASS": "IMAGE", "NAME": "mine",
    }  # fmt: skip
    assert "left out: DIMENSION_LIST" in capsys.readouterr().err
    # Of a scale itself these are HDF5's.
    new, asked = tmp_path / "scale.zarr", {"format": "zarr", "chunks": "auto"}
    zarr_copy.copy(tmp_path / "a.h5", new, "scale", asked, MIB, Progress())
    assert dict(zarr.open_array(new, mode="r").attrs) == {}


@pytest.mark.parametrize(
    ("values", "asked", "says"),
    [
        (np.float64(1), {}, "no axis"),
        (np.zeros((0, 3)), {}, "no elements"),
        (np.array([b"a", b"b"]), {"chunks": "auto"}, "only numbers"),
        (np.zeros(3, "f8,i4"), {"chunks": "auto"}, "only numbers"),
        (np.zeros(3, bool), {"chunks": "auto"}, "only numbers"),
        (np.zeros((4, 4)), {"chunks": [5, 4]}, "larger than the array"),
        (np.zeros((4, 4)), {"chunks": [2, 2], "shards": [3, 2]}, "multiple of the chunks"),
        (np.zeros((4, 4)), {"chunks": "auto", "axes": ["x", "y", "z"]}, "has 2 axes"),
        (np.zeros((4, 4)), {"chunks": "auto", "axes": ["x", "y"], "order": ["y", "x"]}, "keeps its axes"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    tmp_path: Path, values: Any, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(RewriteError, match=says):
        copied(tmp_path, stored(tmp_path / "a.h5", values), **asked)
    assert not (tmp_path / "new.zarr").exists()


def test_values_in_files_that_are_not_there_do_not_become_fill_values(tmp_path: Path) -> None:
    source = stored(tmp_path / "source.h5", np.ones(SHAPE, "u2"))
    whole = h5py.VirtualLayout(SHAPE, "u2")
    whole[:] = h5py.VirtualSource("source.h5", "group/values", SHAPE)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("group").create_virtual_dataset("values", whole)
    assert (copied(tmp_path, tmp_path / "a.h5")[:] == 1).all()
    source.unlink()
    asked = {"format": "zarr", "chunks": "auto"}
    with pytest.raises(RewriteError, match="has values in files that are not there from here: source.h5$"):
        zarr_copy.copy(tmp_path / "a.h5", tmp_path / "b.zarr", "/group/values", asked, MIB, Progress())
    assert not (tmp_path / "b.zarr").exists()


def test_an_attribute_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    with h5py.File(stored(tmp_path / "a.h5", np.ones(SHAPE)), "r+") as file:
        file["group/values"].attrs["leads"] = file["group"].ref
    with pytest.raises(RewriteError, match="/group/values, attribute leads: cannot be kept in JSON"):
        copied(tmp_path, tmp_path / "a.h5")


def test_a_wrong_value_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ZarrArray.write

    def wrong(self: ZarrArray, box: Any, block: Any) -> None:
        block = block.copy()
        if box.origin[0] == 0:
            block.flat[7] += 1
        right(self, box, block)

    monkeypatch.setattr(ZarrArray, "write", wrong)
    with pytest.raises(RewriteError, match="not the same: values differ at"):
        copied(tmp_path, stored(tmp_path / "a.h5", np.ones(SHAPE)))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    words = [sys.executable, "-m", "hyperslab.rewrite", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(zarr_copy.__file__).parents[2])}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


def asked_of(original: Path, new: Path, layout: dict[str, Any], *more: str) -> argparse.Namespace:
    """What a command line asks for."""
    words = ["--layouts", json.dumps({"it": layout}), "--dataset", "/group/values", *more]
    return rewrite._parser().parse_args([str(original), str(new), *words])


@pytest.mark.parametrize("kind", ["folder", "group", "folder of the original", "to HDF5"])
def test_a_directory_that_is_no_result_is_never_removed(tmp_path: Path, kind: str) -> None:
    new = tmp_path / "new"
    new.mkdir()
    original = stored(new / "a.h5" if "original" in kind else tmp_path / "a.h5", np.ones(SHAPE))
    if kind == "group":
        zarr.open_group(new, mode="w")
    if kind == "to HDF5":
        zarr.create_array(new, shape=(1,), dtype="u1")
    (new / "mine").touch()
    layout = {"format": "zarr"} if kind != "to HDF5" else {}
    options = asked_of(original, new, layout, "--overwrite")
    with pytest.raises(RewriteError, match=f"{new} is a directory"):
        rewrite._rewrite(options, Progress())
    assert (new / "mine").exists()


def test_a_file_where_the_array_would_be_is_said_before(tmp_path: Path) -> None:
    """A directory takes no file's place, which was noticed when all was written and compared."""
    new, original = tmp_path / "new.zarr", stored(tmp_path / "a.h5", np.ones(SHAPE))
    for make in (lambda: new.write_text("mine"), lambda: new.symlink_to("nowhere")):
        make()
        with pytest.raises(RewriteError, match=f"^{new} is no directory, as a Zarr array is; .*$"):
            rewrite._rewrite(asked_of(original, new, {"format": "zarr"}, "--overwrite"), Progress())
        assert sorted(os.listdir(tmp_path)) == ["a.h5", "new.zarr"]
        new.unlink()


def test_a_user_writes_and_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.random.default_rng(2).integers(0, 99, SHAPE).astype("u2")
    file, new = stored(tmp_path / "a.h5", values), tmp_path / "new.zarr"
    layout = "{format: zarr, chunks: [8, 8, 64], shards: [16, 16, 128], codecs: [{zstd: 3}]}"
    common = ["--dataset", "/group/values", "--layout", layout]
    done = run(str(file), str(new), *common)
    assert (done.returncode, done.stdout) == (0, "")
    assert "compared and equal" in done.stderr
    assert np.array_equal(zarr.open_array(new, mode="r")[:], values)
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "new.zarr"]
    with pytest.raises(RewriteError, match="exists; name another file, or give --overwrite"):
        rewrite._rewrite(asked_of(file, new, {"format": "zarr"}), Progress())
    assert run(str(file), str(new), *common, "--overwrite").returncode == 0
    verify = ["--verify", str(file), str(new), "--dataset", "/group/values"]
    monkeypatch.setattr(sys, "argv", ["rewrite", *verify])
    with pytest.raises(SystemExit, match="^0$"):
        rewrite.main()
    assert capsys.readouterr().out == f"{file} and {new} hold the same\n"
    with h5py.File(file, "r+") as changed:
        changed["group/values"][7, 7, 7] += 1
        changed["group/values"].attrs["unit"] = "m"
    with pytest.raises(SystemExit, match="^1$"):
        rewrite.main()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "the attributes are others"
    assert said[1].startswith("values differ at (")


def test_a_layout_that_is_wrong_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stored(tmp_path / "a.h5", np.ones((4, 4)))
    words = [str(file), str(tmp_path / "n.zarr"), "--dataset", "/group/values", "--layout"]
    done = run(*words, "{format: zarr, chunks: [5, 5]}")
    assert done.returncode == 1
    assert "[5, 5] is larger than the array [4, 4]" in done.stderr and "Traceback" not in done.stderr
    # What is no layout is refused before anything is begun.
    monkeypatch.setattr(sys, "argv", ["rewrite", *words, "{format: zarr, filters: [gzip]}"])
    with pytest.raises(SystemExit, match="^1$"):
        rewrite.main()
    assert "--layout: filters: unknown key" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["a.h5"]


@pytest.mark.parametrize(
    ("layout", "says"),
    [
        ("{format: zarr, settings: {sieve_bytes: 1}}", "--layout: settings.sieve_bytes: unknown key"),
        ("{format: zarr, order: [y, x]}", "--layout: order: a rewritten dataset keeps its axes"),
    ],
)
def test_what_a_layout_cannot_say_is_named(layout: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{says}[^\n]*$"):
        read_layout(layout)


def test_a_directory_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "a.zarr"

    def fill(content: str) -> Any:
        def work(partial: Path) -> None:
            assert not list(partial.iterdir())
            (partial / "c").mkdir()
            (partial / "c" / "0").write_text(content)
            if content == "bad":
                raise RewriteError("said why")

        return work

    # What a killed run left.
    partial_of(place).mkdir()
    (partial_of(place) / "left").write_text("half")
    assert made_whole(place, fill("first"), directory=True) == 0
    assert (place / "c" / "0").read_text() == "first"
    assert made_whole(place, fill("bad"), directory=True) == 1
    assert (place / "c" / "0").read_text() == "first"
    assert made_whole(place, fill("second"), directory=True) == 0
    assert (place / "c" / "0").read_text() == "second"
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_directory_that_another_run_makes_is_left_alone(tmp_path: Path) -> None:
    def work(partial: Path) -> None:
        with pytest.raises(RewriteError, match="another run"):
            made_whole(tmp_path / "a.zarr", lambda _: None, directory=True)
        (partial / "zarr.json").write_text("{}")

    assert made_whole(tmp_path / "a.zarr", work, directory=True) == 0
    assert os.listdir(tmp_path / "a.zarr") == ["zarr.json"]
