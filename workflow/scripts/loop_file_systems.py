#!/usr/bin/env python3
"""Further file systems for trying out: ext4, xfs, btrfs on sparse images behind loop devices, also throttled.

Everything lies in one directory: <name>.img, its mount point <name>/, sites.yaml and a record of what was
made, which is all that `down` removes. The loop devices use direct I/O, so nothing is cached a second time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from file_system_command import CommandLine, FileSystemError
from hyperslab.sites import mounts

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
EXPLANATION = """\
examples
  loop_file_systems.py up --dir /scratch/loops --size 4G ext4 xfs btrfs btrfs-zstd
  loop_file_systems.py up --dir /scratch/loops portal=ext4             a second ext4 of another name
  loop_file_systems.py throttle --dir /scratch/loops portal --read 50M --write 50M
  loop_file_systems.py throttle --dir /scratch/loops sync --write-iops 100     a disk of 10 ms a write
  loop_file_systems.py down --dir /scratch/loops

`up` prints a fragment for config/sites.yaml and keeps it in DIR/sites.yaml. `throttle` prints the path of a
cgroup (version 1, blkio; or version 2, io); a process that writes its id into cgroup.procs there, before it
opens a file, gets at most so many bytes or operations per second. Needs root. Sizes are bytes or end in
K, M, G, T (powers of 1024).
"""


@dataclass(frozen=True)
class Kind:
    """How a kind of file system is made; `smallest` is in bytes, `package` is Debian's."""

    make: tuple[str, ...]
    package: str
    smallest: int
    options: str = "defaults"


KINDS = {
    # without the lazy options the kernel would still be writing inode tables while others measure
    "ext4": Kind(("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"), "e2fsprogs", 8 * 2**20),
    # every write reaches the device before it returns
    "ext4-sync": Kind(
        ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"), "e2fsprogs", 8 * 2**20, "sync"
    ),
    "xfs": Kind(("mkfs.xfs", "-q"), "xfsprogs", 300 * 2**20),
    # btrfs by default goes on discarding in the background after a file was removed
    "btrfs": Kind(("mkfs.btrfs", "-q"), "btrfs-progs", 128 * 2**20, "nodiscard"),
    "btrfs-zstd": Kind(("mkfs.btrfs", "-q"), "btrfs-progs", 128 * 2**20, "nodiscard,compress=zstd"),
}


# What can be limited -> its name in version 2 of cgroups, and in the name of a file of version 1.
LIMITS = {
    "read": ("rbps", "read_bps"),
    "write": ("wbps", "write_bps"),
    "read_iops": ("riops", "read_iops"),
    "write_iops": ("wiops", "write_iops"),
}


@dataclass
class Mounted:
    """One file system of the record: its kind and, where it is throttled, its cgroup."""

    kind: str
    cgroup: str | None = None


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise FileSystemError(f"{command[0]}: {' '.join(done.stderr.split()) or f'status {done.returncode}'}")
    return done.stdout.strip()


def size(text: str) -> int:
    """Return the bytes of `4G`, `300M` or a plain number."""
    match = re.fullmatch(r"([1-9]\d*)([KMGT]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 4G or 300M")
    return int(match[1]) * UNITS[match[2]]


def named_kind(text: str) -> tuple[str, str]:
    """Return the name and kind of `ext4` or `portal=ext4`."""
    name, _, kind = text.rpartition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{kind!r} is none of {', '.join(KINDS)}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name or kind):
        raise argparse.ArgumentTypeError(f"name {name!r}: letters, digits, '-' and '_' only")
    return name or kind, kind


