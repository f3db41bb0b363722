"""Write the test artifact of one cell and round. Usage: python -m hyperslab.generate --help"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns

from hyperslab import formats
from hyperslab.data.models import open_content
from hyperslab.layouts import layout_of
from hyperslab.measuring import limits, locks, machine, other_file_systems
from hyperslab.measuring.artifact import (
    NOTE,
    SHARED,
    Artifact,
    make_directory,
    remove_directory,
    stop_cleanly,
)
from hyperslab.measuring.process import arguments, ask_itself_directly, ends_in_one_line, enter
from hyperslab.records import Moment, Note, read_json
from hyperslab.sites import roots
from hyperslab.sites.roots import root_of
from hyperslab.specifications import Specification, file_digest


def generate(
    spec: Specification, directory: Path, donor: str | None, begin: Callable[[], None] = lambda: None
) -> None:
    """Write the artifact of `spec` in `directory`, with a note; nothing is left behind on failure.

    `begin` is called as soon as no other run may be timing what lies there.

    What a build of a library lacks is none: the note alone is left, and says it.
    """
    root = root_of(directory)
    limits.limit_memory(roots.read(root).memory_mb)
    format_ = formats.format_of(spec["layout"])
    artifact = format_.artifact.in_directory(directory, layout_of(spec["layout"]).suffix)
    with locks.alone(root):
        # Not before: another run may be timing what lies there.
        begin()
        remove_directory(directory)
        make_directory(directory)
        began = machine.now()
        try:
            artifact.start_for_writing(spec["layout"])
            started = perf_counter_ns()
            way = format_.generate(str(artifact.data), spec, open_content(spec["dataset"], donor))
            artifact.fsync()
            seconds = (perf_counter_ns() - started) / 1e9
            _leave_note(artifact, spec, began, seconds, way, format_.workers_memory_bytes())
        except formats.Unavailable as reason:
            # That a build lacks what a layout asks for is a result, which who measures records.
            artifact.stop()
            remove_directory(directory)
            make_directory(directory)
            _leave_note(artifact, spec, began, unavailable=str(reason))
        except BaseException:
            # What serves the data might still write.
            artifact.stop()
            # What failed is said, not that NFS keeps what is still open.
            with suppress(OSError):
                remove_directory(directory)
            raise
        finally:
            artifact.stop()


def _leave_note(
    artifact: Artifact,
    spec: Specification,
    began: Moment,
    seconds: float = 0.0,
    writer: str = "",
    workers_memory_bytes: int = 0,
    unavailable: str | None = None,
) -> None:
    """Write beside an artifact how it was made, or what was missing to make it."""
    note: Note = {
        "generate_s": seconds,
        "writer": writer,
        "node": machine.node_name(),
        "began": began,
        "ended": machine.now(),
        "peak_memory_bytes": machine.largest_memory_bytes() + workers_memory_bytes,
        "specification": file_digest(spec),
    }
    if unavailable is not None:
        note["unavailable"] = unavailable
    artifact.note.write_text(json.dumps(note), encoding="utf-8")


def written(directory: Path, spec: Specification) -> bool:
    """Tell whether an artifact that cells share is there already."""
    if SHARED not in directory.name:
        return False
    with suppress(OSError, ValueError):
        note = read_json(directory / NOTE)
        return bool(note.get("specification") == file_digest(spec))
    return False


def main() -> None:
    """Run the command."""
    options = arguments(__doc__ or "").parse_args()
    stop_cleanly(None)
    spec = json.loads(options.specification)
    with ends_in_one_line("hyperslab.generate", options.artifact, formats.Unavailable):
        if written(options.artifact, spec):
            return
        layout = layout_of(spec["layout"])
        other_file_systems.keep(layout.other_file_systems())
        enter(layout.environment())
        ask_itself_directly()
        generate(spec, options.artifact, options.donor, lambda: stop_cleanly(options.artifact))


if __name__ == "__main__":
    main()
