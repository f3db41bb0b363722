"""A rewritten file: one dataset in another layout, everything else as it was, the original untouched."""

from __future__ import annotations

import hashlib
import json
import math
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t
from hypothesis import given, settings
from hypothesis import strategies as st
from rich_files import SHAPE, TARGET, USER_BLOCK, long_float, values, write_rich_file

from hyperslab import rewrite
from hyperslab.layouts.chunks import balanced_chunk
from hyperslab.measuring.processors import processors
from hyperslab.rewriting import RewriteError, calls, comparing, target
from hyperslab.rewriting.asking import read_layout
from hyperslab.rewriting.differences import differences
from hyperslab.rewriting.progress import Progress
from hyperslab.rewriting.rows import holds_rows
from hyperslab.rewriting.storage import StoredChunks
from hyperslab.validation.errors import ConfigurationError

SCRIPTS = Path(__file__).parents[2] / "workflow" / "scripts"
BUDGET = 256 * 2**20
LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks that fit nothing": {"chunks": [3, 11, 40], "filters": [{"name": "gzip", "level": 1}]},
    "larger chunks": {"chunks": [20, 30, 40], "filters": [{"name": "shuffle"}, {"name": "lzf"}]},
    "small chunks": {"chunks": [2, 4, 6]},
    "all of an axis": {"chunks": [4, "all", "all"], "filters": [{"name": "fletcher32"}]},
    "automatic": {"chunks": "auto"},
    "newest format": {"chunks": [5, 6, 7], "settings": {"libver": "latest"}},
    "aligned": {"chunks": [5, 6, 7], "settings": {"alignment": {"threshold_bytes": 64, "bytes": 512}}},
    "allocated early": {"chunks": [5, 6, 7], "settings": {"alloc_time": "early"}},
}


@pytest.fixture(scope="module")
def richest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with nearly everything that HDF5 knows."""
    path = tmp_path_factory.mktemp("rich") / "rich.h5"
    write_rich_file(path)
    return path


@pytest.fixture
def rich(richest: Path, tmp_path: Path) -> Path:
    """A copy of that file for a test alone."""
    return Path(shutil.copy(richest, tmp_path))


def layout(chunks: Any = None, **others: Any) -> dict[str, Any]:
    """A layout as a study asks for it."""
    return {"chunks": chunks, "filters": [], "compact": False, "settings": {"libver": "earliest"}} | others


def rewritten(original: Path, dataset: str, wanted: dict[str, Any], budget: int = BUDGET) -> Path:
    """The file, with the dataset in the wanted layout; made and compared in this process."""
    new = original.with_name("new.h5")
    rewrite.rewrite(original, new, dataset, wanted, budget, Progress())
    return new


def digest(path: Path) -> str:
    """What a file holds, byte for byte."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("libver", "name"),
    [
        *(("earliest", name) for name in LAYOUTS),
        # What the newest format stores otherwise: indexes of chunks, and early ones.
        *(("latest", name) for name in ("chunks that fit nothing", "newest format", "allocated early")),
    ],
)
def test_everything_is_kept(rich: Path, libver: str, name: str) -> None:
    if libver != "earliest":
        write_rich_file(rich, libver)
    before = digest(rich)
    # It raises where its own comparison finds a difference.
    new = rewritten(rich, TARGET, layout(**LAYOUTS[name]))
    assert digest(rich) == before
    with h5py.File(new) as file:
        assert file[TARGET][...].tobytes() == values().tobytes()
        asked = LAYOUTS[name]["chunks"]
        if isinstance(asked, list):
            assert file[TARGET].chunks == tuple(
                n if part == "all" else part for part, n in zip(asked, SHAPE, strict=True)
            )


