"""Measure one cell in one round and write its record. Usage: python -m hyperslab.measure --help"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from hyperslab import cases, formats
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.data.models import open_content
from hyperslab.layouts import layout_of
from hyperslab.layouts.environments import of_cell
from hyperslab.measuring import limits, locks, machine, other_file_systems, pagecache, probes, read_ahead
from hyperslab.measuring.artifact import NOTE, Artifact, leave, make_directory, remove_directory, stop_cleanly
from hyperslab.measuring.counters import offered
from hyperslab.measuring.fork_parent import FORKED
from hyperslab.measuring.process import arguments, ask_itself_directly, ends_in_one_line, enter
from hyperslab.measuring.throttling import Limiter, recorded
from hyperslab.records import Measured, Note, Record, partial, read_json, write_record
from hyperslab.sites import mounts, roots
from hyperslab.specifications import Specification, file_digest


class OthersData(VerificationError):
    """The data are of another specification: another run has written them, and may be timing them."""


def measure(
    spec: Specification,
    directory: Path,
    donor: str | None,
    launcher: str | None = None,
    begin: Callable[[], None] = lambda: None,
) -> Measured:
    """Return what one cell and round yields; `begin` is called as soon as nothing else is timed there.

    Raises VerificationError where data differ or are another run's, OSError where the file system fails.
    """
    root = roots.root_of(directory)
    described = roots.read(root)
    format_ = formats.format_of(spec["layout"])
    limits.limit_memory(described.memory_mb)
    # Before any file is opened: what a process has opened earlier may escape the limit.
    throttle = limits.join_cgroup(described.cgroup, mounts.block_devices(root))
    file_system = machine.describe_file_system(root)
    layout = layout_of(spec["layout"])
    context = Context(
        spec,
        format_,
        str(format_.artifact.in_directory(directory, layout.suffix).data),
        open_content(spec["dataset"], donor),
        file_system["memory_resident"] and layout.abilities.pages,
        launcher,
        donor,
        Limiter(throttle),
    )
    artifact, uploaded = context.artifact, {}
    with locks.alone(root) as held, read_ahead.kept(root, described.read_ahead_bytes) as ahead:
        begin()
        make_directory(directory)
        file_system |= {
            "read_ahead_bytes": ahead,
            "read_ahead_set": described.read_ahead_bytes is not None,
        }
        pagecache.sync_file_system(root)
        written = _note(artifact, spec)
        before = probes.probe(root)
        began = machine.now()
        try:
            if written and (lacking := written.get("unavailable")):
                raise formats.Unavailable(lacking)
            format_.prepare(spec)
            artifact.start_for_case(spec["layout"], spec["case"]["states"])
            uploaded = artifact.upload()
            uploaded |= artifact.control()
            outcome = cases.load(spec["case"]["kind"])(context)
        except formats.Unavailable as reason:
            # That a build lacks what a layout asks for is a result, too.
            outcome = Outcome([], {"settings": {}}, dict.fromkeys(spec["case"]["states"], str(reason)))
        finally:
            artifact.stop()
        ended = machine.now()
        after = probes.probe(root)
    counted = (file_system["device_counted"], offered())
    return {
        "specification": spec,
        "protocol": spec["protocol"],
        "began": began,
        "ended": ended,
        "writer": written,
        "locks": held,
        "probes": {"before": before, "after": after, "change": probes.change(before, after)},
        "machine": machine.describe_machine(),
        "root": {"path": root, **asdict(described)},
        "throttle": throttle,
        "file_system": file_system,
        "versions": {**machine.describe_versions(), **context.format.versions(), **outcome.versions},
        "environment": _environment(),
        "peak_memory_bytes": machine.largest_memory_bytes() + outcome.workers_memory_bytes,
        "file": {**outcome.report, **uploaded},
        "skipped": outcome.skipped,
        "repeats": [recorded(row, throttle, *counted) for row in outcome.repeats],
    }


def _note(artifact: Artifact, spec: Specification) -> Note | None:
    """Return what the writer of the data said of itself; None where the case writes its own.

    Raises OthersData where it wrote them for another specification.
    """
    with suppress(FileNotFoundError):
        note: Note = read_json(artifact.note)
        if note.pop("specification", None) not in (None, file_digest(spec)):
            raise OthersData(
                "these data are of another specification; another run uses the same root: give each its own "
                "root, or run one after the other"
            )
        return note
    return None


def _environment() -> dict[str, str]:
    """Return the scheduler and threading variables that bear on a measurement."""
    wanted = (
        "SLURM_JOB_ID",
        "SLURM_JOB_PARTITION",
        "SLURM_RESTART_COUNT",
        "OMP_NUM_THREADS",
        "HDF5_PLUGIN_PATH",
        "BLOSC_NTHREADS",
        FORKED,
    )
    return {name: os.environ[name] for name in wanted if name in os.environ}


def main() -> None:
    """Run the command."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--record", required=True, type=Path, help="where the record goes")
    parser.add_argument("--site", required=True, help="name of the site, for the record")
    parser.add_argument("--launcher", help='what starts MPI ranks, such as "mpirun -n 4"')
    options = parser.parse_args()
    # What this cell's writer has left, if it has one, is its own; what else lies there another run may time.
    spec, left = json.loads(options.specification), not (options.artifact / NOTE).exists()
    half = partial(options.record)
    stop_cleanly(None if left else options.artifact, half)

    def begin() -> None:
        nonlocal left
        left = False
        stop_cleanly(options.artifact, half)

    try:
        with ends_in_one_line("hyperslab.measure", options.artifact, VerificationError):
            layout = layout_of(spec["layout"])
            other_file_systems.keep(layout.other_file_systems())
            enter(of_cell(spec["case"], layout.environment()))
            ask_itself_directly()
            try:
                measured = measure(spec, options.artifact, options.donor, options.launcher, begin)
            except OthersData:
                # It is that run's to remove them.
                left = True
                raise
            record: Record = {"site": options.site, **measured}
            write_record(options.record, record)
            leave(options.artifact, options.record)
            left = True
    finally:
        if not left:
            # What failed is said, not that NFS keeps what is still open.
            with suppress(OSError):
                remove_directory(options.artifact)


if __name__ == "__main__":
    main()
