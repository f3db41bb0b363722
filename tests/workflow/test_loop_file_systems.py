"""The loop-device file systems: made as named, throttled where asked, gone without a trace after `down`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

import loop_file_systems
from file_system_command import FileSystemError
from hyperslab.measuring import pagecache, read_ahead
from hyperslab.sites import mounts
from hyperslab.sites.configuration import load_sites

SCRIPT = Path(loop_file_systems.__file__)

# runs in a process of its own, because a cgroup is joined for good
JOINED = """
import os, sys, time
from pathlib import Path
target = Path(sys.argv[1])
for path in sys.argv[2:]:
    Path(path, "cgroup.procs").write_text(str(os.getpid()))
"""
LARGE_IO = """
start = time.perf_counter()
with target.open("wb") as file:
    file.write(os.urandom(20 * 2**20))
    file.flush()
    os.fsync(file.fileno())
written = time.perf_counter()
with target.open("rb") as file:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    evicted = time.perf_counter()
    while file.read(2**20):
        pass
print(written - start, time.perf_counter() - evicted)
"""


@pytest.fixture
def directory(tmp_path: Path, require: Callable[[str | None], None]) -> Iterator[Path]:
    """A directory whose name has a space and a letter beyond ASCII; brought down whatever happens."""
    require(loop_file_systems.missing())
    path = tmp_path / "räume frei"
    yield path
    script("down", path)


def script(action: str, directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), action, "--dir", str(directory), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def mounted(directory: Path) -> dict[str, str]:
    """Type of every file system mounted below `directory`, by the name of its mount point."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    top = str(directory).replace(" ", r"\040")
    return {words[1].rpartition("/")[2]: words[2] for words in lines if words[1].startswith(top + "/")}


def loops(directory: Path) -> list[tuple[str, str]]:
    """Each loop device on a file of `directory`, and the file's name; those of other tests come and go."""
    found = ((device, Path(file)) for device, file in loop_file_systems.loop_devices())
    return [(device, file.name) for device, file in found if file.parent == directory]


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "btrfs-zstd"])
def test_each_kind_is_made_and_removed(
    kind: str, directory: Path, require: Callable[[str | None], None]
) -> None:
    require(loop_file_systems.missing(kind))
    up = script("up", directory, "--size", "300M", kind)
    assert (up.returncode, up.stderr) == (0, "")
    fragment = yaml.safe_load(up.stdout)
    assert fragment == yaml.safe_load((directory / "sites.yaml").read_text())
    root = Path(fragment["file_systems"][f"loop-{kind}"]["root"])
    assert load_sites(directory / "sites.yaml")[f"local-loop-{kind}"]["root"] == str(root)
    assert mounted(directory) == {kind: kind.partition("-")[0]}
    (root / "data").write_bytes(b"x" * 2**20)
    assert os.stat(directory / f"{kind}.img").st_blocks * 512 < 200 * 2**20, "the image is sparse"
    ((device, image),) = loops(directory)
    assert image == f"{kind}.img" and Path("/sys/block", device, "loop/dio").read_text() == "1\n"

    assert script("down", directory).returncode == 0
    assert mounted(directory) == {} and not loops(directory)
    assert list(directory.iterdir()) == []
    assert script("down", directory).returncode == 0, "may be repeated"


Throttled = Callable[..., tuple[Path, Path]]


@pytest.fixture
def throttled(directory: Path, require: Callable[[str | None], None]) -> Throttled:
    """`throttled("NAME=KIND", LIMITS…)` makes a file system: its root, and the limited group."""

    def make(kind: str, *limits: str) -> tuple[Path, Path]:
        try:
            loop_file_systems.io_hierarchy()
        except FileSystemError as error:
            require(str(error))
        assert script("up", directory, "--size", "300M", kind).returncode == 0
        name = kind.partition("=")[0]
        throttle = script("throttle", directory, name, *limits)
        group = Path(throttle.stdout.strip())
        assert group.is_dir(), throttle.stderr
        return directory / name, group

    return make


def seconds(program: str, root: Path, *groups: Path) -> list[float]:
    """What a program prints that joins these groups before it writes below `root`."""
    command = [sys.executable, "-c", JOINED + program, str(root / "data"), *map(str, groups)]
    return [float(word) for word in subprocess.check_output(command, text=True, timeout=60).split()]


def test_throttle_limits_only_who_joins_the_group(directory: Path, throttled: Throttled) -> None:
    root, group = throttled("portal=ext4", "--read", "10M", "--write", "10M")
    system = yaml.safe_load((directory / "sites.yaml").read_text())["file_systems"]["loop-portal"]
    assert (system["root"], system["cgroup"]) == (str(root), str(group))
    write, read = seconds(LARGE_IO, root, group)
    assert 1.6 < write < 6 and 1.6 < read < 6, "20 MiB at 10 MiB/s"
    free_write, free_read = seconds(LARGE_IO, root)
    assert free_write < write / 2 and free_read < read / 2
    assert script("down", directory).returncode == 0
    assert not group.exists()


