"""How ragged rows are gathered and written: whole chunks, few writes, nothing half done in a failure."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hyperslab import ragged
from hyperslab.measuring.counters import Counters, between
from hyperslab.ragged import held, writing

MIB = 2**20


def writes_of(path: Path, counts: list[int], **options: Any) -> list[tuple[int, int]]:
    """Write blocks of so many rows of 64 KiB each; returns where the vector was written, and how much."""
    found: list[tuple[int, int]] = []
    rng = np.random.default_rng(1)
    with h5py.File(path, "w", libver="latest") as file, pytest.MonkeyPatch.context() as patch:
        whole = writing.write_run

        def noted(dataset: h5py.Dataset, first: int, values: Any, memory: Any = None) -> None:
            if dataset.name.endswith(".vector"):
                found.append((first, values.nbytes))
            whole(dataset, first, values, memory)

        patch.setattr(writing, "write_run", noted)
        wanted = []
        with ragged.create(file, "rows", "uint16", **options) as rows:
            for count in counts:
                lengths = np.full(count, MIB // 32)
                values = rng.integers(0, 2**16, lengths.sum(), np.uint16)
                wanted.append(values)
                if count == 1:
                    rows.append([values])
                else:
                    rows.append_block(lengths, values)
        assert np.array_equal(rows.read(slice(0, sum(counts)))[1], np.concatenate(wanted))
        assert len(rows) == sum(counts)
    return found


@pytest.mark.parametrize(
    "counts",
    [[1] * 300, [7] * 60, [100] * 5, [512], [3, 200, 1, 1, 300, 2], [127, 2, 127, 128, 129]],
    ids=str,
)
@pytest.mark.parametrize("chunk", [MIB, 8 * MIB])
def test_every_chunk_is_written_once(tmp_path: Path, counts: list[int], chunk: int) -> None:
    found = writes_of(tmp_path / "a.h5", counts, chunk_bytes=chunk)
    # All but the last end at a chunk's end, so that the next begins a chunk.
    assert all((first + size) % chunk == 0 for first, size in found[:-1])
    assert sum(size for _, size in found) == sum(counts) * MIB // 16
    # Small ones are gathered: of chunks of 1 MiB four at a time.
    assert all(size >= min(4 * MIB, chunk) for _, size in found[:-1])


def test_few_writes_reach_the_kernel(tmp_path: Path) -> None:
    counters = Counters()
    before = counters.read()
    writes_of(tmp_path / "a.h5", [4] * 256)
    # 64 MiB are eight chunks; the rest leads to them.
    assert between(before, counters.read())["requested_writes"] <= 8 + 16


def test_a_chunk_is_no_larger_than_is_known_to_be_needed(tmp_path: Path) -> None:
    sizes = {}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, dtype, options in (
            ("plain", "i4", {}),
            ("filtered", "i4", {"filters": {"compression": "gzip"}}),
            ("switched off", "i4", {"filters": {"compression": None, "shuffle": False}}),
            ("few", "i4", {"expected_bytes": 100}),
            ("some", "i4", {"expected_bytes": 300_000}),
            ("many", "i4", {"expected_bytes": 2**40}),
            ("odd", [("a", "u1", 7)], {}),
        ):
            sizes[name] = ragged.create(file, name, dtype, **options).vector.chunks[0]
    assert sizes == {
        "plain": 8 * MIB, "filtered": MIB, "switched off": 8 * MIB, "few": 2**16, "some": 2**19,
        "many": 8 * MIB, "odd": 8 * MIB // 7 * 7,
    }  # fmt: skip


def test_three_rows_take_no_chunk_of_the_disk(disk: Path) -> None:
    with h5py.File(disk / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1, 2, 3], [], [4, 5]])
    assert (disk / "a.h5").stat().st_blocks * 512 < 2**18


def test_caches_are_those_that_were_asked_for(tmp_path: Path) -> None:
    def of(dataset: h5py.Dataset) -> tuple[int, int]:
        slots, size, _ = dataset.id.get_access_plist().get_chunk_cache()
        return slots, size

    file = h5py.File(tmp_path / "a.h5", "w", rdcc_nslots=1009)
    rows = ragged.create(file, "rows", "i4", chunk_cache=5 * MIB, row_cache=3 * MIB)
    assert (of(rows.vector), of(rows.primary)) == ((1009, 5 * MIB), (1009, 3 * MIB))
    assert of(ragged.create(file, "plain", "i4").vector)[1] == 0
    rows.append([[1, 2]])
    rows.close()
    file.close()
    with h5py.File(tmp_path / "a.h5") as file:
        rows = ragged.open(file["rows"], chunk_cache=MIB, row_cache=2 * MIB)
        assert (of(rows.vector)[1], of(rows.primary)[1]) == (MIB, 2 * MIB)
        assert rows[0].tolist() == [1, 2]


def test_where_a_write_fails_the_rows_of_the_file_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        rows = ragged.create(file, "rows", "int32")
        rows.append([[1, 2], [3]])
        rows.flush()
        whole = writing.write_run

        def full(*_: Any) -> None:
            raise OSError("no space left")

        adds: list[Callable[[], None]] = [
            lambda: rows.append([np.zeros(3 * MIB, np.int32)]),
            lambda: rows.append_block([MIB] * 3, np.zeros(3 * MIB, np.int32)),
        ]
        for add in adds:
            monkeypatch.setattr(writing, "write_run", full)
            with pytest.raises(OSError, match="no space left"):
                add()
            monkeypatch.setattr(writing, "write_run", whole)
            assert [row.tolist() for row in rows] == [[1, 2], [3]]
        rows.append([[5, 6]])
        rows.close()
        assert [row.tolist() for row in ragged.open(file["rows"])] == [[1, 2], [3], [5, 6]]


def test_a_row_that_is_refused_takes_back_those_before_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1]])
        with pytest.raises(ragged.RaggedError, match="does not fit"):
            rows.append([[2, 2], [], ["a"]])
        rows.append_block([1, 1], [3, 4])
        assert [row.tolist() for row in rows] == [[1], [3], [4]]


def test_rows_that_are_made_of_those_that_are_held(tmp_path: Path) -> None:
    """What yields them reads here, which has those that are held written, and then goes on or fails."""
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append([[1, 1], [2]])

        def made(last: object) -> Iterator[Any]:
            buffer = np.zeros(2, np.int32)
            for number in (1, 0):
                buffer[:] = rows[number][0] + 2
                yield buffer
            yield last

        with pytest.raises(ragged.RaggedError, match="does not fit"):
            rows.append(made(["a"]))
        rows.append(made([5]))
        wanted = [[1, 1], [2], [4, 4], [3, 3], [5]]
        assert [row.tolist() for row in rows] == wanted
        rows.append([[6]])
        with pytest.raises(ZeroDivisionError):
            rows.append([len(rows[number]) // 0] for number in (0, 1))
        assert [row.tolist() for row in rows] == [*wanted, [6]]
    with h5py.File(tmp_path / "a.h5") as file:
        assert [row.tolist() for row in ragged.open(file["rows"])] == [*wanted, [6]]


def test_rows_of_an_iterator_that_closes_them_are_appended(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:

        def made() -> Iterator[Any]:
            yield [1]
            rows.close()
            yield [2]

        rows.append(made())
        with pytest.raises(ragged.RaggedError, match="has another appender"):
            ragged.open(file["rows"]).append([[3]])
        assert [row.tolist() for row in rows] == [[1], [2]]


def test_memory_is_given_back_after_a_call_that_brought_much(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "uint8") as rows:
        rows.append([np.zeros(40 * MIB + 5, np.uint8)])
        assert rows._held._buffer.nbytes < MIB and len(rows) == 1
        rows.append_block([40 * MIB], np.ones(40 * MIB, np.uint8))
        assert rows._held._buffer.nbytes <= held.LEAST_BYTES * 2
        assert rows[1].sum() == 40 * MIB


def test_the_folder_works_wherever_it_is_copied_to(tmp_path: Path) -> None:
    shutil.copytree(Path(ragged.__file__).parent, tmp_path / "mine" / "rows_of_mine")
    (tmp_path / "mine" / "__init__.py").touch()
    code = """