def test_h5py_sees_what_it_saw(rich: Path) -> None:
    """Without this project's own comparison: what a user relies on, looked up through h5py."""
    new = rewritten(rich, TARGET, layout([4, 30, 16], filters=[{"name": "gzip", "level": 4}]))
    assert new.read_bytes()[:1024] == USER_BLOCK
    with h5py.File(new) as file:
        target = file[TARGET]
        assert (target.chunks, target.compression, target.compression_opts) == ((4, 30, 16), "gzip", 4)
        assert (target.maxshape, target.fillvalue) == ((None, 30, None), -1)
        assert [scale.name for scale in target.dims[2].values()] == ["/measured/x", "/measured/second x"]
        assert [dim.label for dim in target.dims] == ["z", "y", "x"]
        assert h5py.h5ds.get_num_scales(target.id, 0) == 1 and file["measured/z"].is_scale
        assert file["links/zuerst"] == target
        assert file[file["references/objects"][0]] == target
        assert file[file["references"].attrs["main"]] == target
        region = file["references/regions"][0]
        assert file[region][region].tobytes() == values()[2:5, ::3, 4].tobytes()
        assert list(file["links"])[:4] == ["zuerst", "soft", "dangling", "other file"]
        assert file["links"].get("soft", getlink=True).path == TARGET
        assert file["links"].get("other file", getlink=True).filename == "not-there.h5"
        assert file["links/self"] == file["links"] and file["links/a root"] == file["/"]
        assert file["types/t1"].id.get_type().committed()
        assert target.attrs.get_id("dwell").get_type().committed()
        assert file["stored/virtual"][0].tolist() == list(range(8))
        assert file["stored/external"][...].tolist() == list(range(6))


def test_dimension_scales_lead_to_the_new_dataset_and_back(rich: Path) -> None:
    with h5py.File(rewritten(rich, TARGET, layout([4, 30, 16]))) as file:
        back = file["measured/x"].attrs["REFERENCE_LIST"]
        assert [(file[reference], axis) for reference, axis in back] == [(file[TARGET], 2)]
        file_of = h5py.h5i.get_file_id(file[back[0][0]].id)
        assert file_of == file.id


def test_a_resizable_dataset_can_still_grow(rich: Path) -> None:
    new = rewritten(rich, TARGET, layout([4, 30, 16]))
    with h5py.File(new, "r+") as file:
        file[TARGET].resize((30, 30, 50))
        assert file[TARGET][29, 29, 49] == -1


@pytest.mark.parametrize("name", ["contiguous", "compact"])
def test_layouts_without_chunks(tmp_path: Path, name: str) -> None:
    original = tmp_path / "plain.h5"
    with h5py.File(original, "w") as file:
        file.create_dataset("a/b", data=np.arange(600.0).reshape(20, 30), chunks=(7, 7), compression="gzip")
    new = rewritten(original, "a/b", layout(compact=name == "compact"))
    with h5py.File(new) as file:
        wanted = h5d.COMPACT if name == "compact" else h5d.CONTIGUOUS
        assert file["a/b"].id.get_create_plist().get_layout() == wanted
        assert file["a/b"][...].tolist() == np.arange(600.0).reshape(20, 30).tolist()


@pytest.mark.parametrize(("asked", "most"), [("unidata", 32768), ("{unidata: 4096}", 4096)])
def test_chunks_of_unidatas_formula_are_those_of_the_dataset(tmp_path: Path, asked: str, most: int) -> None:
    original = tmp_path / "a.h5"
    with h5py.File(original, "w") as file:
        file["a"], file["flat"] = np.zeros((40, 30, 50), "f4"), np.zeros(9)
    wanted = read_layout(f"{{chunks: {asked}}}")
    with h5py.File(rewritten(original, "a", wanted)) as file:
        assert file["a"].chunks == balanced_chunk((40, 30, 50), 4, most)
    with pytest.raises(RewriteError, match="flat: has shape .9,.: Unidata's formula is one of three axes"):
        rewritten(original, "flat", wanted)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{chunks: [0100, 16]}", "chunks.0: 0100 is 64 in YAML"),
        ("{chunks: [8, 8], chunks: [16, 16]}", "chunks: this key is given twice"),
        ("{chunks: [8", "not valid YAML"),
    ],
)
def test_a_layout_that_yaml_takes_for_another_one_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--layout: {said}"):
        read_layout(text)