class Loops:
    """The file systems of one directory and the record of them, which is always written before the act."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = directory / "loops.json"
        self.mounted: dict[str, Mounted] = {}
        if self.record.exists():
            content = json.loads(self.record.read_text())
            self.mounted = {name: Mounted(**entry) for name, entry in content.items()}

    def save(self) -> None:
        """Replace the record as a whole, and the sites fragment with it."""
        written = self.record.with_suffix(".new")
        written.write_text(json.dumps({name: vars(entry) for name, entry in self.mounted.items()}, indent=1))
        written.rename(self.record)
        (self.directory / "sites.yaml").write_text(self.sites())

    def image(self, name: str) -> Path:
        return self.directory / f"{name}.img"

    def mount_point(self, name: str) -> Path:
        return self.directory / name

    def devices(self, name: str) -> list[str]:
        """Return the loop devices that stand on the image of `name`,
        also where somebody deleted it meanwhile.
        """
        image = str(self.image(name))
        return [f"/dev/{device}" for device, file in loop_devices() if file == image]

    def sites(self) -> str:
        """Return a fragment of config/sites.yaml that names every file system here and a local site on
        each.
        """
        systems, sites = [], []
        for name, entry in self.mounted.items():
            # JSON strings are YAML strings, whatever letters the path has
            root = json.dumps(str(self.mount_point(name)), ensure_ascii=False)
            systems.append(f"  loop-{name}:  # {entry.kind} on a loop device\n    root: {root}\n")
            if entry.cgroup:
                systems.append(f"    cgroup: {json.dumps(entry.cgroup)}  # throttled: join before opening\n")
            sites.append(f"  local-loop-{name}:\n    platform: local\n    file_system: loop-{name}\n")
        return "".join(["file_systems:\n", *systems, "sites:\n", *sites])

    def up(self, wanted: list[tuple[str, str]], bytes_each: int) -> None:
        """Make and mount the file systems `wanted` (name, kind); on failure none of them stays."""
        self.check(wanted, bytes_each)
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            for name, kind in wanted:
                self.mounted[name] = Mounted(kind)
                self.save()
                self.make(name, KINDS[kind], bytes_each)
        except BaseException:
            self.down([name for name, _ in wanted if name in self.mounted])
            raise

    def check(self, wanted: list[tuple[str, str]], bytes_each: int) -> None:
        names = [name for name, _ in wanted]
        for name, kind in wanted:
            if name in self.mounted or names.count(name) > 1:
                raise FileSystemError(f"{name} is there already: give another name, as in other={kind}")
            for path in (self.image(name), self.mount_point(name)):
                if os.path.lexists(path):
                    raise FileSystemError(
                        f"{path} exists and was not made here: choose another --dir or name"
                    )
            problem = missing(kind)
            if problem:
                raise FileSystemError(problem)
            if bytes_each < KINDS[kind].smallest:
                raise FileSystemError(f"{kind} needs --size {KINDS[kind].smallest // 2**20}M or more")
        existing = mounts.existing(self.directory)
        free = shutil.disk_usage(existing).free
        if bytes_each * len(wanted) > free:
            raise FileSystemError(f"{bytes_each * len(wanted):,} bytes asked, {free:,} free at {existing}")

    def make(self, name: str, kind: Kind, bytes_each: int) -> None:
        image, mount_point = self.image(name), self.mount_point(name)
        with image.open("xb") as file:
            file.truncate(bytes_each)
        run(*kind.make, str(image))
        mount_point.mkdir()
        device = run("losetup", "--find", "--show", "--direct-io=on", str(image))
        if run("losetup", "--noheadings", "--output", "DIO", device) != "1":
            raise FileSystemError(
                f"{device} refuses direct I/O: {self.directory} lies on a file system without it"
            )
        run("mount", "-o", kind.options, device, str(mount_point))

    def throttle(self, name: str, limits: Mapping[str, int | None]) -> str:
        """Limit reads and writes of `name`; returns the path of the cgroup.

        `limits` has those of LIMITS that are wanted, in bytes or operations per second; None is no limit.
        """
        devices = self.devices(name) if name in self.mounted else []
        if not devices:
            raise FileSystemError(
                f"{name} is not mounted here; there are: {', '.join(self.mounted) or 'none'}"
            )
        number = os.stat(devices[0]).st_rdev
        device = f"{os.major(number)}:{os.minor(number)}"
        hierarchy, version = io_hierarchy()
        group = hierarchy / f"hyperslab-{name}-{device.replace(':', '-')}"
        self.mounted[name].cgroup = str(group)
        self.save()
        if version == 2:
            # Without the memory controller nobody knows whose dirty pages are written back.
            (hierarchy / "cgroup.subtree_control").write_text("+io +memory")
        group.mkdir(exist_ok=True)
        if version == 2:
            rules = (f"{key}={limits.get(name) or 'max'}" for name, (key, _) in LIMITS.items())
            (group / "io.max").write_text(f"{device} {' '.join(rules)}")
            return str(group)
        for name, (_, file) in LIMITS.items():
            # 0 lifts a limit
            (group / f"blkio.throttle.{file}_device").write_text(f"{device} {limits.get(name) or 0}")
        return str(group)

    def down(self, names: list[str]) -> None:
        """Unmount and remove what the record says of `names`; what was done before is passed over."""
        for name in names:
            devices = self.devices(name)
            for target in mount_points(devices):
                run("umount", target)
            for device in devices:
                run("losetup", "--detach", device)
            cgroup = self.mounted[name].cgroup
            if cgroup and Path(cgroup).exists():
                Path(cgroup).rmdir()
            self.image(name).unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self.mount_point(name).rmdir()
            del self.mounted[name]
            self.save()
        if not self.mounted:
            for name in ("loops.json", "loops.new", "sites.yaml"):
                (self.directory / name).unlink(missing_ok=True)


def loop_devices() -> Iterator[tuple[str, str]]:
    """Yield the name of every loop device and the file on which it stands, also where that is deleted."""
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        # Somebody else may detach theirs meanwhile.
        with contextlib.suppress(OSError):
            file = entry.read_text()
            yield entry.parent.parent.name, file.removesuffix("\n").removesuffix(" (deleted)")


def mount_points(devices: list[str]) -> Iterator[str]:
    """Yield where `devices` are mounted, the last mount first."""
    for mount in reversed(list(mounts.table())):
        if mount.source in devices:
            yield mount.point


def io_hierarchy() -> tuple[Path, int]:
    """Mount point of the block-I/O controller and the version of its cgroups; raises FileSystemError."""
    for found in mounts.control_groups("blkio", "io"):
        return found
    raise FileSystemError("no cgroup controller of block I/O is mounted here: nothing can be throttled")


def missing(*kinds: str) -> str | None:
    """Return why file systems of `kinds` cannot be made on this machine, in one line; None where they can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/loop-control").exists():
        return "no loop devices here (/dev/loop-control not found)"
    for kind in kinds:
        if shutil.which(KINDS[kind].make[0]) is None:
            return f"{KINDS[kind].make[0]} not found: apt-get install {KINDS[kind].package}"
    return None


