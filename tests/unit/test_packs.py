"""Packs: what comes out is what went in, byte for byte, and nothing else comes out."""

from __future__ import annotations

import errno
import importlib
import json
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_environments import ROOT

import pack as command
import website
from hyperslab.results import archive, packing, packs
from hyperslab.results.packing import pack, unpack
from hyperslab.results.packs import PackError

BASE = """
title: a base
dataset: {axes: [x, y, z], shape: [6, 8, 100]}
layouts: {a: , b: {chunks: [2, 2, 50]}}
cases: {slices: {read: {z: 5}, states: [cold, warm]}, write: {write: whole}}
"""
MINE = "# mine\nextends: base\ntitle: my own\n"
Files = list[tuple[str, bytes]]
END = bytes(1024)
NAN = float("nan")


def record(layout: str = "a", case: str = "slices", round_: str = "r0", site: str = "disk") -> dict[str, Any]:
    """What a measured cell leaves behind, with origins and times that have no end in binary."""
    moment = {"boot_id": "b", "boottime_s": 0.1 + 0.2, "wall_s": 1795270025.2821593}
    probe = {"compute_s": 0.01, "read_s": 4.84715e-05}
    return {
        "site": site,
        "specification": {
            "case": {"name": case, "kind": "read", "extent": [6, 8, 5], "states": ["cold", "warm"]},
            "dataset": {"axes": ["x", "y", "z"], "shape": [6, 8, 100], "dtype": "uint16", "fill": "mixed"},
            "layout": {"format": "hdf5", "chunks": None, "filters": [], "order": ["x", "y", "z"]},
            "round": round_, "seed": 1, "repeats": {"cold": 2}, "protocol": 3,
        },
        "began": moment, "ended": moment, "writer": None, "probes": {"before": probe, "after": probe},
        "machine": {"node": "größe", "cpu": "c"}, "file_system": {"type": "ext4", "free_bytes": 7},
        "versions": {"hdf5": "2"}, "environment": {}, "peak_memory_bytes": 20, "locks": {}, "skipped": {},
        "protocol": 3, "file": {"settings": {}, "file_bytes": 9600},
        "repeats": [
            {"state": "cold", "repeat": 0, "time_s": 0.029580495000000002, "origin": [0, 0, 3]},
            {"state": "cold", "repeat": 1, "time_s": 2.0, "origin": [0, 0, 90], "calls_s": [0.1, NAN]},
        ],
    }  # fmt: skip


def written(found: dict[str, Any]) -> bytes:
    """A record as a file."""
    return json.dumps(found, separators=(",", ":")).encode()


def path_of(layout: str = "a", case: str = "slices", round_: str = "r0", site: str = "disk") -> str:
    """Where a pack has the record of a cell."""
    return f"results/mine/cells/{site}/{layout}/{case}.{round_}.json"


def whole() -> Files:
    """What the pack of the study `mine` holds."""
    cells = [(path_of(layout), written(record(layout))) for layout in ("a", "b")]
    studies = [("mine", MINE), ("base", BASE)]
    return [*((f"config/studies/{name}.yaml", text.encode()) for name, text in studies), *cells]


def place(directory: Path, files: Files) -> Path:
    """The files below a directory, which is returned."""
    for name, content in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return directory


def compressed(content: bytes) -> bytes:
    """Bytes as a pack has them, which is compressed better; that takes a tenth of a second."""
    return lzma.compress(content, preset=0)


def blocks(files: Files) -> bytes:
    """Files as a tar has them, without its end."""
    parts = []
    for name, content in files:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        parts += [info.tobuf(tarfile.USTAR_FORMAT), content, bytes(-len(content) % 512)]
    return b"".join(parts)


def packed(directory: Path, files: Files | None = None) -> Path:
    """An archive of files, by default those of a whole pack."""
    file = directory / f"any{packs.SUFFIX}"
    file.write_bytes(compressed(blocks(whole() if files is None else files) + END))
    return file