def test_chunks_that_were_never_written_are_not_written_now(tmp_path: Path) -> None:
    original = tmp_path / "sparse.h5"
    with h5py.File(original, "w") as file:
        huge = file.create_dataset("huge", (10**6, 10**5), "f4", chunks=(1000, 1000), fillvalue=np.nan)
        huge[123456, 54321] = 1
        huge[999_999, 99_999] = 2
    # 400 GB of values, were they all written; small boxes, of which almost all hold nothing.
    new = rewritten(original, "huge", layout([500, 400], filters=[{"name": "gzip", "level": 1}]))
    with h5py.File(new) as file:
        assert file["huge"][123456, 54321] == 1 and file["huge"][999_999, 99_999] == 2
        assert math.isnan(file["huge"][0, 0])
        assert file["huge"].id.get_num_chunks() <= 2 * 3 * 4


def test_boxes_that_are_written_in_part_hold_what_they_should(tmp_path: Path) -> None:
    original = tmp_path / "sparse.h5"
    with h5py.File(original, "w") as file:
        array = file.create_dataset("a", (100, 100), "i4", chunks=(10, 10), fillvalue=-7)
        array[20:35, 40:60] = np.arange(300).reshape(15, 20)
        expected = array[...]
    new = rewritten(original, "a", layout([7, 9]))
    with h5py.File(new) as file:
        assert (file["a"][...] == expected).all()
        assert 0 < file["a"].id.get_num_chunks() < 15 * 12


def test_a_type_that_numpy_does_not_have(tmp_path: Path) -> None:
    original = tmp_path / "odd.h5"
    narrow = h5t.STD_I32LE.copy()
    narrow.set_size(3)
    with h5py.File(original, "w") as file:
        dataset = h5d.create(file.id, b"a", narrow, h5s.create_simple((10,)))
        block = np.frombuffer(bytes(range(30)), "V3")
        dataset.write(h5s.ALL, h5s.ALL, block.copy(), narrow)
    with h5py.File(rewritten(original, "a", layout([4]))) as file:
        found = np.zeros(10, "V3")
        file["a"].id.read(h5s.ALL, h5s.ALL, found, narrow)
        assert found.tobytes() == bytes(range(30))


def test_a_float_that_is_longer_than_any_of_numpys(tmp_path: Path) -> None:
    """h5py refuses it with another error than a type that NumPy knows nothing of."""
    original, kind = tmp_path / "long.h5", long_float()
    block = np.arange(320).astype("u1").view("V32")
    with h5py.File(original, "w") as file:
        h5d.create(file.id, b"a", kind, h5s.create_simple((10,))).write(h5s.ALL, h5s.ALL, block, kind)
    with h5py.File(rewritten(original, "a", layout([4]))) as file:
        found = np.zeros(10, "V32")
        file["a"].id.read(h5s.ALL, h5s.ALL, found, kind)
        assert found.tobytes() == block.tobytes()
    # What `--verify` asks first.
    assert not holds_rows(original, "a")


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    st.sampled_from(["u1", ">i2", "f4", "c16", "S5"]),
    st.integers(1, 3000),
    st.booleans(),
)
def test_any_shape_and_chunks(
    axes: list[tuple[int, int, int]], dtype: str, budget: int, was_chunked: bool
) -> None:
    shape = tuple(axis[0] for axis in axes)
    old, new = (tuple(min(axis[part], axis[0]) for axis in axes) for part in (1, 2))
    with tempfile.TemporaryDirectory() as directory:
        original = Path(directory) / "any.h5"
        size = math.prod(shape) * np.dtype(dtype).itemsize
        raw = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
        data = np.frombuffer(raw, dtype).reshape(shape)
        with h5py.File(original, "w") as file:
            file.create_dataset("d", data=data, chunks=old if was_chunked else None)
            stored = file["d"][...].tobytes()
        with h5py.File(rewritten(original, "d", layout(new), budget)) as file:
            assert file["d"].chunks == new
            assert file["d"][...].tobytes() == stored