def perform(options: argparse.Namespace) -> None:
    """Do what was asked for; raises FileSystemError."""
    loops = Loops(options.dir)
    if options.action == "up":
        loops.up(options.kinds, options.size)
        print(loops.sites(), end="")
    elif options.action == "throttle":
        print(loops.throttle(options.name, {name: getattr(options, name) for name in LIMITS}))
    else:
        loops.down(list(loops.mounted))


def main() -> int:
    line = CommandLine(__file__, __doc__, EXPLANATION)
    up = line.action("up", "make and mount file systems")
    up.add_argument("kinds", nargs="+", type=named_kind, metavar="[NAME=]KIND", help=", ".join(KINDS))
    up.add_argument("--size", type=size, default=size("4G"), help="of each image, sparse (default 4G)")
    throttle = line.action("throttle", "limit one of them by a cgroup")
    throttle.add_argument("name", help="as given to up")
    throttle.add_argument("--read", type=size, help="bytes per second (default: no limit)")
    throttle.add_argument("--write", type=size, help="bytes per second (default: no limit)")
    throttle.add_argument("--read-iops", type=int, help="reads per second (default: no limit)")
    throttle.add_argument("--write-iops", type=int, help="writes per second (default: no limit)")
    line.action("down", "unmount and remove all that up made (safe to repeat)")
    return line.run(missing, perform)


if __name__ == "__main__":
    sys.exit(main())