def below(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def unpacked(file: Path, into: Path) -> packing.Unpacked:
    """`unpack` into a checkout of its own."""
    return unpack(file, into / "results", into / "config/studies")


def test_a_pack_gives_back_study_and_records_byte_for_byte(tmp_path: Path) -> None:
    here = place(tmp_path / "here", whole())
    file = tmp_path / f"mine{packs.SUFFIX}"
    assert pack("mine", file, here / "results", here / "config/studies") == 2
    done = unpacked(file, tmp_path / "there")
    assert (done.study, done.records) == ("mine", 2)
    assert below(tmp_path / "there") == below(here) == dict(whole())
    # Again, nothing is to be done; and the same results give the same pack.
    assert unpacked(file, tmp_path / "there").records == 2
    again = tmp_path / "again"
    pack("mine", again, here / "results", here / "config/studies")
    assert again.read_bytes() == file.read_bytes()


def test_of_what_lay_where_a_record_is_put_snakemake_forgets_how_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the note on a record of another specification it would measure that of the pack again."""
    # Not by whoever only collects tests: it takes a second. Its modules import each other; this is a way in.
    importlib.import_module("snakemake.api")
    from snakemake.persistence import MetadataRecord
    from snakemake.persistence.file import FilePersistence

    monkeypatch.chdir(tmp_path)
    new, there = path_of("a"), path_of("b")
    place(tmp_path, [(there, written(record("b")))])
    notes = FilePersistence()
    for path in (new, there):
        notes._write_record(path, MetadataRecord(rule="measure_disk", params=["of another specification"]))
        notes._mark_incomplete(path, None)
    monkeypatch.setattr(sys, "argv", ["pack.py", "unpack", str(packed(tmp_path))])
    command.main()
    assert below(tmp_path / "results").keys() == {path.removeprefix("results/") for path in (new, there)}
    assert notes._read_record(new) is None
    # What is there stays, and what is known of it, too.
    assert notes._read_record(there) is not None
    assert notes._filter_incomplete_keys([new, there]) == {there}


def test_any_tar_opens_a_pack(tmp_path: Path) -> None:
    archive.write(file := tmp_path / f"any{packs.SUFFIX}", whole())
    with tarfile.open(file) as opened:
        assert opened.getnames() == [name for name, _ in whole()]


def test_a_study_of_that_name_is_kept(tmp_path: Path) -> None:
    there = place(tmp_path / "there", whole()[:2])
    other = there / "config/studies/mine.yaml"
    # The same in other words is the same.
    other.write_text("title: my own\nextends: base\n", encoding="utf-8")
    assert unpacked(packed(tmp_path), there).notes == []
    other.write_text("extends: base\ntitle: another\n", encoding="utf-8")
    (note,) = unpacked(packed(tmp_path), there).notes
    assert "mine.yaml is another study than the pack's and is kept" in note
    assert other.read_text(encoding="utf-8") == "extends: base\ntitle: another\n"
    assert (there / "results/mine/study/mine.yaml").read_text(encoding="utf-8") == MINE


def test_a_study_that_would_extend_another_is_refused(tmp_path: Path) -> None:
    there = place(tmp_path / "there", [("config/studies/base.yaml", BASE.replace("100", "50").encode())])
    with pytest.raises(PackError, match=r"base.yaml: is another study than the one that mine extends"):
        unpacked(packed(tmp_path), there)
    assert list(below(there)) == ["config/studies/base.yaml"]


def test_another_result_is_not_overwritten(tmp_path: Path) -> None:
    there = place(
        tmp_path / "there", [(path_of("b"), written(record("b")).replace(b"29580495", b"29580496"))]
    )
    before = below(there)
    with pytest.raises(PackError, match="holds another result"):
        unpacked(packed(tmp_path), there)
    assert below(there) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda here: (here / "config/studies/base.yaml").unlink(), "base"),
        (lambda here: (here / path_of("b")).write_bytes(b"{}"), "not a record"),
        (lambda here: (here / path_of("b")).rename(here / path_of("b", "x")), "the record of another cell"),
        (lambda here: (here / path_of("b")).rename(here / path_of("b", "n" * 120)), "name is too long"),
    ],
)
def test_what_could_not_be_unpacked_is_not_packed(
    tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    here = place(tmp_path / "here", whole())
    change(here)
    with pytest.raises(PackError, match=said):
        pack("mine", tmp_path / "mine", here / "results", here / "config/studies")
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_pack_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    packed(tmp_path)
    with pytest.raises(PackError, match=r"any.zip: there is no such file; do you mean .*any.tar.xz\?"):
        unpacked(tmp_path / "any.zip", tmp_path / "there")


def with_record(change: Callable[[dict[str, Any]], object]) -> Files:
    """A pack whose last record has been changed."""
    found = record("b")
    change(found)
    return [*whole()[:-1], (path_of("b"), written(found))]


def special(kind: bytes, target: str = "") -> bytes:
    """A pack whose first record is something else than a file."""
    info = tarfile.TarInfo(path_of())
    info.type, info.linkname = kind, target
    return compressed(blocks(whole()[:2]) + info.tobuf(tarfile.USTAR_FORMAT) + END)


# What holds anything but the pack's own study and its records, or not what a record holds.
CONTENT: dict[str, tuple[Files, str]] = {
    "no study": (whole()[2:], "does not begin with its study"),
    "no records": (whole()[:2], "holds no records"),
    "nothing": ([], "holds no records"),
    "a member twice": ([*whole(), whole()[-1]], "twice"),
    "a study twice": ([whole()[0], *whole()], "twice"),
    "the study after its records": ([*whole()[2:], *whole()[:2]], "does not begin with its study"),
    "a study too many": (
        [*whole()[:2], ("config/studies/quick.yaml", BASE.encode()), *whole()[2:]],
        "a study that mine does not extend, quick",
    ),
    "a study too few": ([whole()[0], *whole()[2:]], r"config/studies/base.yaml: there is no such file"),
    "a study that is none": (
        [("config/studies/mine.yaml", b"title: [1\n"), *whole()[2:]],
        "config/studies/mine.yaml: not valid YAML",
    ),
    "a study with a mistake": (
        [("config/studies/mine.yaml", BASE.replace("cases", "caes").encode()), *whole()[2:]],
        "config/studies/mine.yaml: caes",
    ),
    "a study without end": (
        [("config/studies/mine.yaml", b"#" * 2**19), *whole()[2:]],
        "has more than 256 KiB",
    ),
    "a page": ([*whole(), ("results/claims.html", b"x")], "is not a record of study mine"),
    "another study's recommendation": (
        [*whole(), ("results/quick/recommendation.json", b"{}")],
        "is not a record of study mine",
    ),
    "another study's record": (
        [*whole(), (path_of().replace("mine", "quick"), written(record()))],
        "is not a record of study mine",
    ),
    "a site with markup": (
        [*whole(), (path_of(site="<b>"), written(record(site="<b>")))],
        "is not a record of study mine",
    ),
    "a path upwards": ([*whole(), ("results/mine/cells/../../../x.r0.json", b"{}")], "is not a record"),
    "an absolute path": ([*whole(), ("/tmp/mine/cells/a/b/c.r0.json", b"{}")], "is not a record"),
    "a record without end": (
        [*whole(), (path_of("c"), b" " * (archive.MOST_MEMBER_BYTES))], "has more than 4 MiB"
    ),
    "studies without end": (
        [*((f"config/studies/a{n}.yaml", b"{}") for n in range(20)), *whole()],
        "holds more than 16 studies",
    ),
    "repeats without end": (
        with_record(lambda found: found.update(repeats=[{}] * 30_000)), "it has more than 20,000 repeats"
    ),
    "a record that is no JSON": ([*whole(), (path_of("c"), b"{")], "damaged"),
    "a record that is not UTF-8": ([*whole(), (path_of("c"), b'{"repeats": "\xff"}')], "damaged"),
    "a record of brackets": ([*whole(), (path_of("c"), b"[" * 100_000)], "damaged"),
    "a record that is a list": ([*whole(), (path_of("c"), b"[]")], "not a record of Hyperslab"),
    "a record of another layout's cell": (
        [*whole(), (path_of("c", "write"), written(record("c")))],
        "the record of another cell",
    ),
    "a record without probes": (with_record(lambda found: found.pop("probes")), "damaged .no 'probes'."),
    "a record of a format to come": (
        with_record(lambda found: found["specification"]["layout"].update(format="hdf7")),
        r"b/slices.r0.json is of a newer version of Hyperslab: this one knows no format 'hdf7'$",
    ),
    "a record of a kind of case to come": (
        with_record(lambda found: found["specification"]["case"].update(kind="dream")),
        r"b/slices.r0.json is of a newer version of Hyperslab: this one knows no kind 'dream'$",
    ),
    "a record without a machine": (with_record(lambda found: found.update(machine=None)), "damaged"),
    "a record whose repeats are a number": (with_record(lambda found: found.update(repeats=3)), "damaged"),
    "a time that is text": (
        with_record(lambda found: found["repeats"][0].update(time_s="soon")),
        r"b/slices.r0.json is damaged .*soon",
    ),
    "a number beyond 64 bits": (
        with_record(lambda found: found["repeats"][0].update(repeat=2**70)),
        r"b/slices.r0.json is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONTENT)
def test_only_the_records_of_its_own_study_come_out_of_a_pack(tmp_path: Path, kind: str) -> None:
    files, said = CONTENT[kind]
    refused(packed(tmp_path, files), tmp_path, said)


def test_a_table_is_made_only_of_records_that_may_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[list[str]] = []
    monkeypatch.setattr(packs, "tidy", lambda rows: made.append([row["layout"] for row in rows]))
    # The name of the other's node has letters that not every text may have.
    file = packed(tmp_path, with_record(lambda found: found["machine"].update(node="n")))
    assert [layout for layout, _ in packs.records(file)] == ["a", "b"]
    assert made == [["a", "a"]]


def test_a_website_keeps_nothing_of_a_pack_in_whose_place_another_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(website, "PROJECT", tmp_path)
    work = tmp_path / "work"
    assert website.gather([packed(tmp_path)], work) == ["mine"]
    place(work / "results/mine", [("prediction.json", b"{}"), ("confirmation.parquet", b"old")])
    another = with_record(lambda found: found["repeats"][0].update(time_s=1.0))
    assert website.gather([packed(tmp_path, another)], work) == ["mine"]
    assert below(work / "results") == {name.removeprefix("results/"): text for name, text in another[2:]}


def test_a_website_shows_no_table_that_its_report_is_not_made_of_any_more(tmp_path: Path) -> None:
    site = place(tmp_path, [(".website", b'["mine"]'), ("mine/confirmation.parquet", b"old")])
    made = ("claims.html", "mine/report.html", "mine/summary.csv")
    work = place(tmp_path / ".work", [(f"results/{name}", b"new") for name in made])
    website.publish(["mine"], work, site)
    assert {path.name for path in (site / "mine").iterdir()} == {"report.html", "summary.csv"}


def refused(file: Path, directory: Path, said: str) -> None:
    """The pack is refused in one line that names it, and nothing is written."""
    with pytest.raises(PackError, match=said) as raised:
        unpacked(file, directory / "there")
    assert str(raised.value).startswith(f"{file}: ")
    assert "\n" not in str(raised.value)
    assert not (directory / "there").exists()


WHOLE = blocks(whole()) + END
DAMAGE: dict[str, bytes] = {
    "empty": b"",
    "text": b"no pack\n" * 100,
    "a zip": b"PK\x03\x04" + bytes(1000),
    "cut short": compressed(WHOLE)[:-40],
    "cut within its records": compressed(WHOLE)[:400],
    "a tar cut short": compressed(WHOLE[:2000]),
    "no tar inside": compressed(b"no tar" * 1000),
    "something after its end": compressed(WHOLE) + b"x",
    "a second stream": compressed(WHOLE) * 2,
    "something after its last file": compressed(WHOLE + b"x" * 512),
    "a link to a file": special(tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": special(tarfile.LNKTYPE, path_of("b")),
    "a folder": special(tarfile.DIRTYPE),
    "a device": special(tarfile.CHRTYPE),
    "a name of another kind": special(tarfile.GNUTYPE_LONGNAME),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_pack_is_refused_in_one_line(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"any{packs.SUFFIX}"
    file.write_bytes(DAMAGE[kind])
    refused(file, tmp_path, ".")


def test_a_flipped_bit_is_found_wherever_it_is(tmp_path: Path) -> None:
    file = packed(tmp_path)
    content = file.read_bytes()
    for place_ in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place_] ^= 1 << place_ % 8
        file.write_bytes(changed)
        refused(file, tmp_path, ".")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / f"mine{packs.SUFFIX}"
    file.write_bytes(compressed(WHOLE))

    def full(*_: object) -> None:
        # As a write says it, which knows no name.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(packing, "write_whole", full)
    with pytest.raises(PackError, match=f"^{tmp_path}/results: No space left on device$"):
        unpacked(file, tmp_path)


# In MiB: what a bomb holds, what a pack may hold, and by how much memory may grow.
BOMB, MOST, GROWN = 50, 45, 32


def bomb(directory: Path, where: str) -> Path:
    """A pack that is small and holds BOMB MiB there."""
    file = directory / f"{where}{packs.SUFFIX}"
    name = "config/studies/mine.yaml" if where == "a study" else path_of()
    info = tarfile.TarInfo(name)
    info.size = BOMB * 2**20
    # A reader of tars takes the whole of such a member into memory: it is the long name of the next.
    info.type = tarfile.GNUTYPE_LONGNAME if where == "another kind of member" else tarfile.REGTYPE
    before = {"a study": b"", "its end": WHOLE}.get(where, blocks(whole()[:2]))
    compressor = lzma.LZMACompressor(preset=0)
    with file.open("wb") as opened:
        opened.write(compressor.compress(before + (b"" if where == "its end" else info.tobuf())))
        for _ in range(BOMB):
            opened.write(compressor.compress(bytes(2**20)))
        opened.write(compressor.flush())
    return file


def test_a_bomb_costs_little_memory_and_nothing_on_disk(tmp_path: Path) -> None:
    files = [bomb(tmp_path, where) for where in ("a study", "a record", "its end", "another kind of member")]
    there = tmp_path / "there"
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "workflow/scripts")!r})
from hyperslab.results import archive
from hyperslab.results.packing import unpack
from hyperslab.results.packs import PackError
archive.MOST_BYTES = {MOST} * archive.MIB
def peak():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
before = peak()
for file in {[str(file) for file in files]}:
    try:
        unpack(Path(file), Path({str(there)!r}), Path({str(there)!r}))
    except PackError as error:
        print(peak() - before, error)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    lines = done.stdout.splitlines()
    assert len(lines) == len(files)
    for file, line in zip(files, lines, strict=True):
        grown, said = line.split(" ", 1)
        # In KiB, the most so far; ru_maxrss would begin with that of the process which started this one.
        assert int(grown) < GROWN * 1024, file.name
        assert said.startswith(f"{file}: ")
    assert not there.exists()