def test_memory_is_bounded(tmp_path: Path) -> None:
    original = tmp_path / "large.h5"
    with h5py.File(original, "w") as file:
        large = file.create_dataset(
            "large", (512, 1024, 128), "u1", chunks=(1, 1024, 128), compression="gzip"
        )
        for plane in range(512):
            large[plane] = plane % 251
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hyperslab import rewrite\n"
        "from hyperslab.measuring.machine import largest_memory_bytes\n"
        "from hyperslab.rewriting.progress import Progress\n"
        "import hyperslab.rewriting.copying, hyperslab.rewriting.differences, hdf5plugin\n"
        "before = largest_memory_bytes()\n"
        "layout = {'chunks': [128, 32, 128], 'filters': [], 'compact': False, 'settings': {}}\n"
        "rewrite.rewrite(Path(sys.argv[1]), Path(sys.argv[2]), 'large', layout, 16 * 2**20, Progress())\n"
        "print(largest_memory_bytes() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(original), str(tmp_path / "new.h5")],
        env={"PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    # 67 MB of values through 16 MiB, and what HDF5 itself needs.
    assert int(done.stdout) < 2 * 16 * 2**20
    assert "times" in done.stderr


def test_what_is_known_of_chunks_takes_little_memory(tmp_path: Path) -> None:
    """Chunks may be of a byte each: whatever is kept of them is then more than their values."""
    count = 2**15
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        many = file.create_dataset("a", data=np.ones(count, "u1"), chunks=(1,))
        none = file.create_dataset("b", (count,), "u1", chunks=(1,))
        tracemalloc.start()
        try:
            assert StoredChunks(many.id).complete() and not StoredChunks(none.id).complete()
            marked = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            assert len(comparing._rows(many.id)) == count and len(comparing._rows(none.id)) == 0
            sorted_ = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    # A byte a chunk, and its three numbers, thrice while they are sorted.
    assert marked < 4 * count and sorted_ < 100 * count


def test_a_full_file_system_leaves_nothing(tmp_path: Path) -> None:
    original, new = tmp_path / "a.h5", tmp_path / "new.h5"
    with h5py.File(original, "w") as file:
        file["a"] = np.random.default_rng(1).integers(0, 256, 2**21, np.uint8)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "hyperslab.rewrite",
            original,
            new,
            "--dataset",
            "a",
            "--layouts",
            json.dumps({"it": layout([4096])}),
        ],
        env={"PYTHONPATH": str(SCRIPTS)},
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "too large" in done.stderr and "Traceback" not in done.stderr
    assert sorted(tmp_path.iterdir()) == [original]


REFUSED = {
    "another number of axes": (TARGET, layout([4, 4]), "has 3 axes (20, 30, 40), the chunk [4, 4] has 2"),
    "too large a chunk": (TARGET, layout([4, 31, 4]), "has shape (20, 30, 40), which the chunk [4, 31, 4]"),
    "a contiguous layout that has to grow": (TARGET, layout(), "can grow"),
    "no such dataset": ("nowhere", layout([1]), "no dataset 'nowhere' in this file; it has /times, /later"),
    "a group": ("measured", layout([1]), "no dataset 'measured'"),
    "a link that leads nowhere": ("links/dangling", layout([1]), "no dataset 'links/dangling'"),
    "strings": ("plain/strings", layout([1]), "variable length or references"),
    "references": ("references/objects", layout([1]), "variable length or references"),
    "a single value": ("plain/scalar", layout([1]), "is a single value"),
    "no extent": ("plain/null", layout([1]), "a null dataspace"),
    "a virtual dataset": ("stored/virtual", layout([1, 8]), "is a virtual dataset"),
    "values in another file": ("stored/external", layout([2]), "has its values in other files"),
    "a filter for other types": (
        TARGET,
        layout([4, 4, 4], filters=[{"name": "fcidecomp"}]),
        "fcidecomp cannot treat float32",
    ),
    "filters without chunks": ("stored/early", layout(filters=[{"name": "gzip"}]), "filters without chunks"),
    "too large for compact storage": ("measured/counts", layout(compact=True), "can grow"),
    "a second copy without chunks": (
        TARGET,
        layout([4, 4, 4], second={"chunks": None, "filters": []}),
        "cannot have its second copy: can grow",
    ),
    "a second copy with a filter for other types": (
        TARGET,
        layout([4, 4, 4], second={"chunks": [2, 2, 2], "filters": [{"name": "fcidecomp"}]}),
        "cannot have its second copy: cannot have this filter: ",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path, rich: Path, what: str) -> None:
    dataset, wanted, said = REFUSED[what]
    with pytest.raises(RewriteError) as error:
        rewritten(rich, dataset, wanted)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "new.h5").exists()


def test_a_chunk_may_exceed_what_can_still_grow(rich: Path) -> None:
    with h5py.File(rewritten(rich, "stored/empty", layout([5000]))) as file:
        assert file["stored/empty"].chunks == (5000,)


