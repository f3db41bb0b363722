"""What was measured where: machine, file system, versions, settings, noise and times, one column a site."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hyperslab import layouts
from hyperslab import text as fmt
from hyperslab.report.data import CELL, Data
from hyperslab.report.model import Cell, Table, table
from hyperslab.report.numbers import spread
from hyperslab.report.settings import settings_table
from hyperslab.text import size, striping_text

Show = Callable[[Any], str]
READ_AHEAD_NOTE = (
    "How far the kernel reads ahead decides how much of a file comes with a cold selection, and which part "
    "of the file a session finds in memory. Linux's own is 128 KiB; a site may set another one "
    "(read_ahead_bytes), and study read-ahead shows what that changes."
)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {part}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return " to ".join(str(entry) for entry in value)
    return fmt.ABSENT if value is None or value == "" else str(value)


def _bytes(value: Any) -> str:
    # What was left to a library may be told in words.
    if value is None or isinstance(value, str):
        return value or fmt.ABSENT
    return f"{value / 2**20:,.1f} MiB" if value >= 2**20 else f"{value:,} bytes"


def _rate(value: Any) -> str:
    return fmt.ABSENT if value is None else f"{size(value)}/s"


def _striping(value: Any) -> str:
    return striping_text(value) if value else fmt.ABSENT


def _memory(value: Any) -> str:
    return fmt.ABSENT if value is None else f"{value / 2**30:.1f} GiB"


MACHINE: tuple[tuple[str, str, Show], ...] = (
    ("Node", "node", _plain),
    ("Processor", "cpu", _plain),
    ("Cores", "cores", _plain),
    ("Memory", "memory_bytes", _memory),
    ("Kernel", "kernel", _plain),
    ("Kernel reclaims cached pages by itself", "reclaims_by_itself", _plain),
)
FILE_SYSTEM: tuple[tuple[str, str, Show], ...] = (
    ("Type", "type", _plain),
    ("Source", "source", _plain),
    ("Mount options", "options", _plain),
    ("Block", "block_bytes", _bytes),
    ("Read-ahead", "read_ahead_bytes", size),
    ("Read-ahead set for each cell", "read_ahead_set", _plain),
    ("Lies in memory", "memory_resident", _plain),
    ("FUSE", "fuse", _plain),
    ("Network file system", "network", _plain),
    ("Striping of new files", "striping", _striping),
    ("Device bytes counted", "device_counted", _plain),
    ("Caches beyond the node", "server_cache", _plain),
)
THROTTLE: tuple[tuple[str, str, Show], ...] = (
    ("Limit of reading", "read_bytes_per_s", _rate),
    ("Limit of writing", "write_bytes_per_s", _rate),
    ("Limit of reads", "reads_per_s", _plain),
    ("Limit of writes", "writes_per_s", _plain),
    ("By the cgroup", "cgroup", _plain),
)
STORE: tuple[tuple[str, str, Show], ...] = (
    ("Store, or what started it for each cell", "endpoint", _plain),
    ("Region", "region", _plain),
    ("Bucket", "bucket", _plain),
    ("Prefix", "prefix", _plain),
    ("Latency added to each request, ms", "latency_ms", _plain),
    ("Bandwidth of all requests together", "bandwidth", _rate),
)
LOCKS: tuple[tuple[str, str, Show], ...] = (
    ("Lock of the node held", "node", _plain),
    ("Lock of the file system held", "root", _plain),
)


def _groups() -> Iterator[tuple[str, str, Sequence[tuple[str, str, Show]]]]:
    """Yield title, name and properties of each group; of libraries and settings, those of every format."""
    formats = [layouts.load(name) for name in layouts.FORMATS]
    libraries = {name: label for each in formats for name, label in each.libraries.items()}
    versions = {"python": "Python", **libraries, "numpy": "NumPy"}
    settings = {name: setting for each in formats for name, setting in each.settings.items()}
    yield "Machine", "machine", MACHINE
    yield "File system", "file_system", FILE_SYSTEM
    yield "Versions", "versions", [(label, name, _plain) for name, label in versions.items()]
    yield (
        "Settings of the libraries, as read back from the files",
        "settings",
        [(each.label, name, _bytes if each.size else _plain) for name, each in settings.items()],
    )
    yield "Throttle", "throttle", THROTTLE
    yield "Object store", "store", STORE
    yield "Locks", "locks", LOCKS


def context_tables(data: Data) -> list[Table]:
    """Return one table a group of properties, and one for the run itself;
    a property that varies shows how often.
    """
    tables = [_opening(data)]
    for title, group, properties in _groups():
        if group == "store" and not any(entry.get(group) for entry in data.context):
            continue
        rows = []
        for label, key, show in properties:
            rows.append([label, *(_value(data.context, site, group, key, show) for site in data.sites)])
        # What is recorded beyond the known properties is shown too, under its own name.
        listed = {key for _, key, _ in properties} | {"executable", "limits"}
        others = dict.fromkeys(
            key for entry in data.context for key in entry.get(group) or {} if key not in listed
        )
        rows += [
            [key, *(_value(data.context, site, group, key, _plain) for site in data.sites)] for key in others
        ]
        tables.append(table(title, ["", *data.sites], rows))
    by_layout = [found] if (found := settings_table(data)) else []
    return [*tables, *by_layout, _run_table(data), _noise_table(data)]


def _opening(data: Data) -> Table:
    """Return where each site lies, and how far the kernel reads ahead there: much depends on it."""
    listed: tuple[tuple[str, str, Show], ...] = (
        ("File system", "type", _plain),
        ("Device", "source", _plain),
        ("Read-ahead", "read_ahead_bytes", size),
        ("Set for each cell", "read_ahead_set", _plain),
    )
    rows = [
        [label, *(_value(data.context, site, "file_system", key, show) for site in data.sites)]
        for label, key, show in listed
    ]
    return table("Where, and with which read-ahead", ["", *data.sites], rows, READ_AHEAD_NOTE)


def _value(context: Sequence[Mapping[str, Any]], site: str, group: str, key: str, show: Show) -> Cell:
    """Return a property at a site; where it varies, each value with the cells that have it."""
    counts: dict[str, int] = {}
    for entry in context:
        if entry["site"] == site:
            text = show((entry.get(group) or {}).get(key))
            counts[text] = counts.get(text, 0) + int(entry.get("cells", 0))
    if len(counts) == 1:
        return Cell(next(iter(counts)))
    return Cell(
        "; ".join(f"{text} ({fmt.count(cells, 'cell')})" for text, cells in counts.items()) or fmt.ABSENT
    )


def _run_table(data: Data) -> Table:
    """Return the cells and repeats, the time the run took, and what of it was timed."""
    shown: list[list[Any]] = [
        [name] for name in ("Cells", "Repeats", "First cell began", "Last cell ended", "From first to last",
                            "Timed in all", "Test files made in", "Largest memory of a job")
    ]  # fmt: skip
    for site in data.sites:
        rows = data.fresh[data.fresh["site"] == site]
        cells = rows.drop_duplicates(CELL)
        first, last = rows["began_wall_s"].min(), rows["ended_wall_s"].max()
        values = (
            f"{len(cells):,}", f"{len(rows):,}", fmt.moment(first), fmt.moment(last),
            fmt.duration(last - first),
            fmt.duration(rows["time_s"].sum()), fmt.duration(cells["generate_s"].sum()),
            _bytes(rows["peak_memory_bytes"].max() if len(rows) else None),
        )  # fmt: skip
        for line, value in zip(shown, values, strict=True):
            line.append(value)
    note = "Timed: the sum of time_s over all repeats. Making test files is not timed work."
    return table("The run", ["", *data.sites], shown, note)


def _noise_table(data: Data) -> Table:
    """Return the median and spread of the probes, and how many cells they flag."""
    rows: list[list[Any]] = [
        [name] for name in ("Fixed computation, median (lowest to highest)",
                            "Direct 4 KiB read, median (lowest to highest)", "Noisy cells",
                            "Overlapping cells")
    ]  # fmt: skip
    for site in data.sites:
        cells = data.fresh[data.fresh["site"] == site].drop_duplicates(CELL)
        for line, name in zip(rows, ("probe_compute_s", "probe_read_s"), strict=False):
            line.append(spread(cells[name]))
        for line, name in zip(rows[2:], ("noisy", "overlap"), strict=True):
            line.append(f"{int(cells[name].astype(bool).sum()):,} of {len(cells):,}")
    note = "Of each cell the slower of the two probes around it; noisy beyond max(5 MAD, 25 %) of the median."
    return table("Noise", ["", *data.sites], rows, note)
