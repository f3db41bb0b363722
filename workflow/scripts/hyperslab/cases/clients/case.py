"""Several clients at once: requests a second, how long each waits, how even. Stopwatch: `Repeats.timed`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np

from hyperslab.cases.clients.requests import Client, asked
from hyperslab.cases.context import Context, Outcome, VerificationError
from hyperslab.cases.opened import ask, closed_out_of_state, opened_everywhere
from hyperslab.cases.states import each_state
from hyperslab.cases.timed_selections import digest
from hyperslab.cases.wire import Wire, kernel_apart, of_clients
from hyperslab.data.selections import Box
from hyperslab.measuring import machine
from hyperslab.measuring.counters import OF_READS, Counters, between, of_servers
from hyperslab.measuring.residency import NodeCache
from hyperslab.measuring.workers import Workers
from hyperslab.records import Row

P95 = 0.95


class Repeats:
    """Timed runs of all requests of one cell by one team of clients."""

    def __init__(self, context: Context, clients: Workers) -> None:
        self._context, self._clients = context, clients
        self._servers = Counters(itself=False)
        self._stored = context.format.stored_sizes(context.path, context.specification)
        self.rows: list[Row] = []
        self._given: list[tuple[str, int, list[Box], dict[int, bytes], set[int]]] = []

    def timed(self, requests: list[Box], state: str, repeat: int, opening: Row | None = None) -> Row:
        """Measure one run of all requests, from the release of the clients until the last of them is done.

        Between two requests a client digests what it got, which is in the time of the run and in no latency.
        `opening` are the columns of opening the array everywhere, where that was done for this run.
        """
        self._servers.follow(self._context.artifact.processes())
        self._clients.prepare(requests)
        wire = Wire(self._context.artifact, itself=False)
        before = self._servers.read()
        started = perf_counter_ns()
        self._clients.go()
        stopped = perf_counter_ns()
        after = self._servers.read()
        results: list[Mapping[str, Any]] = [*self._clients.results()]
        digests = {number: one for result in results for number, one in result["digests"]}
        refused = {number for result in results for number in result["refused"]}
        self._given.append((state, repeat, requests, digests, refused))
        row: Row = {
            "state": state,
            "repeat": repeat,
            "time_s": (stopped - started) / 1e9,
            "processes": len(results),
            "physical_cores": machine.physical_cores(),
            **of_requests(results),
            **self._predicted([box for number, box in enumerate(requests) if number not in refused]),
            **of_servers(before, after, itself=False),
            **(opening or {}),
        }
        served = between(before, after, itself=False)
        row |= {name: int(served[name] + sum(result[name] for result in results)) for name in OF_READS}
        row |= wire.selection(row) | of_clients(results, opening)
        if memory := self._context.artifact.memory_bytes():
            row["server_memory_bytes"] = memory
        row = kernel_apart(self._context, row)
        self.rows.append(row)
        return row

    def _predicted(self, requests: Sequence[Box]) -> Row:
        """Return what arithmetic says of all requests together that were answered."""
        spec = self._context.specification
        each = [self._context.format.predict(box, spec, self._stored) for box in requests]
        itemsize = self._context.values.dtype.itemsize
        return {
            "asked_bytes": sum(math.prod(box.extent) for box in requests) * itemsize,
            "chunks_touched": sum(one["chunks_touched"] for one in each),
            "chunk_bytes": sum(one["chunk_bytes"] for one in each),
        }

    def verify(self) -> None:
        """Compare every answer with the truth; raises VerificationError naming the first that differs."""
        values = self._context.values
        with ThreadPoolExecutor(2) as pool:
            for state, repeat, requests, digests, refused in self._given:
                right = pool.map(lambda box: digest(values.block(box.origin, box.extent)), requests)
                for number, (box, expected) in enumerate(zip(requests, right, strict=True)):
                    if number not in refused and digests.get(number) != expected:
                        raise VerificationError(
                            f"{self._context.path}: request {number} of run {repeat}, state {state}, differs "
                            f"from what was written: origin {box.origin}, extent {box.extent}"
                        )


def of_requests(results: Sequence[Mapping[str, Any]]) -> Row:
    """Return the columns of a run's requests: how many were answered, latencies, errors, fairness.

    `fairness` is the rate of the fastest client over that of the slowest: 1 where all were served alike.
    """
    latencies = np.array([seconds for result in results for _, seconds in result["latencies"]])
    rates = [len(result["latencies"]) / result["seconds"] for result in results]
    return {
        "requests": len(latencies),
        "answer_median_s": float(np.median(latencies)),
        "answer_p95_s": float(np.quantile(latencies, P95)),
        "answer_max_s": float(latencies.max()),
        "fairness": max(rates) / min(rates),
        "errors": int(sum(result["errors"] for result in results)),
        "refused": int(sum(len(result["refused"]) for result in results)),
    }


def _warm(repeats: Repeats, context: Context, clients: Workers, cache: NodeCache) -> None:
    """Time runs of requests of which each was made before, on open connections."""
    cache.filled()
    opening: Row | None = opened_everywhere(context, clients)
    share = cache.filled()
    for repeat in range(context.specification["repeats"]["warm"]):
        requests = asked(context.specification, "warm", repeat)
        ask(clients, requests)
        row = repeats.timed(requests, "warm", repeat, opening)
        row["resident_before"], share = share, cache.resident()
        row["resident_after"] = share
        opening = None
    row["close_s"] = clients.command("close")


def _cold(repeats: Repeats, context: Context, clients: Workers, cache: NodeCache) -> None:
    """Time runs that begin with nothing in memory, of server and node; what was asked for stays in it."""
    name = context.called("cold")
    for repeat in range(context.specification["repeats"]["cold"]):
        share = cache.evicted()
        requests = asked(context.specification, "cold", repeat)
        row = repeats.timed(requests, name, repeat, opened_everywhere(context, clients))
        row.update(close_s=clients.command("close"), resident_before=share, resident_after=cache.resident())


STATES = {"warm": _warm, "cold": _cold}


def run(context: Context) -> Outcome:
    """Measure every state; raises VerificationError, or ChildProcessError where a client fails for good."""
    spec = context.specification
    cache = NodeCache(context.artifact, context.memory_resident)
    known = context.artifact.introduction()
    clients = Workers(
        Client, [(spec, context.path, index, known) for index in range(spec["case"]["workers"])]
    )
    repeats = Repeats(context, clients)

    def measure(state: str) -> None:
        with closed_out_of_state(clients):
            STATES[state](repeats, context, clients, cache)

    try:
        skipped = each_state(spec["case"]["states"], STATES, measure, repeats.rows)
        repeats.verify()
        memory = clients.end()
    finally:
        clients.kill()
        cache.close()
    report = context.format.report(context.path, spec)
    return Outcome(repeats.rows, report, skipped, memory)
