"""On which mount a path lies, what kind of file system that is, and which block devices are below it; where
the kernel's control groups are.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FUSE = ("fuse", "fuseblk")
# Types whose data lie on other machines; of FUSE, the part of the type behind "fuse.".
NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "orangefs", "panfs",
    "pvfs2", "smb3", "smbfs", "virtiofs",
    "ceph-fuse", "davfs", "juicefs", "mfs", "moosefs", "rclone", "s3fs", "sshfs",
})  # fmt: skip
MEMORY = ("tmpfs", "ramfs")
# Types that keep what was read of local disks in a cache of their own, of which the page cache tells nothing.
OWN_CACHE = ("zfs",)
# Types that lie on another file system, which keeps pages of its own of what is read through them.
STACKED = ("ecryptfs",)
# The kernel's table of mounts (proc(5)).
TABLE = Path("/proc/self/mountinfo")
# Its directories of block devices, by "major:minor".
BLOCK = Path("/sys/dev/block")
# What mounts a file system as soon as somebody looks there.
AUTOMATIC = "autofs"
# As many links on the way of one path as the kernel follows (path_resolution(7)).
MOST_LINKS = 40


@dataclass(frozen=True)
class Mount:
    """One line of the table of mounts: `options` are those of the mount, then those of the file system."""

    point: str
    type: str
    source: str
    options: str

    @property
    def fuse(self) -> bool:
        """Whether a program outside the kernel serves it."""
        return self.type in FUSE or self.type.startswith("fuse.")

    @property
    def network(self) -> bool:
        """Whether its data lie on servers, possibly other machines."""
        return self.type.removeprefix("fuse.") in NETWORK

    @property
    def in_memory(self) -> bool:
        """Whether its files are nothing but pages of memory, which cannot be evicted."""
        return self.type in MEMORY

    @property
    def own_cache(self) -> bool:
        """Whether what is read of its files passes the page cache by, and stays in memory all the same."""
        return self.type in OWN_CACHE

    @property
    def stacked(self) -> bool:
        """Whether what is dropped of its files stays in memory as pages of those below."""
        return self.type in STACKED


def _plain(field: str) -> str:
    """Return a field of the table of mounts, in which blanks and backslashes stand as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)


def table() -> Iterator[Mount]:
    """Yield every mount, the later of two on one point after the earlier; raises OSError without a table."""
    # Names of any bytes, as in the paths that Python gives.
    for fields in (line.split(" ") for line in TABLE.read_text("utf-8", "surrogateescape").splitlines()):
        kind, source, options = fields[fields.index("-") + 1 :][:3]
        yield Mount(_plain(fields[4]), kind, _plain(source), f"{fields[5]},{_plain(options)}")


def control_groups(first: str, second: str) -> Iterator[tuple[Path, int]]:
    """Yield where groups of a controller are, and their version; it is named as in versions 1 and 2."""
    for mount in table():
        top = Path(mount.point)
        if mount.type == "cgroup" and first in mount.options.split(","):
            yield top, 1
        known = ""
        # A later mount may hide it.
        with suppress(OSError):
            known = (top / "cgroup.controllers").read_text() if mount.type == "cgroup2" else known
        if second in known.split():
            yield top, 2


def existing(path: Path) -> Path:
    """Return a path, or the nearest of the folders above it that is there: where it would be made."""
    return next(place for place in (path, *path.parents) if os.path.exists(place))


def leads_to(path: str, place: str) -> bool:
    """Return whether a path leads to `place`, which is without links.

    No file system that others serve is asked unless `place` is on it or this process works there: where its
    server is away, whoever asks hangs. A link that lies there leads nowhere.
    """
    kinds: dict[str, Mount] = {}
    with suppress(OSError):
        kinds = {one.point: one for one in table()}
    automatic = {point for point, one in kinds.items() if one.type == AUTOMATIC}
    asks_others = automatic | {point for point, one in kinds.items() if one.network or one.fuse}
    depended_on = (Path(place), Path.cwd())
    found, ahead, links = "/", list(Path(path).absolute().parts[1:]), 0
    while ahead:
        found = os.path.normpath(os.path.join(found, ahead.pop(0)))
        # Each name in a folder of automatic mounts may be one of a server of its own.
        others = found in asks_others or os.path.dirname(found) in automatic
        if others and not any(one.is_relative_to(found) for one in depended_on):
            return False
        if os.path.islink(found):
            links += 1
            if links > MOST_LINKS:
                return False
            ahead[:0] = Path(os.readlink(found)).parts
            found = os.path.dirname(found)
    return found == place


