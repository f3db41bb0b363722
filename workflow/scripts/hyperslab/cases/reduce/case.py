"""Variance of random runs of planes, split among workers. Stopwatch: `_timed`, from release to last merge."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from time import perf_counter_ns

import numpy as np

from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.mpi import launch
from hyperslab.cases.opened import ask, closed_out_of_state, opened_everywhere
from hyperslab.cases.reduce import moments, plain
from hyperslab.cases.reduce.division import Division, OwnTeam, Processes, Team
from hyperslab.cases.reduce.moments import Moments
from hyperslab.cases.reduce.source import Fetch, Source
from hyperslab.cases.states import each_state
from hyperslab.cases.wire import Wire, kernel_apart, of_clients
from hyperslab.data.selections import Box, asked_boxes
from hyperslab.data.values import Values
from hyperslab.measuring import machine
from hyperslab.measuring.counters import OF_READS, Counters, between, of_servers
from hyperslab.measuring.pagecache import NotInState
from hyperslab.measuring.residency import NodeCache, cold, still_cold, warm
from hyperslab.records import Row
from hyperslab.specifications import EACH, PLAIN
from hyperslab.states import COLD_STATES

# What each rank runs, where the workers are ranks.
RANKS = "reduce.ranks"
# Planes whose truth is made at once.
TRUTH_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Found:
    """One result, kept for the comparison with the truth."""

    state: str
    repeat: int
    box: Box
    planes: Moments
    variance: float


class Repeats:
    """Timed reductions of one cell by one team."""

    def __init__(self, context: Context, team: Team) -> None:
        self._division = Division.of(context.specification)
        self._path = context.path
        # What a server does for all workers none of them can count: it may end after the worker's own part.
        self._servers = Counters(itself=False)
        self._artifact = context.artifact
        self.team = team
        self.found: list[Found] = []
        self.rows: list[Row] = []

    def _timed(self) -> tuple[float, Moments, float]:
        """Return the seconds from the release of the workers to the last merge;
        and the moments and the variance.
        """
        started = perf_counter_ns()
        self.team.go()
        merged, variance = moments.merged(self.team.parts(), self._division.count)
        stopped = perf_counter_ns()
        return (stopped - started) / 1e9, merged, variance

    def reduce(self, box: Box, state: str, repeat: int, opening: Row | None) -> Row:
        """Measure one repeat; `opening` are the columns of opening the data, where that was done for it."""
        self._servers.follow(self._artifact.processes())
        self.team.prepare(box)
        wire = Wire(self._artifact, itself=False)
        before = self._servers.read()
        time_s, merged, variance = self._timed()
        after = self._servers.read()
        served = between(before, after, itself=False)
        results = self.team.results()
        counted: list[Mapping[str, float]] = [*results, served]
        self.found.append(Found(state, repeat, box, merged, variance))
        row: Row = {
            "state": state,
            "repeat": repeat,
            "time_s": time_s,
            "origin": list(box.origin),
            "asked_bytes": math.prod(box.extent) * self._division.itemsize,
            "processes": self._division.workers,
            **{name: int(sum(counts[name] for counts in counted)) for name in OF_READS},
            **of_servers(before, after, itself=False),
            **(opening or {}),
        }
        row |= wire.selection(row) | of_clients(results, opening)
        if memory := self._artifact.memory_bytes():
            row["server_memory_bytes"] = memory
        self.rows.append(row)
        return row

    def verify(self, values: Values) -> None:
        """Compare every result, plane by plane, with the truth; raises VerificationError."""
        axis = self._division.planes
        truth = plane_truth(values, axis, [found.box for found in self.found], self._division.nothing)
        for found in self.found:
            right = truth.planes(found.box.origin[axis], found.box.extent[axis])
            wrong = found.planes.differing(right)
            if len(wrong):
                where = f"plane {found.box.origin[axis] + int(wrong[0])}"
            elif moments.whole_differs(found.variance, right):
                where = "the variance of the whole"
            else:
                continue
            raise VerificationError(
                f"{self._path}: reduction {found.repeat} of state {found.state} differs from what was "
                f"written in {where}: origin {found.box.origin}, extent {found.box.extent}"
            )


def plane_truth(values: Values, axis: int, boxes: Sequence[Box], nothing: Moments) -> Moments:
    """Return what is found of every plane along `axis` that a box touches, from the values themselves.

    It is like `nothing`, which is found of nothing yet.
    """
    planes = values.shape[axis]
    wanted = np.zeros(planes, bool)
    for box in boxes:
        wanted[box.origin[axis] : box.origin[axis] + box.extent[axis]] = True
    truth = nothing.like(planes)
    plane_bytes = math.prod(values.shape) // planes * values.dtype.itemsize
    step = max(1, TRUTH_BYTES // plane_bytes)

    def fill(first: int) -> None:
        count = min(step, planes - first)
        origin, extent = [0] * len(values.shape), list(values.shape)
        origin[axis], extent[axis] = first, count
        truth.planes(first, count).exact(values.block(origin, extent), axis)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, [at for at in range(0, planes, step) if wanted[at : at + step].any()]))
    return truth


def _opened_cold(context: Context, repeats: Repeats) -> tuple[float, Row]:
    """Evict, open everywhere, and check that no data came with it: (resident share, columns of opening)."""
    cold(repeats.team.evict(), context.memory_resident)
    opening = opened_everywhere(context, repeats.team)
    size = context.artifact.bytes()
    return still_cold(repeats.team.resident(), size, context.memory_resident, "workers"), opening


def _fetched(context: Context, team: Team, box: Box) -> Row:
    """Copy all files once, or in every worker what it needs; returns the columns of that."""
    by_each = context.specification["case"]["fetch"] == EACH
    if by_each:
        team.prepare(Fetch(box))
    wire = Wire(context.artifact)
    started = perf_counter_ns()
    if by_each:
        team.go()
    else:
        context.artifact.fetch()
    stopped = perf_counter_ns()
    if by_each:
        team.results()
    return {"fetch_s": (stopped - started) / 1e9, **wire.selection({})}


def _each_on_a_cold_file(context: Context, repeats: Repeats, state: str, boxes: Sequence[Box]) -> None:
    """Evict, open in every worker, reduce once, close; where a copy is read, copy before opening."""
    name, team, case = context.called(state), repeats.team, context.specification["case"]
    fetches = bool(case.get("fetch"))
    # A plain read of all files has a meaning beside a reduction of all that is in them.
    beside = case.get("beside") == PLAIN and not fetches and context.layout.abilities.pages
    for repeat, box in enumerate(boxes):
        # In turn before and after it, over rounds of one repeat, too.
        first = (repeat + int(context.specification["round"][1:])) % 2 == 0
        plainly = _plain(context) if beside and first else {}
        if fetches:
            cold(team.evict(), context.memory_resident)
            # The copy that is reduced was just written, and its pages are not counted.
            share = None
            fetched = _fetched(context, team, box)
            row = repeats.reduce(box, name, repeat, {"open_s": team.command("open")})
            # What passes on the wire passes then.
            row.update(fetched)
        else:
            share, opening = _opened_cold(context, repeats)
            row = repeats.reduce(box, name, repeat, opening)
        row.update(close_s=team.command("close"), resident_before=share, resident_after=team.resident())
        row |= _plain(context) if beside and not first else plainly
        if fetches:
            context.artifact.drop_fetched()


def _plain(context: Context) -> Row:
    """Evict, and read all files plainly, on this node; what serves them is not asked, and stays as it is."""
    cache = NodeCache(context.artifact, context.memory_resident)
    try:
        cold(cache.evict(serving=False), context.memory_resident)
    except NotInState:
        # Who reports of the data asks what serves them.
        context.artifact.restart()
        raise
    finally:
        cache.close()
    return {"plain_read_s": plain.read(context.artifact)}


def _on_open_files(context: Context, repeats: Repeats, state: str, boxes: Sequence[Box]) -> None:
    """Time all reductions in order on files that stay open:
    "warm" (first filled) or "session" (first evicted).
    """
    if state == "warm":
        warm(repeats.team.fill(), context.memory_resident)
        opening = opened_everywhere(context, repeats.team)
        # Many FUSE file systems drop the cached pages whenever a file is opened.
        share = warm(repeats.team.fill(), context.memory_resident)
        if context.artifact.remembers:
            for box in boxes:
                ask(repeats.team, box)
    else:
        share, opening = _opened_cold(context, repeats)
    for repeat, box in enumerate(boxes):
        row = repeats.reduce(box, state, repeat, None if repeat else opening)
        row["resident_before"] = share
        share = row["resident_after"] = repeats.team.resident()
    row["close_s"] = repeats.team.command("close")


# As for selections: the newly written file, still in the page cache, need not be read again to be warm.
STATES = {"warm": _on_open_files, "session": _on_open_files, "cold": _each_on_a_cold_file}


def measure(context: Context, team: Team) -> tuple[list[Row], dict[str, str]]:
    """Return the rows of every state with this team, verified, and why which states could not be had."""
    spec = context.specification
    repeats = Repeats(context, team)

    def run_state(state: str) -> None:
        # The same runs of planes whatever the number of workers: the cases of a family are compared.
        boxes = list(islice(asked_boxes(spec, state), spec["repeats"][state]))
        with closed_out_of_state(team):
            STATES[state](context, repeats, state, boxes)

    skipped = each_state(spec["case"]["states"], STATES, run_state, repeats.rows)
    repeats.verify(context.values)
    return repeats.rows, skipped


def _selections(context: Context, division: Division, box: Box) -> Iterator[Box]:
    """Yield what workers ask for: each its part, or its pieces where the library forgets what it read."""
    for index in range(division.workers):
        if context.layout.abilities.forgets:
            yield from division.pieces(box, index)
        else:
            yield division.part(box, index)


def with_predictions(context: Context, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows with what arithmetic says: chunks of the selection, those read twice,
    bytes requested.
    """
    spec = context.specification
    division = Division.of(spec)
    stored = context.format.stored_sizes(context.path, spec)
    cores = machine.physical_cores()
    for row in rows:
        box = Box(tuple(row["origin"]), tuple(spec["case"]["extent"]))
        predicted = context.format.predict(box, spec, stored)
        row["chunks_touched"] = predicted["chunks_touched"]
        row["chunk_bytes"] = predicted["chunk_bytes"]
        if "files_touched" in predicted:
            row["files_touched"] = predicted["files_touched"]
        if not spec["case"].get("fetch"):
            row |= kernel_apart(context, row)
        # A task that Dask deals to whoever is free is cut along chunks; own parts may not be.
        dealt = spec["case"]["by"] == "dask" and spec["case"].get("fetch") != EACH
        row["chunks_shared"] = 0 if dealt else division.chunks_shared(box)
        row.setdefault("physical_cores", cores)
        if row["state"] in COLD_STATES and spec["case"]["by"] == "processes":
            # Each worker has a library, so an index and caches, of its own.
            asked = _selections(context, division, box)
            parts = [context.format.predict(one, spec, stored) for one in asked]
            # A server reads for all of them what it keeps for one, if it keeps it so long.
            shared = context.artifact.remembers and spec["case"]["workers"] > 1
            row["requested_predicted_bytes"] = (
                math.nan if shared else sum(part["requested"] for part in parts)
            )
            if all("requested_reads" in part for part in parts):
                row["requested_predicted_reads"] = sum(part["requested_reads"] for part in parts)
        yield row