SMALL_WRITES = """
with target.open("wb", buffering=0) as file:
    start = time.perf_counter()
    for _ in range(200):
        file.write(bytes(4096))
    print(time.perf_counter() - start)
"""


def test_writes_a_second_are_limited_where_each_reaches_the_device(
    directory: Path, throttled: Throttled
) -> None:
    root, group = throttled("slow=ext4-sync", "--write-iops", "100")
    mount = next(line for line in Path("/proc/mounts").read_text().splitlines() if "slow" in line)
    assert "sync" in mount.split()[3].split(",")
    # Nobody waits for fsync, and yet 200 writes at 100 a second take 2 s.
    (limited,) = seconds(SMALL_WRITES, root, group)
    assert limited > 1.6
    # The disk below may be busy with something else for a moment.
    assert any(seconds(SMALL_WRITES, root)[0] < limited for _ in range(5))
    assert script("down", directory).returncode == 0


def came_along(path: Path) -> float:
    """Bytes of a file in the page cache for each byte that was read from its beginning, in small pieces."""
    with path.open("rb", buffering=0) as file:
        pagecache.evict_file(file.fileno(), 0.0)
        for _ in range(16):
            file.read(2**16)
        return pagecache.resident_share([file.fileno()]) * path.stat().st_size / 2**20


@pytest.mark.parametrize("kind", ["ext4", "btrfs"])
def test_read_ahead_is_the_devices_for_as_long_as_a_cell_runs(
    kind: str, directory: Path, require: Callable[[str | None], None]
) -> None:
    require(loop_file_systems.missing(kind))
    assert script("up", directory, "--size", "300M", kind).returncode == 0
    root = directory / kind
    data = root / "data"
    data.write_bytes(os.urandom(16 * 2**20))
    os.sync()
    before = mounts.read_ahead_bytes(root)
    with read_ahead.kept(str(root), 0):
        alone = came_along(data)
    with read_ahead.kept(str(root), 8 * 2**20) as found:
        assert found == 8 * 2**20
        much = came_along(data)
    assert mounts.read_ahead_bytes(root) == before != 8 * 2**20
    assert alone == 1
    assert much > 2
    assert not list(read_ahead.NOTES.glob("hyperslab-read-ahead-*"))


def test_a_file_system_in_use_stays_with_one_line_and_goes_later(directory: Path) -> None:
    assert script("up", directory, "--size", "20M", "ext4").returncode == 0
    with (directory / "ext4/open").open("wb"):
        busy = script("down", directory)
        assert busy.returncode == 1 and "busy" in busy.stderr and busy.stderr.count("\n") == 1
        assert mounted(directory) == {"ext4": "ext4"}
    assert script("down", directory).returncode == 0
    assert mounted(directory) == {}


def test_what_up_did_not_make_stays(directory: Path) -> None:
    assert script("up", directory, "--size", "20M", "ext4").returncode == 0
    (directory / "mine.img").write_bytes(b"mine")
    refused = script("up", directory, "--size", "20M", "mine=ext4")
    assert refused.returncode == 1 and "was not made here" in refused.stderr
    (directory / "ext4.img").unlink()  # the mount lives on without its image
    assert script("down", directory).returncode == 0
    assert mounted(directory) == {} and not loops(directory)
    assert [path.name for path in directory.iterdir()] == ["mine.img"]


KILLED_AFTER = """
import os, signal, sys
from pathlib import Path
import loop_file_systems
plain_run = loop_file_systems.run
def run(*command):
    output = plain_run(*command)
    if command[0] == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return output
loop_file_systems.run = run
loop_file_systems.Loops(Path(sys.argv[1])).up([("ext4", "ext4"), ("other", "ext4")], 20 * 2**20)
"""


@pytest.mark.parametrize("command", ["mkfs.ext4", "losetup", "mount"])
def test_down_removes_what_a_killed_up_left(directory: Path, command: str) -> None:
    words = [sys.executable, "-c", KILLED_AFTER, str(directory), command]
    killed = subprocess.run(words, env=os.environ | {"PYTHONPATH": str(SCRIPT.parent)}, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert (directory / "ext4.img").exists()
    assert (command == "mkfs.ext4") == (not loops(directory))
    assert script("down", directory).returncode == 0
    assert mounted(directory) == {} and not loops(directory)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--size", "1M", "ext4"], "needs --size"),
        (["--size", "4000T", "ext4"], "free at"),
        (["--size", "20M", "ext4", "ext4"], "give another name"),
    ],
)
def test_refusals_are_one_line(words: list[str], wanted: str, directory: Path) -> None:
    done = script("up", directory, *words)
    assert done.returncode == 1 and wanted in done.stderr and done.stderr.count("\n") == 1
    assert not directory.exists()


def test_a_missing_mkfs_names_the_package(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(FileSystemError, match="apt-get install xfsprogs"):
        loop_file_systems.Loops(directory).up([("xfs", "xfs")], 2**30)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert loop_file_systems.missing() == "mounting needs root"
