"""File systems as the table of mounts and the kernel's directories tell them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperslab import text
from hyperslab.measuring import machine, pagecache, residency
from hyperslab.measuring.artifact import Artifact
from hyperslab.measuring.pagecache import NotInState
from hyperslab.sites import mounts, striping
from hyperslab.sites.mounts import Mount, mount_of

TABLE = """\
1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
2 1 0:40 / /scratch rw - lustre 10.0.0.1@o2ib:/fs rw,flock
3 2 0:41 / /scratch/a\\040räume\\134frei rw,nosuid - fuse.ceph-fuse ceph-fuse rw
4 2 0:42 / /scratch/twice ro - xfs /dev/sdb rw
5 4 0:43 / /scratch/twice rw - fuse src\\040dir rw,allow_other
6 1 0:44 / /dev/shm rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table above instead of this machine's."""
    plain = Path.read_text

    def read_text(self: Path, *arguments: str) -> str:
        return TABLE if str(self) == "/proc/self/mountinfo" else plain(self, *arguments)

    monkeypatch.setattr(Path, "read_text", read_text)


@pytest.mark.parametrize(
    ("path", "kind", "source", "options"),
    [
        ("/home/me/results", "ext4", "/dev/sda1", "rw,relatime,rw,errors=remount-ro"),
        ("/scratch/run", "lustre", "10.0.0.1@o2ib:/fs", "rw,rw,flock"),
        ("/scratch/a räume\\frei/run", "fuse.ceph-fuse", "ceph-fuse", "rw,nosuid,rw"),
        ("/scratch/twice/run", "fuse", "src dir", "rw,rw,allow_other"),
        ("/scratches", "ext4", "/dev/sda1", "rw,relatime,rw,errors=remount-ro"),
        ("/dev/shm", "tmpfs", "tmpfs", "rw,rw"),
    ],
)
def test_the_deepest_and_latest_mount_counts(
    path: str, kind: str, source: str, options: str, mounted: None
) -> None:
    found = mount_of(path)
    assert (found.type, found.source, found.options) == (kind, source, options)


@pytest.mark.parametrize(
    ("kind", "fuse", "network", "memory"),
    [
        ("ext4", False, False, False), ("tmpfs", False, False, True), ("lustre", False, True, False),
        ("fuse.sshfs", True, True, False), ("fuse.bindfs", True, False, False), ("fuse", True, False, False),
        ("fuseblk", True, False, False), ("nfs4", False, True, False), ("fuse.glusterfs", True, True, False),
        ("gpfs", False, True, False), ("ramfs", False, False, True), ("ecryptfs", False, False, False),
    ],
)  # fmt: skip
def test_kinds_are_told_by_their_type(kind: str, fuse: bool, network: bool, memory: bool) -> None:
    mount = Mount("/m", kind, "s", "rw")
    assert (mount.fuse, mount.network, mount.in_memory) == (fuse, network, memory)


def test_a_disk_has_its_block_devices_and_memory_none(disk: Path, memory: Path) -> None:
    assert mounts.block_devices(memory) == []
    found = mounts.block_devices(disk)
    for device in found:
        assert Path(f"/sys/dev/block/{device}").exists()
    if (mount := mount_of(disk)).source.startswith("/dev/") and os.path.exists(mount.source):
        number = os.stat(mount.source).st_rdev
        assert found[0] == f"{os.major(number)}:{os.minor(number)}"


def test_what_is_recorded_of_a_file_system(disk: Path, memory: Path) -> None:
    found = machine.describe_file_system(str(memory))
    assert (found["type"], found["memory_resident"], found["device_counted"]) == ("tmpfs", True, True)
    assert found["striping"] is None and found["block_bytes"] > 0 and found["free_bytes"] > 0
    assert found["names_and_inodes"] == "cached"
    assert not machine.describe_file_system(str(disk))["memory_resident"]


