"""Striping of new files over the targets of a parallel file system: set on a root, and read back from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.sites.mounts import mount_of

CEPH = ("stripe_count", "stripe_unit", "object_size")
# The least size of an object, in bytes, that striping asks for: CephFS's own default.
CEPH_OBJECT_BYTES = 4 * 2**20


class StripingError(Exception):
    """A file system without striping, or one that refused it; the text is one line."""


def _lustre(root: str, count: int, size_bytes: int | None) -> None:
    size = ["--stripe-size", str(size_bytes)] if size_bytes else []
    done = subprocess.run(
        ["lfs", "setstripe", "--stripe-count", str(count), *size, root], capture_output=True, text=True
    )
    if done.returncode:
        raise StripingError(f"lfs setstripe: {' '.join(done.stderr.split())}")


def _ceph(root: str, count: int, size_bytes: int | None) -> None:
    try:
        if size_bytes:
            # A layout is only taken as a whole that fits: objects are whole numbers of stripe units.
            object_size = size_bytes * -(-CEPH_OBJECT_BYTES // size_bytes)
            text = f"stripe_unit={size_bytes} stripe_count={count} object_size={object_size}"
            os.setxattr(root, "ceph.dir.layout", text.encode())
        else:
            os.setxattr(root, "ceph.dir.layout.stripe_count", str(count).encode())
    except OSError as error:
        raise StripingError(f"ceph.dir.layout: {error.strerror}") from None


# type of a file system -> how its directories are told how new files are to be striped
APPLY: dict[str, Callable[[str, int, int | None], None]] = {
    "lustre": _lustre,
    "ceph": _ceph,
    "fuse.ceph-fuse": _ceph,
    "fuse.ceph": _ceph,
}


def check(root: str) -> str:
    """Return the type of the file system of `root`; StripingError where it, or this machine,
    knows no striping.
    """
    kind = mount_of(root).type
    if kind not in APPLY:
        raise StripingError(f"a {kind} file system knows no striping; {', '.join(APPLY)} do")
    if kind == "lustre" and shutil.which("lfs") is None:
        raise StripingError("`lfs` of Lustre is not installed here")
    return kind


def apply(root: str, count: int, size_bytes: int | None) -> None:
    """Have new files below `root` striped over `count` targets in pieces of `size_bytes`; StripingError."""
    APPLY[check(root)](root, count, size_bytes)


def describe(path: str, kind: str) -> dict[str, Any] | None:
    """Return how new files in directory `path` are striped, as the file system says;
    None where it knows none.
    """
    if kind == "lustre":
        with suppress(OSError):
            said = subprocess.run(["lfs", "getstripe", "--directory", path], capture_output=True, text=True)
            words = said.stdout.replace(":", " ").split()
            found = dict(zip(words, words[1:], strict=False))
            return {"count": found.get("stripe_count"), "size_bytes": found.get("stripe_size")}
    if kind in APPLY:
        # Only a directory that was given a layout tells it; those below inherit it.
        for directory in (Path(path), *Path(path).absolute().parents):
            with suppress(OSError):
                return {name: int(os.getxattr(directory, f"ceph.dir.layout.{name}")) for name in CEPH}
    return None
