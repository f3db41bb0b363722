#!/usr/bin/env python3
"""FUSE, network and distributed file systems for trying out, each served by daemons of this machine alone.

Everything lies in one directory: <name>/ is the mount point, <name>.data/ holds what the daemons store, and
network.json records what was made, which is all that `down` removes. Each listens on this machine only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from file_system_command import CommandLine, FileSystemError
from loop_file_systems import run
from network_daemons import (
    GLUSTER_ADDRESS,
    KINDS,
    OSDS,
    PACKAGES,
    PLAIN_PATHS,
    STRIPE_BYTES,
    Made,
    Place,
    end,
)

EXPLANATION = """\
examples
  network_file_systems.py up --dir /scratch/network bindfs sshfs glusterfs cephfs
  network_file_systems.py down --dir /scratch/network

bindfs      FUSE over a directory of the same disk
sshfs       FUSE that speaks SFTP to a server process
glusterfs   two bricks, files cut into shards of 4 MiB; adds the address 10.77.0.1 to lo while it is up;
            its bricks log to /var/log/glusterfs
cephfs      a monitor, a manager, a metadata server and two OSDs of 1 GiB; new files are striped over both

`up` prints a fragment for config/sites.yaml and keeps it in DIR/sites.yaml. Needs root and /dev/fuse.

Debian's packages
"""


class Network:
    """The file systems of one directory and the record of them, which is always written before the act."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.record = directory / "network.json"
        self.made: dict[str, Made] = {}
        if self.record.exists():
            self.made = {name: Made(**entry) for name, entry in json.loads(self.record.read_text()).items()}

    def save(self) -> None:
        """Replace the record as a whole, and the sites fragment with it."""
        written = self.record.with_suffix(".new")
        written.write_text(json.dumps({name: asdict(entry) for name, entry in self.made.items()}, indent=1))
        written.rename(self.record)
        (self.directory / "sites.yaml").write_text(self.sites())

    def place(self, name: str) -> Place:
        """Return where the file system of this name lies."""
        return Place(self.directory, name, self.made[name], self.save)

    def sites(self) -> str:
        """Return a fragment of config/sites.yaml that names every file system here and a local site on
        each.
        """
        systems, sites = [], []
        for name in self.made:
            root = json.dumps(str(self.directory / name), ensure_ascii=False)
            systems.append(f"  {name}:\n    root: {root}\n")
            if name == "cephfs":
                systems.append(f"    stripe: {{count: {OSDS}, size_bytes: {STRIPE_BYTES}}}\n")
            sites.append(f"  local-{name}:\n    platform: local\n    file_system: {name}\n")
        return "".join(["file_systems:\n", *systems, "sites:\n", *sites])

    def up(self, kinds: list[str]) -> None:
        """Start and mount file systems; on failure none of them stays."""
        for kind in kinds:
            if kind in self.made or kinds.count(kind) > 1:
                raise FileSystemError(f"{kind} is there already")
            if problem := missing(kind):
                raise FileSystemError(problem)
            if kind in PLAIN_PATHS and not re.fullmatch(r"[!-~]+", str(self.directory)):
                raise FileSystemError(f"{kind} itself takes no --dir with blanks or letters beyond ASCII")
            for path in (self.directory / kind, self.directory / f"{kind}.data"):
                if os.path.lexists(path):
                    raise FileSystemError(f"{path} exists and was not made here: choose another --dir")
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            for kind in kinds:
                self.made[kind] = Made(kind)
                self.save()
                place = self.place(kind)
                place.mount_point.mkdir()
                place.data.mkdir()
                KINDS[kind](place)
        except BaseException:
            self.down([kind for kind in kinds if kind in self.made])
            raise

    def down(self, names: list[str]) -> None:
        """Unmount, end the daemons by their ids and remove what they stored."""
        for name in names:
            place = self.place(name)
            while place.mounted():
                run("umount", str(place.mount_point))
            # The client first: it wants to take leave of its servers.
            for process, start in reversed(place.made.processes):
                end(process, start)
            if place.made.address:
                with contextlib.suppress(FileSystemError):
                    run("ip", "address", "del", f"{GLUSTER_ADDRESS}/32", "dev", "lo")
            if place.data.exists():
                shutil.rmtree(place.data)
            with contextlib.suppress(FileNotFoundError):
                place.mount_point.rmdir()
            del self.made[name]
            self.save()
        if not self.made:
            for name in ("network.json", "network.new", "sites.yaml"):
                (self.directory / name).unlink(missing_ok=True)


def missing(*kinds: str) -> str | None:
    """Return why file systems of `kinds` cannot be made on this machine, in one line; None where they can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/fuse").exists():
        return "no FUSE here (/dev/fuse not found)"
    for kind in kinds:
        absent = {
            command: package for command, package in PACKAGES[kind].items() if not shutil.which(command)
        }
        if absent:
            packages = " ".join(dict.fromkeys(absent.values()))
            return (
                f"{kind}: {', '.join(absent)} not found: apt-get install --no-install-recommends {packages}"
            )
    return None


def perform(options: argparse.Namespace) -> None:
    """Do what was asked for; raises FileSystemError."""
    network = Network(options.dir)
    if options.action == "up":
        network.up(options.kinds)
        print(network.sites(), end="")
    else:
        network.down(list(network.made))


def main() -> int:
    packages = (f"  {kind:<12}{' '.join(needed.values())}\n" for kind, needed in PACKAGES.items())
    line = CommandLine(__file__, __doc__, EXPLANATION + "".join(packages))
    up = line.action("up", "start and mount file systems")
    up.add_argument("kinds", nargs="+", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    line.action("down", "unmount and remove all that up made (safe to repeat)")
    return line.run(missing, perform)


if __name__ == "__main__":
    sys.exit(main())
