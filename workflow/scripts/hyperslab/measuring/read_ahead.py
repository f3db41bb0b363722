"""How far the kernel reads ahead while a cell is timed: set on the device, put back whatever ends the cell.

A file has the read-ahead that its device had when it was opened (struct file_ra_state of the kernel), so it
is set before any file is opened. Only root may. Another process waits for the end of this one, however that
comes, and puts back what was there before; a note tells the next cell where even that one was killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.sites import mounts

# Only root writes there, and it is empty after a start of the machine, as is what was set.
NOTES = Path("/run")
# Waits until its standard input ends, puts a text back into a file, and removes the note.
KEEPER = 'read _; echo "$0" > "$1" && rm -f "$2"'


@contextmanager
def kept(root: str, wanted: int | None) -> Iterator[int | None]:
    """Read `wanted` bytes ahead on the file system of `root` for as long as the block runs (None: as it is).

    Yields what is in force, None where the kernel does not say. Raises OSError where it cannot be set.
    """
    if wanted is None:
        yield mounts.read_ahead_bytes(root)
        return
    setting = mounts.read_ahead_setting(root)
    if wrong := mistake(root, setting):
        raise OSError(wrong)
    assert setting is not None
    note = NOTES / f"hyperslab-read-ahead-{setting.parent.name.replace(':', '-')}"
    if note.exists():
        # Whoever set it last was killed with its keeper: this, and not what is there now, is the machine's.
        before = note.read_text(encoding="utf-8").strip()
    else:
        before = setting.read_text(encoding="utf-8").strip()
        note.write_text(before, encoding="utf-8")
    keeper = subprocess.Popen(
        ["sh", "-c", KEEPER, before, setting, note], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        setting.write_text(f"{wanted // 1024}\n", encoding="utf-8")
        found = mounts.read_ahead_bytes(root)
        if found != wanted:
            raise OSError(
                f"{root}: the kernel reads {found} bytes ahead, not the {wanted} of read_ahead_bytes"
            )
        yield found
    finally:
        keeper.communicate()
        if keeper.returncode:
            raise OSError(f"{setting}: the read-ahead that was there before, {before} KiB, is not put back")


def mistake(root: str, setting: Path | None) -> str | None:
    """Return why the read-ahead of the file system of `root` cannot be set, None where it can."""
    if setting is None:
        kind = mounts.mount_of(root).type
        return f"{root}: the device whose read-ahead read_ahead_bytes sets cannot be found ({kind})"
    try:
        with setting.open("r+", encoding="utf-8"):
            return None
    except OSError as error:
        return f"{root}: read_ahead_bytes cannot be set ({error.strerror}: {setting}); only root may"