def _team(context: Context) -> OwnTeam:
    """Return the workers that a cell asks for: processes of this one, or those of a Dask cluster."""
    spec, artifact = context.specification, context.artifact
    source = Source.of(spec, artifact)
    if spec["case"]["by"] == "dask":
        # Only the environment of such cells has the package.
        from hyperslab.cases.reduce.dask_workers import DaskTeam

        return DaskTeam(source, artifact, context.memory_resident)
    return Processes(source, artifact, context.memory_resident)


def run(context: Context) -> Outcome:
    """Measure every state of a reduction; raises VerificationError,
    or ChildProcessError where a worker fails.
    """
    if context.specification["case"]["by"] == "ranks":
        done = launch.ranks(context, RANKS)
        rows, skipped, memory, versions = (
            done[key] for key in ("rows", "skipped", "memory_bytes", "versions")
        )
    else:
        team = _team(context)
        try:
            rows, skipped = measure(context, team)
            memory = team.end()
        finally:
            team.kill()
        versions = team.versions
        for row in rows:
            row["physical_cores"] = machine.physical_cores() * len(team.nodes)
            row["nodes"] = " ".join(team.nodes)
    report = context.format.report(context.path, context.specification)
    return Outcome(list(with_predictions(context, rows)), report, skipped, memory, versions)