def test_a_change_of_the_original_meanwhile_is_noticed(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_user_block = rewrite._copy_user_block

    def change(source: Path, new: Path) -> None:
        copy_user_block(source, new)
        with source.open("r+b") as raw:
            raw.write(b"#?")

    monkeypatch.setattr(rewrite, "_copy_user_block", change)
    with pytest.raises(RewriteError, match="was changed while it was read"):
        rewritten(rich, TARGET, layout([4, 4, 4]))


def test_a_wrong_copy_is_not_accepted(rich: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_user_block = rewrite._copy_user_block

    def spoil(source: Path, new: Path) -> None:
        copy_user_block(source, new)
        with h5py.File(new, "r+") as file:
            file[TARGET][19, 29, 39] += 1

    monkeypatch.setattr(rewrite, "_copy_user_block", spoil)
    with pytest.raises(RewriteError, match="the new file is not the same: /measured/counts: values differ"):
        rewritten(rich, TARGET, layout([4, 4, 4]))


def test_what_only_a_missing_filter_can_decode_is_kept(tmp_path: Path) -> None:
    original = tmp_path / "foreign.h5"
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((4,))
    # A number that no filter has, and chunks that claim to have gone through it.
    creation.set_filter(511, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    with h5py.File(original, "w") as file:
        foreign = h5d.create(file.id, b"foreign", h5t.STD_I32LE, h5s.create_simple((10,)), creation)
        for start in (8, 0):
            foreign.write_direct_chunk((start,), bytes(range(start, start + 7)))
        file["a"] = np.arange(10)
    with h5py.File(rewritten(original, "a", layout([5]))) as file:
        assert file["foreign"].id.read_direct_chunk((8,)) == (0, bytes(range(8, 15)))
        assert file["foreign"].id.get_num_chunks() == 2
    with pytest.raises(RewriteError, match="foreign: was written with filter 511, whose plug-in is not"):
        rewritten(original, "foreign", layout([5]))


def test_group_properties_do_not_carry_addresses_of_the_old_file(tmp_path: Path) -> None:
    """HDF5's own list of a large group's properties, used for a new group, would spoil it."""
    original = tmp_path / "many.h5"
    with h5py.File(original, "w", track_order=True) as file:
        group = file.create_group("many", track_order=True)
        for number in range(50):
            group[f"d{number}"] = number
        file["a"] = np.arange(10)
    new = rewritten(original, "a", layout([5]))
    with h5py.File(new, "r+") as file:
        assert list(file["many"]) == [f"d{number}" for number in range(50)]
        file["many/more"] = 1
        assert h5p.CRT_ORDER_TRACKED & file["many"].id.get_create_plist().get_link_creation_order()


def test_the_chunk_cache_is_of_use_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (512, 512), "u1", chunks=(128, 128))
    with h5py.File(path) as file:
        for budget, size in ((2**30, 2 * 128 * 128), (2**16, 2**16 // max(8, 4 * processors()))):
            opened = target.opened(file.id, b"a", budget)
            assert opened.get_access_plist().get_chunk_cache()[1] == size
            del opened


def test_a_file_that_needs_plug_ins_is_said_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(10)
    second = {"chunks": [10], "filters": [{"name": "lz4"}], "others": ["x"], "cases": ["y"]}
    for wanted, needed in (
        (layout([5], filters=[{"name": "gzip"}]), ""),
        (layout([5], filters=[{"name": "shuffle"}, {"name": "zstd"}], second=second), "zstd, lz4"),
    ):
        rewritten(tmp_path / "a.h5", "a", wanted)
        said = capsys.readouterr().err
        assert ("hdf5plugin" in said) == bool(needed)
        assert f"{needed}: needs hdf5plugin, or HDF5's plug-ins, wherever it is read" in said or not needed


def test_the_command_imports_what_it_needs(tmp_path: Path) -> None:
    """Models of studies and layouts take as long as rewriting; the workflow hands on what it made of them."""
    original = tmp_path / "a.h5"
    with h5py.File(original, "w") as file:
        file["a"] = np.arange(10)
    for asked, absent in (
        (["--layouts", json.dumps({"it": layout([5])})], "pydantic|yaml|hyperslab.studies|pandas"),
        (["--layout", "{chunks: [5]}"], "hyperslab.studies|pandas"),
    ):
        command = [sys.executable, "-X", "importtime", "-m", "hyperslab.rewrite", str(original)]
        done = subprocess.run(
            [*command, str(tmp_path / "new.h5"), "--overwrite", "--dataset", "a", *asked],
            env={"PYTHONPATH": str(SCRIPTS)},
            capture_output=True,
            text=True,
            check=True,
        )
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "hyperslab.rewriting.differences" in imported
        assert not [name for name in imported if re.match(rf"({absent})\b", name)]


def test_what_was_never_written_keeps_its_fill_value(tmp_path: Path) -> None:
    """HDF5 gives no fill value for a missing chunk of a dataset that is never filled."""
    with h5py.File(tmp_path / "mine.h5", "w") as file:
        sparse = file.create_dataset("sparse", (40, 40), "i4", chunks=(10, 10), fillvalue=9)
        sparse[:10, :10] = 1
        file.create_dataset("whole", data=np.ones((40, 40)), chunks=(10, 10), fillvalue=9)
    never = layout([20, 20], settings={"libver": "earliest", "fill_time": "never"})
    with pytest.raises(RewriteError, match="sparse: has parts that were never written"):
        rewritten(tmp_path / "mine.h5", "/sparse", never)
    rewritten(tmp_path / "mine.h5", "/whole", never)
    # A file that somebody else made so is not taken for a copy.
    new = rewritten(tmp_path / "mine.h5", "/sparse", layout([20, 20]))
    with h5py.File(new, "r+") as file:
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((20, 20))
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
        creation.set_fill_value(np.array(9, np.int32))
        del file["sparse"]
        space = h5s.create_simple((40, 40))
        made = h5py.Dataset(h5d.create(file.id, b"sparse", h5t.NATIVE_INT32, space, creation))
        made[:20, :20] = 9
        made[:10, :10] = 1
    assert list(differences(tmp_path / "mine.h5", new, ["/sparse"])) == ["/sparse: values differ"]


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_a_fill_value_of_variable_length_leads_to_its_own_file(
    tmp_path: Path, chunks: tuple[int, ...] | None
) -> None:
    """As netCDF has it for every variable of text."""
    original = tmp_path / "original.h5"
    with h5py.File(original, "w") as file:
        file["values"] = np.arange(24.0).reshape(4, 6)
        names = file.create_dataset("names", (5,), h5py.string_dtype(), chunks=chunks, fillvalue="none")
        names[:2] = ["one", "two"]
        names.attrs["kind"] = "station"
    new = rewritten(original, "values", layout([2, 3]))
    # HDF5 reads such a fill value of a chunk that is not there only where it may write.
    with h5py.File(new, "r+") as file:
        assert file["names"].asstr()[...].tolist() == ["one", "two", "none", "none", "none"]
        assert file["names"].attrs["kind"] == "station"


@pytest.mark.parametrize("chunks", [None, (64,)])
def test_few_long_elements_are_in_memory_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, ...] | None
) -> None:
    """HDF5 would copy all of a chunk at once, or some ten thousand without chunks, however long they are."""
    original, budget, rows = tmp_path / "original.h5", 2**20, [np.full(2**16, n, np.uint8) for n in range(64)]
    with h5py.File(original, "w") as file:
        file["values"] = np.arange(24.0).reshape(4, 6)
        long = file.create_dataset("long", (64,), h5py.vlen_dtype(np.uint8), chunks=chunks)
        for number, row in enumerate(rows):
            long[number] = row
    read, counts = calls.read_dataset, list[int]()

    def counted(dataset: Any, memory: Any, here: Any, there: Any) -> Any:
        counts.append(there.get_select_npoints())
        return read(dataset, memory, here, there)

    monkeypatch.setattr(calls, "read_dataset", counted)
    new = rewritten(original, "values", layout([2, 3]), budget)
    # Copied, then compared with those that were copied.
    assert sum(counts) == 3 * 64 and max(counts) * 2**16 <= budget
    with h5py.File(new) as file:
        assert all(np.array_equal(*pair) for pair in zip(file["long"][:], rows, strict=True))
