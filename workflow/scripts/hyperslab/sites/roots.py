"""The root of a file system under test: its marker, and what that tells whoever measures there."""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

# Keeps a root when it is empty (Snakemake removes emptied directories), and tells which directory is one.
MARKER = ".hyperslab-root"


@dataclass(frozen=True)
class Root:
    """What the sites on a root say of it."""

    # Cells that may be timed there at once, each on a node of its own.
    concurrency: int = 1
    # Only the node that made it can see it.
    node_local: bool = False
    # The cgroup that a measuring process joins, if its I/O is to be throttled.
    cgroup: str | None = None
    # How far the kernel reads ahead there while a cell is timed, bytes; None: as it does.
    read_ahead_bytes: int | None = None
    # Memory that a cell in a job of Slurm may take, in MB (10^6); None where no such site has the root.
    memory_mb: int | None = None
    # The object store that its data go to, as config/sites.yaml describes it; None: they stay.
    store: dict[str, Any] | None = None
    # Given at the first use; tells this root from what lies in its place when it is gone.
    identity: str = ""


# The identities of roots when the run began, by root, as JSON: a cell finds out if its root was exchanged.
VARIABLE = "HYPERSLAB_ROOTS"


def prepare(root: str, described: Root, judged: bool = True) -> str:
    """Make a root and its marker, and return its identity; raises OSError.

    A root keeps the identity that it has. One that has none gets that of `described`, or a new one, or stays
    without until it is `judged` which it is.
    """
    directory = Path(root)
    directory.mkdir(parents=True, exist_ok=True)
    identity = identity_of(root) or described.identity or (uuid.uuid4().hex if judged else "")
    text = json.dumps(asdict(replace(described, identity=identity)))
    marker = directory / MARKER
    if marker.exists() and marker.read_bytes() == text.encode():
        return identity
    # Whoever reads it meanwhile sees the old one or the new one, whole.
    partial = directory / f"{MARKER}.{os.getpid()}"
    partial.write_text(text, encoding="utf-8")
    # Other users of a shared root read it, whatever the umask of whoever comes first.
    with suppress(OSError):
        partial.chmod(0o644)
    partial.replace(marker)
    return identity


def identity_of(root: str) -> str:
    """Return the identity of a root; "" where it is not there, was never used, or is yet to be judged."""
    try:
        return _marked(root).identity
    except (OSError, ValueError):
        return ""


def is_prepared(root: str) -> bool:
    """Tell whether a root has its marker."""
    try:
        _marked(root)
    except (OSError, ValueError):
        return False
    return True


def read(root: str) -> Root:
    """Return what the marker of a root says.

    Raises FileNotFoundError where it has none, OSError where it is another than when the run began.
    """
    found = _marked(root)
    expected = json.loads(os.environ.get(VARIABLE, "{}")).get(root)
    if expected and found.identity != expected:
        raise OSError(f"{root} is not the file system that was there when the run began: it was exchanged")
    return found


def _marked(root: str) -> Root:
    text = (Path(root) / MARKER).read_text(encoding="utf-8")
    known = {field.name for field in fields(Root)}
    content = json.loads(text) if text else {}
    if not isinstance(content, dict):
        raise ValueError(f"{Path(root) / MARKER} is damaged: it holds {type(content).__name__}")
    return Root(**{key: value for key, value in content.items() if key in known})


def root_of(path: Path) -> str:
    """Return the root of a test file: the nearest directory above with the marker.

    Raises FileNotFoundError where there is none: the root has vanished (unmounted, removed), and what lies in
    its place may be another file system.
    """
    for parent in path.parents:
        if (parent / MARKER).exists():
            return str(parent)
    raise FileNotFoundError(
        f"no {MARKER} above {path}: the file system under test has vanished or was never prepared"
    )