def test_where_files_are_cached_elsewhere_the_page_cache_tells_no_state(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on ZFS has no page in the page cache, and is in memory all the same."""
    for module in (mounts, residency):
        monkeypatch.setattr(module, "mount_of", lambda _: Mount("/", "zfs", "pool", "rw"))
    assert not machine.describe_file_system(str(disk))["device_counted"]
    (data := disk / "data.h5").write_bytes(b"data")
    cache = residency.NodeCache(Artifact(data), memory_resident=False)
    for state in (cache.evicted, cache.filled):
        with pytest.raises(NotInState, match="^zfs keeps what it reads outside the page cache$"):
            state()
    cache.close()
    data.unlink()


def test_where_a_client_leaves_the_page_cache_empty_warm_is_left_out_with_that_reason(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPFS has a pool of its own for what it reads; that the file does not fit was said of it."""
    monkeypatch.setattr(residency, "mount_of", lambda _: Mount("/", "gpfs", "fs1", "rw"))
    monkeypatch.setattr(residency, "cached_image", lambda _: None)
    monkeypatch.setattr(pagecache, "resident_share", lambda _: 0.0)
    (data := disk / "data.h5").write_bytes(b"data")
    cache = residency.NodeCache(Artifact(data), memory_resident=False)
    assert cache.evicted() == 0
    with pytest.raises(NotInState, match="^gpfs keeps what it reads outside the page cache, if at all$"):
        cache.filled()
    monkeypatch.setattr(pagecache, "resident_share", lambda _: 0.5)
    with pytest.raises(NotInState, match="^only 50.0% of the file fits in the page cache$"):
        cache.filled()
    cache.close()
    data.unlink()


def test_what_the_file_system_below_keeps_is_never_cold(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is evicted of a file on eCryptfs stays in memory as pages of the encrypted one."""
    monkeypatch.setattr(residency, "mount_of", lambda _: Mount("/", "ecryptfs", "/home/.me", "rw"))
    (data := disk / "data.h5").write_bytes(b"data")
    cache = residency.NodeCache(Artifact(data), memory_resident=False)
    with pytest.raises(NotInState, match="^files below ecryptfs, in which it lies, are cached themselves$"):
        cache.evicted()
    assert cache.filled() == 1
    cache.close()
    data.unlink()


@pytest.mark.parametrize(("direct", "cached"), [("0", True), ("1", False)])
def test_an_image_that_is_cached_itself_is_never_cold(
    direct: str, cached: bool, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is evicted of a file stays in memory as pages of the image behind the loop device."""
    (loop := tmp_path / "7:0" / "loop").mkdir(parents=True)
    (loop / "dio").write_text(f"{direct}\n")
    (loop / "backing_file").write_text("/scratch/image\n")
    # As of a part of it, which has no such directory of its own.
    monkeypatch.setattr(mounts, "block_devices", lambda _: ["259:0", "7:0"])
    monkeypatch.setattr(mounts, "BLOCK", tmp_path)
    assert mounts.cached_image(disk) == ("/scratch/image" if cached else None)
    counted = not (mount_of(disk).fuse or mount_of(disk).network)
    assert machine.describe_file_system(str(disk))["device_counted"] == (counted and not cached)
    (data := disk / "data.h5").write_bytes(b"data")
    cache = residency.NodeCache(Artifact(data), memory_resident=False)
    assert cache.filled() == 1
    if cached:
        with pytest.raises(NotInState, match=r"^/scratch/image, in which it lies, is cached itself: losetup"):
            cache.evicted()
    else:
        assert cache.evicted() == 0
    cache.close()
    data.unlink()


def test_a_file_system_without_striping_refuses_it_in_one_line(memory: Path) -> None:
    with pytest.raises(striping.StripingError, match="a tmpfs file system knows no striping; lustre, ceph"):
        striping.apply(str(memory), 2, None)
    assert striping.describe(str(memory), "tmpfs") is None


def test_lustre_is_set_and_read_back_through_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, command = tmp_path / "log", tmp_path / "lfs"
    answer = "stripe_count:  8 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1"
    command.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\n[ "$1" = setstripe ] || echo "{answer}"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(striping, "mount_of", lambda _: Mount("/", "lustre", "s", "rw"))
    striping.apply("/scratch/my run", 8, 2**20)
    assert striping.describe("/scratch/my run", "lustre") == {"count": "8", "size_bytes": "1048576"}
    assert log.read_text().splitlines()[0] == (
        "setstripe --stripe-count 8 --stripe-size 1048576 /scratch/my run"
    )


@pytest.mark.parametrize(
    ("striped", "words"),
    [
        ({"count": "8", "size_bytes": "1048576"}, "count 8, size 1 MiB"),
        ({"count": 2, "size_bytes": None}, "count 2"),
        (
            {"stripe_count": 2, "stripe_unit": 65536, "object_size": 4 * 2**20},
            "stripe count 2, stripe unit 64 KiB, object size 4 MiB",
        ),
    ],
)
def test_striping_in_words(striped: dict[str, int | str | None], words: str) -> None:
    assert text.striping_text(striped) == words


def test_a_part_of_a_disk_reads_ahead_as_the_disk(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps the setting with the disk alone; in memory there is none at all."""
    assert mounts.read_ahead_setting(memory) is None
    assert mounts.read_ahead_bytes(memory) is None
    part, setting = tmp_path / "sda" / "sda1", tmp_path / "sda" / "bdi" / "read_ahead_kb"
    for directory in (part, setting.parent):
        directory.mkdir(parents=True)
    (part / "partition").write_text("1\n")
    setting.write_text("512\n")
    monkeypatch.setattr(mounts, "_block_device", lambda path, mount: part)
    assert mounts.read_ahead_setting(memory) == setting
    assert mounts.read_ahead_bytes(memory) == 512 * 1024
    # Nothing is known of a device that has no such file, such as one of a container.
    setting.unlink()
    assert mounts.read_ahead_setting(memory) is None


def test_a_part_of_an_array_of_disks_lies_on_those_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What limits a disk, or caches the image behind it, is looked for there."""
    for number, device in enumerate(("md0", "md0/md0p1", "sda")):
        (tmp_path / device).mkdir()
        (tmp_path / device / "dev").write_text(f"9:{number}\n")
    (tmp_path / "md0/md0p1/partition").write_text("1\n")
    (tmp_path / "md0/slaves").mkdir()
    (tmp_path / "md0/slaves/sda").symlink_to(tmp_path / "sda")
    monkeypatch.setattr(mounts, "mount_of", lambda _: Mount("/", "ext4", "/dev/md0p1", "rw"))
    monkeypatch.setattr(mounts, "_block_device", lambda path, mount: tmp_path / "md0/md0p1")
    assert mounts.block_devices(tmp_path) == ["9:1", "9:0", "9:2"]


def test_control_groups_that_a_later_mount_hides_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever only tidies up, as every cell of several workers does, must not fail of it."""
    hidden = Mount(str(tmp_path), "cgroup2", "cgroup2", "rw")
    monkeypatch.setattr(mounts, "table", lambda: iter([hidden]))
    assert list(mounts.control_groups("memory", "memory")) == []
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert list(mounts.control_groups("memory", "memory")) == [(tmp_path, 2)]
