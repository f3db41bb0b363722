"""Two copies of an array in one file: both hold every value, and each case reads the one that is for it."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from samples import file_specification, values_of
from studies import changed, load, mistake

from hyperslab import rewriting
from hyperslab.advising.candidates import Candidate, Filter
from hyperslab.advising.copies import TwoCopies, best_pair
from hyperslab.advising.model import Predicted
from hyperslab.advising.reads import Read
from hyperslab.data.selections import Box
from hyperslab.formats.hdf5.array import Hdf5
from hyperslab.layouts import layout_of
from hyperslab.layouts.hdf5_schema import Hdf5Model
from hyperslab.planning.planned_study import LOSSY
from hyperslab.results.file_sizes import OF_A_COPY, of_whole_files
from hyperslab.rewrite import rewrite
from hyperslab.rewriting import RewriteError, second_copy
from hyperslab.rewriting.asking import asked
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.recommended import picked
from hyperslab.studies.specification import cell_specification

GZIP = [{"name": "shuffle"}, {"name": "gzip", "level": 4}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (((4, 4, 250), []), (None, [])),
        ((None, []), ((3, 5, 77), GZIP)),
        (((10, 11, 10), GZIP), ((1, 1, 1000), [])),
    ],
)
def test_both_copies_hold_every_value(tmp_path: Path, first: Any, second: Any) -> None:
    shape = (10, 11, 1000)
    spec: Any = file_specification(shape, first[0], filters=first[1])
    beside = {"chunks": list(second[0]) if second[0] else None, "filters": second[1], "cases": ["image"]}
    whole = layout_of({**spec["layout"], "second": beside})
    values, path = values_of(spec), str(tmp_path / "both.h5")
    box = Box((0, 0, 7), (10, 11, 1))
    for case, (chunks, filters) in {"spectrum": first, "image": second}.items():
        found: Any = {**spec, "layout": whole.for_case(case)}
        assert found["layout"]["chunks"] == (list(chunks) if chunks else None)
        format_ = Hdf5()
        format_.prepare(found)
        format_.generate(path, found, values)
        opened = format_.open(path, found)
        assert np.array_equal(opened.read(box), values.block(box.origin, box.extent))
        opened.close()
        with h5py.File(path) as file:
            stored = [file[name] for name in ("data", "second")]
            assert stored[0].chunks == chunks and bool(stored[0].compression) == bool(filters)
            for one in stored:
                assert np.array_equal(one[...], values.block((0, 0, 0), shape))
            assert {one.chunks for one in stored} == {first[0], second[0]}


PAIR = {"chunks": [4, 4, 64], "second": {"chunks": [8, 8, 1], "filters": [{"gzip": 4}], "cases": ["slices"]}}


def with_pair(**changes: Any) -> dict[str, Any]:
    """The base study with a layout of two copies, which no write case has."""
    content: dict[str, Any] = changed("layouts.pair", {**PAIR, **changes})
    content["cases"]["write"]["layouts"] = ["auto"]
    return content


def test_a_study_has_layouts_of_two_copies_which_are_recommended_only_if_it_says_so(tmp_path: Path) -> None:
    study = load(tmp_path, with_pair())
    assert study.cases["slices"]["kind"] == "read"
    there: Any = cell_specification(study, "pair", "slices", "r0")["layout"]
    assert there["chunks"] == [8, 8, 1] and there["filters"] == [{"name": "gzip", "level": 4}]
    assert there["beside"] == {"chunks": [4, 4, 64], "filters": []} and "second" not in there
    assert "twice" in study.recommendation_settings()["excluded"]["pair"]
    # Where the study lets them in, they are a layout like any other, and what a file is rewritten to.
    asking = with_pair()
    asking["recommendation"]["copies"] = True
    assert "excluded" not in load(tmp_path, asking).recommendation_settings()
    layout = layout_of(study.layouts["pair"])
    single = layout_of({key: value for key, value in study.layouts["pair"].items() if key != "second"})
    assert layout.largest_bytes(study.dataset) > 1.9 * single.largest_bytes(study.dataset)
    assert "beside it for slices chunks of 8x8x1" in layout.words(study.dataset.axes, 2)


def test_a_second_copy_that_changes_values_is_recommended_only_if_the_study_says_so(tmp_path: Path) -> None:
    clipped = {"chunks": [8, 8, 1], "filters": [{"scaleoffset": {"bits": 4}}], "cases": ["slices"]}
    content = with_pair(second=clipped)
    content["recommendation"]["copies"] = True
    assert load(tmp_path, content).recommendation_settings()["excluded"] == {"pair": LOSSY}
    content["recommendation"]["lossy"] = True
    assert "excluded" not in load(tmp_path, content).recommendation_settings()


def test_a_second_copy_that_hdf5_would_lose_is_refused(tmp_path: Path) -> None:
    whole = {"chunks": ["all", "all", "all"], "cases": ["slices"]}
    content = with_pair(second=whole, settings={"libver": "latest", "fill_time": "never"})
    assert "layouts.pair.settings.fill_time: never loses the values" in mistake(tmp_path, content)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"chunks": [8, 8, 1], "cases": ["nothing"]}, "layouts.pair.second.cases: no read case 'nothing'"),
        ({"filters": ["gzip"], "cases": ["slices"]}, "filters need chunks"),
        ({"chunks": [8, 8, 2000], "cases": ["slices"]}, "is larger than the array"),
        ({"chunks": [8, 8, 1]}, "layouts.pair.second.cases: this key is required"),
    ],
)
def test_a_second_copy_that_cannot_be_is_refused(tmp_path: Path, second: Any, words: str) -> None:
    assert words in mistake(tmp_path, with_pair(second=second))


def test_of_two_copies_only_reads_are_timed(tmp_path: Path) -> None:
    assert "only reads can be timed" in mistake(tmp_path, changed("layouts.pair", PAIR))


def test_a_rewritten_file_gets_both_copies_which_say_what_they_are_for(tmp_path: Path) -> None:
    values = np.random.default_rng(0).poisson(2.0, (20, 30, 100)).astype(">i2")
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("run/counts", data=values, chunks=(1, 1, 100), fillvalue=7)
        file["other"] = np.arange(5)
    second = {"chunks": [20, 30, 1], "filters": GZIP, "cases": ["image"], "others": ["spectrum"]}
    layout = {"chunks": [4, 5, 50], "filters": [], "compact": False, "settings": {}, "second": second}
    # As the command does it, which holds a lock on the new file meanwhile.
    with (tmp_path / "new.h5").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        rewrite(tmp_path / "mine.h5", tmp_path / "new.h5", "/run/counts", layout, 2**24, Progress())
    with h5py.File(tmp_path / "new.h5") as file:
        first, copy = file["run/counts"], file["run/counts-second"]
        assert first.chunks == (4, 5, 50) and copy.chunks == (20, 30, 1) and copy.compression == "gzip"
        assert np.array_equal(first[...], values) and np.array_equal(copy[...], values)
        assert copy.dtype == first.dtype == values.dtype and copy.fillvalue == 7
        assert (first.attrs["for_reads"], copy.attrs["for_reads"]) == ("spectrum", "image")
        assert np.array_equal(file["other"][...], np.arange(5))
    with pytest.raises(RewriteError, match="has /run/counts-second already"):
        rewrite(tmp_path / "new.h5", tmp_path / "again.h5", "/run/counts", layout, 2**24, Progress())


def test_a_second_copy_is_compared_as_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        file.create_dataset("counts", data=np.arange(600, dtype="i4").reshape(20, 30))

    def two_bits(creation: Any, chunk: Any, _: Any) -> None:
        creation.set_chunk(tuple(chunk))
        creation.set_scaleoffset(h5py.h5z.SO_INT, 2)

    monkeypatch.setattr(second_copy, "put_chunks", two_bits)
    second = {"chunks": [10, 10], "filters": [], "cases": ["image"], "others": []}
    with pytest.raises(RewriteError, match="/counts-second is not the same as /counts"):
        second_copy.add(tmp_path / "mine.h5", "/counts", second, 2**24, Progress())


def test_a_second_copy_has_the_attributes_and_dimension_scales_of_the_first(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        first = file.create_dataset("counts", data=np.arange(24, dtype="i2").reshape(4, 6))
        file["time"], file["name"] = np.arange(4.0), [b"a", b"b", b"c", b"d"]
        for scale in ("time", "name"):
            file[scale].make_scale(scale)
            first.dims[0].attach_scale(file[scale])
        first.dims[1].label = "channel"
        first.attrs["_FillValue"] = np.int16(-1)
        first.attrs.create("units", "K", dtype=h5py.string_dtype("ascii", 1))
        first.attrs["words"] = ["some", "longer"]
        first.attrs["from"] = first.ref
        first.attrs["CLASS"], first.attrs["NAME"] = np.bytes_("IMAGE"), "mine"
        first.attrs["nothing"] = h5py.Empty("f4")
        # Of a copy before.
        first.attrs["for_reads"] = "all"
    second = {"chunks": [4, 1], "filters": [], "cases": ["image"], "others": ["spectrum"]}
    layout = {"chunks": [1, 6], "filters": [], "compact": False, "settings": {}, "second": second}
    rewrite(tmp_path / "mine.h5", tmp_path / "new.h5", "/counts", layout, 2**24, Progress())
    with h5py.File(tmp_path / "new.h5") as file:
        first, copy = file["counts"], file["counts-second"]
        for one in (first, copy):
            assert [scale.name for scale in one.dims[0].values()] == ["/time", "/name"]
            assert [dim.label for dim in one.dims] == ["", "channel"]
            assert one.attrs["_FillValue"] == -1 and one.attrs["_FillValue"].dtype == "i2"
            assert one.attrs.get_id("units").get_type().get_size() == 1 and one.attrs["units"] == b"K"
            assert list(one.attrs["words"]) == ["some", "longer"]
            assert file[one.attrs["from"]] == first and one.attrs["nothing"] == h5py.Empty("f4")
            assert (one.attrs["CLASS"], one.attrs["NAME"]) == (b"IMAGE", "mine")
        assert set(copy.attrs) - set(first.attrs) == {"copy_of"} and set(first.attrs) <= set(copy.attrs)
        assert (first.attrs["for_reads"], copy.attrs["for_reads"]) == ("all", "image")
        assert len(file["time"].attrs["REFERENCE_LIST"]) == 2


def test_what_is_asked_of_a_rewrite_names_both_copies(tmp_path: Path) -> None:
    model = Hdf5Model.model_validate(PAIR)
    found = asked(model, {})
    assert found["chunks"] == [4, 4, 64]
    assert found["second"] == {
        "chunks": [8, 8, 1], "filters": [{"name": "gzip", "level": 4}], "cases": ["slices"]
    }  # fmt: skip


def test_two_copies_that_are_recommended_are_what_a_file_is_rewritten_to() -> None:
    row = {"layout": "pair", "fits": True}
    sites = [{"site": "disk", "pick": "pair", "ranking": [row, {"layout": "auto", "fits": True}]}]
    layouts = {"pair": {**asked(Hdf5Model.model_validate(PAIR), {})}, "auto": {"chunks": "auto"}}
    assert picked({"sites": sites}, None, "recommendation.json", layouts) == ("pair", None)


def predicted(chunks: tuple[int, ...], image: float, spectrum: float, size: float) -> Predicted:
    return Predicted(Candidate(chunks), {"image": image, "spectrum": spectrum}, size)


def test_two_copies_are_taken_where_they_pay_within_the_size() -> None:
    reads = [Read("image", (8, 8, 1)), Read("spectrum", (1, 1, 64))]
    middle, flat, deep = (
        predicted((4, 4, 4), 0.1, 0.1, 100),
        predicted((8, 8, 1), 0.02, 1.0, 100),
        predicted((1, 1, 64), 1.0, 0.02, 100),
    )
    pair = best_pair([middle, flat, deep], reads, 250, 0.01)
    assert pair is not None
    layout, foretold = pair
    assert {layout.first.chunks, layout.second.chunks} == {(8, 8, 1), (1, 1, 64)}
    assert foretold.times == {"image": 0.02, "spectrum": 0.02} and foretold.file_bytes == 200
    assert layout.reads == (("spectrum",) if layout.second.chunks == (1, 1, 64) else ("image",))
    assert best_pair([middle, flat, deep], reads, 150, 0.01) is None
    # Where nobody would notice, a second copy is a waste.
    assert best_pair([middle, flat, deep], reads, 250, 0.09) is None


def test_a_layout_of_two_copies_is_said_as_a_study_says_it() -> None:
    found = TwoCopies(Candidate(None), Candidate((4, 4, 4), (Filter("lzf"),)), ("image",))
    assert found.name == "contiguous-and-4x4x4-lzf"
    assert found.layout("xyz") == {"second": {"chunks": [4, 4, 4], "filters": ["lzf"], "cases": ["image"]}}


def test_the_sizes_of_a_file_are_those_of_both_copies() -> None:
    copy: dict[str, Any] = dict.fromkeys(OF_A_COPY, 1.0) | {"file_bytes": 1000.0}
    first = {**copy, "data_bytes": 500.0, "index_bytes": 20.0, "remainder_bytes": 480.0}
    second = {**copy, "data_bytes": 400.0, "index_bytes": 30.0, "remainder_bytes": 570.0}
    rows = pd.DataFrame(
        [
            {"layout": "pair", "case": "image", "chunk_shape": "8x8x1", "filters": "gzip 4", **first},
            {"layout": "pair", "case": "spectrum", "chunk_shape": "1x1x64", "filters": "", **second},
            {"layout": "one", "case": "image", "chunk_shape": "8x8x1", "filters": "", **first},
            {"layout": "one", "case": "spectrum", "chunk_shape": "8x8x1", "filters": "", **first},
        ]
    )
    found = of_whole_files(rows)
    pd.testing.assert_frame_equal(found[found["layout"] == "one"], rows[rows["layout"] == "one"])
    pair = found[found["layout"] == "pair"]
    for name, both in {"data_bytes": 900, "index_bytes": 50, "remainder_bytes": 50, "chunks": 2}.items():
        assert (pair[name] == both).all()
    assert (pair[["data_bytes", "index_bytes", "remainder_bytes"]].sum(axis=1) == pair["file_bytes"]).all()


def test_memory_of_a_second_copy_is_bounded(tmp_path: Path) -> None:
    """Chunks as unlike as planes and columns: no box that holds whole ones of both would fit."""
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        # HDF5 itself takes some 10 KiB for each chunk that a box touches: of small ones more than values.
        file.create_dataset("counts", data=np.zeros((256, 256, 1024), "u1"), chunks=(16, 16, 1024))
    second = {"chunks": [256, 256, 1], "filters": [], "cases": ["image"], "others": ["spectrum"]}
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from hyperslab.measuring.machine import largest_memory_bytes\n"
        "from hyperslab.rewriting import second_copy\n"
        "from hyperslab.rewriting.progress import Progress\n"
        "before = largest_memory_bytes()\n"
        "second_copy.add(Path(sys.argv[1]), '/counts', json.loads(sys.argv[2]), 16 * 2**20, Progress())\n"
        "print(largest_memory_bytes() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "mine.h5"), json.dumps(second)],
        env={"PYTHONPATH": str(Path(rewriting.__file__).parents[2]), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    # 67 MB of values through 16 MiB; as much again, and a little, is what HDF5 and the C library keep.
    assert int(done.stdout) < 5 * 16 * 2**20 // 2


def test_a_part_of_the_array_has_room_for_the_chunks_of_both_copies() -> None:
    spec: Any = file_specification((10, 11, 1000), (4, 4, 64))
    pair = layout_of({**spec["layout"], "second": {"chunks": [10, 11, 1], "filters": [], "cases": ["image"]}})
    assert pair.fits((10, 11, 64)) and not pair.fits((9, 11, 64))