def mount_of(path: str | Path) -> Mount:
    """Return the mount on which `path` lies; its type is "unknown" where the kernel has no table of
    mounts.
    """
    resolved = str(Path(path).resolve())
    found = Mount("", "unknown", "unknown", "")
    with suppress(OSError):
        for mount in table():
            inside = resolved == mount.point or resolved.startswith(mount.point.rstrip("/") + "/")
            # The deepest mount point that contains the path wins, the later of two on one point.
            if inside and len(mount.point) >= len(found.point):
                found = mount
    return found


def _btrfs(device: str) -> Path | None:
    """Return the kernel's directory of the btrfs on a block device such as loop0."""
    return next((entry.parents[1] for entry in Path("/sys/fs/btrfs").glob(f"*/devices/{device}")), None)


def _block_device(path: str | Path, mount: Mount) -> Path | None:
    """Return the kernel's directory of the block device below `path`; None where there is none."""
    number = 0
    with suppress(OSError):
        found = os.stat(mount.source)
        number = found.st_rdev if stat.S_ISBLK(found.st_mode) else 0
    # Not the file's own device where that is one of the file system (btrfs), or of none at all.
    number = number or os.stat(path).st_dev
    directory = BLOCK / f"{os.major(number)}:{os.minor(number)}"
    return directory.resolve() if os.major(number) and directory.exists() else None


def _below(directory: Path) -> Iterator[Path]:
    """Yield a block device, the disk that it is a part of, and what it is put together from."""
    yield directory
    if (directory / "partition").exists():
        yield from _below(directory.parent)
    for part in (directory / "slaves").glob("*"):
        yield from _below(part.resolve())


def block_devices(path: str | Path) -> list[str]:
    """Return "major:minor" of every block device on which a file at `path` may lie;
    none for FUSE and networks.
    """
    mount = mount_of(path)
    first = None if mount.fuse else _block_device(path, mount)
    if first is None:
        return []
    several = _btrfs(first.name) if mount.type == "btrfs" else None
    members = [entry.resolve() for entry in (several / "devices").iterdir()] if several else [first]
    found = [(device / "dev").read_text().strip() for member in members for device in _below(member)]
    return list(dict.fromkeys(found))


def cached_image(path: str | Path) -> str | None:
    """Return the image of a loop device below `path` of which the kernel keeps pages, too; None without one.

    What is dropped of a file on it stays in memory as pages of the image.
    """
    for number in block_devices(path):
        # Only loop devices have such a directory; a part of one has it with the whole.
        loop = BLOCK / number / "loop"
        with suppress(OSError):
            if (loop / "dio").read_text().strip() == "0":
                return (loop / "backing_file").read_text().strip()
    return None


def read_ahead_setting(path: str | Path) -> Path | None:
    """Return the kernel's file with the read-ahead, KiB, of the file system of `path`; None without one."""
    device = os.stat(path).st_dev
    directories = [Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}")]
    mount = mount_of(path)
    if not mount.fuse and (block := _block_device(path, mount)):
        # A part of a disk has the disk's.
        directories.append((block.parent if (block / "partition").exists() else block) / "bdi")
        if mount.type == "btrfs" and (several := _btrfs(block.name)):
            directories.insert(0, several / "bdi")
    files = (directory.resolve() / "read_ahead_kb" for directory in directories)
    return next((file for file in files if file.exists()), None)


def read_ahead_bytes(path: str | Path) -> int | None:
    """Return how far the kernel reads ahead on the file system of `path`; None where it does not say."""
    with suppress(OSError, ValueError):
        if setting := read_ahead_setting(path):
            return int(setting.read_text()) * 1024
    return None
