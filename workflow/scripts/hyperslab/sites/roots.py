"""The root of a file system under test: its marker, and what that tells whoever measures there."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

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
    # Memory that a cell may take, in MB (10^6); None where no scheduler limits it.
    memory_mb: int | None = None


def prepare(root: str, described: Root) -> None:
    """Make a root and its marker; raises OSError."""
    directory = Path(root)
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(described))
    marker = directory / MARKER
    if marker.exists() and marker.read_text(encoding="utf-8") == text:
        return
    # Whoever reads it meanwhile sees the old one or the new one, whole.
    partial = directory / f"{MARKER}.{os.getpid()}"
    partial.write_text(text, encoding="utf-8")
    partial.replace(marker)


def read(root: str) -> Root:
    """What the marker of a root says; raises FileNotFoundError where it has none."""
    text = (Path(root) / MARKER).read_text(encoding="utf-8")
    known = {field.name for field in fields(Root)}
    content = json.loads(text) if text else {}
    return Root(**{key: value for key, value in content.items() if key in known})


def root_of(path: Path) -> str:
    """The root of a test file: the nearest directory above with the marker.

    Raises FileNotFoundError where there is none: the root has vanished (unmounted, removed), and what lies in
    its place may be another file system.
    """
    for parent in path.parents:
        if (parent / MARKER).exists():
            return str(parent)
    raise FileNotFoundError(
        f"no {MARKER} above {path}: the file system under test has vanished or was never prepared"
    )