import sys, h5py
from mine import rows_of_mine as rows
with rows.writer("a.h5", "hits", "int16") as hits:
    hits.append([[1, 2], [3]])
with h5py.File("a.h5") as file:
    found = [row.tolist() for row in rows.open(file["hits"])]
print(found, [name for name in sys.modules if "hyperslab" in name])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "[[1, 2], [3]] []\n", done.stderr
    assert (tmp_path / "mine" / "rows_of_mine" / "py.typed").is_file()


def test_a_safe_writer_makes_rows_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for turn in range(3):
        with ragged.writer(path, "hits", "int16", filters={"compression": "gzip"}) as hits:
            hits.append([[turn] * turn])
            hits.flush()
            with h5py.File(path, swmr=True) as beside:
                assert len(ragged.open(beside["hits"])) == turn + 1
    with ragged.writer(path, "hits") as hits:
        assert [row.tolist() for row in hits] == [[], [1], [2, 2]]


def test_what_a_safe_writer_cannot_do_is_one_line(tmp_path: Path) -> None:
    def refused(name: str, *words: Any) -> str:
        with pytest.raises(ragged.RaggedError) as raised, ragged.writer(tmp_path / name, *words):
            pass
        assert "\n" not in str(raised.value) and name in str(raised.value)
        return str(raised.value)

    assert refused("a.h5", "hits").endswith("there is nothing called hits, and new rows need a dtype")
    with (
        pytest.raises(ragged.RaggedError, match="S0 cannot be stored"),
        ragged.writer(tmp_path / "a.h5", "hits", "S0"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    with ragged.writer(tmp_path / "a.h5", "hits", "i4") as hits:
        hits.append([[1]])
    assert refused("a.h5", "hits", "i2").endswith("hits holds rows of int32, not of int16")
    with h5py.File(tmp_path / "old.h5", "w", libver=("earliest", "v108")):
        pass
    assert "has to be made anew with libver v110 or later" in refused("old.h5", "hits", "i4")
    with h5py.File(tmp_path / "old.h5") as file:
        assert list(file) == []
    (tmp_path / "text.h5").write_text("no HDF5 file")
    assert "signature" in refused("text.h5", "hits", "i4")


def test_an_interrupt_within_a_block_takes_all_of_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values without lengths would have every row that is held point at those of another."""
    whole = held.Held.add

    def interrupted(self: held.Held, values: Any) -> None:
        whole(self, values)
        raise KeyboardInterrupt

    with h5py.File(tmp_path / "a.h5", "w") as file, ragged.create(file, "rows", "int32") as rows:
        rows.append_block([2, 1], [1, 2, 3])
        monkeypatch.setattr(held.Held, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rows.append_block([2], [7, 8])
        monkeypatch.setattr(held.Held, "add", whole)
        rows.append([[4]])
        rows.flush()
        assert [row.tolist() for row in rows] == [[1, 2], [3], [4]]


@pytest.mark.parametrize("options", [{}, {"row_chunk": 64}, {"filters": {"compression": "gzip"}}], ids=str)
def test_no_reference_lies_across_the_end_of_a_page(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.h5"
    for name in ("rows", "a longer name, for headers of another size"):
        with ragged.writer(path, name, "int16", **options) as rows:
            for number in range(20):
                rows.append_block([1] * 1000, np.full(1000, number, np.int16))
                rows.flush()
        with h5py.File(path) as file:
            chunks = file[name].id
            places = [chunks.get_chunk_info(n).byte_offset for n in range(chunks.get_num_chunks())]
        assert len(places) > 1 and not any(place % 16 for place in places)


def test_references_that_a_kill_could_tear_are_not_added_to(tmp_path: Path) -> None:
    path, anywhere = tmp_path / "a.h5", {"alignment_threshold": 1, "alignment_interval": 24}

    def make(**options: Any) -> None:
        with (
            h5py.File(path, "w", libver="latest", **anywhere) as file,
            ragged.create(file, "rows", "int16", row_chunk=64, **options) as rows,
        ):
            rows.append_block([1] * 1000, np.zeros(1000, np.int16))
            rows.flush()
            chunks = rows.primary.id
            places = [chunks.get_chunk_info(n).byte_offset for n in range(chunks.get_num_chunks())]
        assert any(place % 16 for place in places)

    make()
    with (
        pytest.raises(ragged.RaggedError, match="a.h5: rows: was written without ragged.SAFE"),
        ragged.writer(path, "rows"),
    ):
        pass
    # A compressed chunk that changed is written elsewhere.
    make(row_filters={"compression": "gzip"})
    with ragged.writer(path, "rows") as rows:
        rows.append([[1]])
        assert len(rows) == 1001


def test_chunks_of_equal_size_with_a_checksum_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for options in (
        {"filters": {"fletcher32": True}},
        {"row_filters": {"fletcher32": True, "shuffle": True}},
        {"row_filters": {"shuffle": True}},
    ):
        with (
            pytest.raises(ragged.RaggedError, match="needs a filter that compresses beside it"),
            ragged.writer(path, "rows", "int16", **options),
        ):
            pass
        assert not path.exists()
    both = {"fletcher32": True, "compression": "gzip"}
    with ragged.writer(path, "rows", "int16", filters=both) as rows:
        rows.append([[1]])
    with (
        pytest.raises(ragged.RaggedError, match="fletcher32"),
        ragged.writer(path, "more", "int16", filters={"fletcher32": True}),
    ):
        pass
    with h5py.File(path) as file:
        assert sorted(file) == ["rows", "rows.vector"]
    # Those that somebody else has made are there all the same.
    with h5py.File(path, "w", libver="latest") as file:
        ragged.create(file, "rows", "int16", filters={"fletcher32": True}).close()
    with pytest.raises(ragged.RaggedError, match="a.h5: rows: fletcher32"), ragged.writer(path, "rows"):
        pass
    with h5py.File(path) as file:
        assert sorted(file) == ["rows", "rows.vector"]
