"""A test artifact in an object store: its data are written here, put into a bucket, and read from there.

What the site's store is, the root's marker says. Clients see nothing but the gateway that it starts.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import connection
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from hyperslab.measuring.artifact import Artifact, await_servers, end_servers, make_directory
from hyperslab.measuring.counters import on_wire
from hyperslab.measuring.object_store import control
from hyperslab.measuring.object_store.address import (
    AT_ONCE,
    ENDED,
    PATIENCE_SECONDS,
    Address,
    address_of,
    left,
    objects_of,
    reached,
    told,
)
from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.syncing import fsync
from hyperslab.sites import roots

# Bytes of a part of a large object, and how many parts a store takes of one (Amazon S3, "Multipart limits").
PART_BYTES, MOST_PARTS = 16 * 2**20, 10_000
# How long a gateway may take to remove what the cell has put into the bucket, each object by a request.
END_SECONDS = 3600
# The same where a signal ends the cell, and between two looks: with its cell a job of Slurm's may end, which
# kills all that is left of it.
SIGNALLED_SECONDS, LOOK_SECONDS = 60.0, 0.05
# Variables that clients would take instead of what they are told.
OURS = ("AWS_",)
# Where a store that is started keeps files of its own, beside the data.
STORE = "store"


class StoredArtifact(Artifact):
    """Data that lie here while they are written, and in a bucket when they are read.

    `alias` is a name that clients have for a bucket of their own, and what of the data they find in it.
    """

    def __init__(self, data: str | Path, alias: tuple[str, str] | None = None) -> None:
        super().__init__(data)
        self._gateway: subprocess.Popen[str] | None = None
        self._alias = alias
        # What the site says of its store.
        self._site: Mapping[str, Any] = {}

    def files(self) -> list[Path]:
        """Return the files of a store that keeps its objects here, whose pages are evicted.

        Nothing where there are none: no reader opens what lies here by itself.
        """
        return [file for file in (self.directory / STORE).rglob("*") if file.is_file()]

    def bytes(self) -> int:
        """Return the bytes of all objects, which are those of the files that were put."""
        return sum(file.stat().st_size for file in super().files())

    def fsync(self) -> None:
        """Do nothing: the files here are only on their way."""

    def write_back(self) -> None:
        """Have no page dirty of the files in which a store that lies here keeps its objects."""
        for file in self.files():
            fsync(file)

    def upload(self) -> dict[str, float]:
        """Put the data into the bucket; returns seconds, requests and bytes of it, nothing without data.

        Raises OSError where the store refuses, or holds other sizes afterwards.
        """
        address = self._reached()
        files = dict(self._files_to_put())
        if not files:
            return {}
        import obstore
        from obstore.exceptions import BaseError

        sizes = {key: file.stat().st_size for key, file in files.items()}
        patience_s = patience_seconds(self._site["bandwidth"], part_bytes(max(sizes.values())))
        store, before = replace(address, patience_s=patience_s).store(), self.wire()
        # Parts of all files together: what waits behind others on a slow line is given up in the end.
        at_once = max(1, AT_ONCE // len(files))

        def put(key: str) -> None:
            part = part_bytes(sizes[key])
            obstore.put(store, key, files[key], chunk_size=part, max_concurrency=at_once)

        started = perf_counter_ns()
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(put, files))
            passed = on_wire(before, self.wire())
            there = objects_of(self.data)
            # As of writes: who puts something sees that it is there.
            seconds = (perf_counter_ns() - started) / 1e9
        except BaseError as error:
            raise told(error) from None
        if there != sizes:
            raise OSError(f"{self.data}: the store holds other objects than were put into it")
        assert passed is not None
        return {"upload_s": seconds, **passed.upload_columns()}

    def introduction(self) -> Callable[[], None]:
        """Return what tells another process of this node where the data lie."""
        return partial(reached, self.data, replace(self._reached(), ended=_unknown))

    def fetch(self, by: int | None = None, names: Sequence[str] | None = None) -> None:
        """Copy all objects, in parts at once, to where whoever computes reads them as files.

        `by` and `names` as for files. Raises OSError where the store refuses, or an object is shorter than
        what was put.
        """
        address, target = self._reached(), self.fetched(by).data
        wanted = None if names is None else {self.data / name for name in names}
        import obstore
        from obstore.exceptions import BaseError

        store, data = address.store(), self.data.relative_to(self.directory)

        def get(part: tuple[str, Path, int, int]) -> None:
            key, file, start, length = part
            content = obstore.get_range(store, key, start=start, length=length)
            if len(content) != length:
                raise OSError(f"the object store: of {key} came {len(content):,} bytes of {length:,}")
            with file.open("r+b") as opened:
                opened.seek(start)
                opened.write(content)

        parts = []
        for key, source in self._files_to_put():
            if wanted is not None and source not in wanted:
                continue
            file = target / Path(key).relative_to(data)
            make_directory(file.parent)
            size = source.stat().st_size
            with file.open("wb") as opened:
                opened.truncate(size)
            parts += [(key, file, at, min(PART_BYTES, size - at)) for at in range(0, size, PART_BYTES)]
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(get, parts))
        except BaseError as error:
            raise told(error) from None

    def _files_to_put(self) -> Iterator[tuple[str, Path]]:
        """Yield the name of each object below the prefix, and the file that it is made of."""
        if self.data.exists():
            for file in super().files():
                yield file.relative_to(self.directory).as_posix(), file

    def wire(self) -> Mapping[str, int]:
        """Return what has passed the gateway so far."""
        return self._asked("counts")

    def listed(self) -> set[str]:
        """Return the names of what lies below that of the data in the bucket, as a new client is told them.

        Raises OSError where the store refuses.
        """
        address = self._reached()
        import obstore
        from obstore.exceptions import BaseError

        try:
            found = obstore.list_with_delimiter(address.store(f"{address.name_of(self.data)}/"))
        except BaseError as error:
            raise told(error) from None
        names = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return {name.rstrip("/").rpartition("/")[2] for name in names}

    def control(self, pairs: int = control.PAIRS) -> dict[str, float]:
        """Return columns of what the gateway itself costs, none where that cannot be told.

        By so many `pairs` of requests. Raises ConnectionError where there is no gateway to be had.
        """
        address = self._reached()
        try:
            signed = self._asked("control")
        except ConnectionError:
            return {}
        try:
            return control.columns(
                lambda size: control.Way(*signed[str(size)]), partial(_through, address), self._delay, pairs
            )
        finally:
            with suppress(ConnectionError):
                self._asked("control ended")

    def _delay(self, size: int) -> float:
        """Return the seconds by which the site holds back an object of `size` bytes."""
        line = size / self._site["bandwidth"] if self._site["bandwidth"] else 0.0
        return float(self._site["latency_ms"]) / 1e3 + line

    def clear(self) -> None:
        """Remove the data here and in the bucket."""
        super().clear()
        if self._gateway is not None:
            self._asked("remove")

    def stop(self) -> None:
        """Have the gateway remove what is in the bucket and end, and with it a store that was started."""
        if (gateway := self._gateway) is None:
            return
        left(self.data)
        assert gateway.stdin is not None and gateway.stdout is not None
        # What it was last asked may still wait to be sent to one that has ended.
        with suppress(BrokenPipeError):
            gateway.stdin.close()
        try:
            gateway.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()
            place = f"bucket {self._site['bucket']} below {self._site['prefix']}"
            print(f"what was put into {place} may be there: its gateway does not end", file=sys.stderr)
        gateway.stdout.close()
        self._gateway = None
        end_servers.remove(self._tell_end)
        await_servers.remove(self._await_end)

    def _tell_end(self) -> None:
        """Tell the gateway to end; may interrupt whatever this process does, so that it takes no lock."""
        if self._gateway is not None and self._gateway.stdin is not None:
            # Closed already where `stop` was interrupted.
            with suppress(OSError, ValueError):
                os.close(self._gateway.stdin.fileno())

    def _await_end(self) -> None:
        """Wait a while until it has removed what is in the bucket; may interrupt as well."""
        deadline = time.monotonic() + SIGNALLED_SECONDS
        # Nor is it a child any more where `stop` has waited for it.
        with suppress(ChildProcessError):
            while self._gateway is not None and time.monotonic() < deadline:
                if os.waitid(os.P_PID, self._gateway.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return
                time.sleep(LOOK_SECONDS)

    def _asked(self, what: str) -> dict[str, Any]:
        gateway = self._gateway
        assert gateway is not None and gateway.stdin is not None and gateway.stdout is not None
        try:
            gateway.stdin.write(json.dumps({"do": what}) + "\n")
            gateway.stdin.flush()
        except BrokenPipeError:
            raise ConnectionError(ENDED) from None
        return _answer(gateway)

    def _reached(self) -> Address:
        """Return where the data go, with a gateway that has seen the store answer; raises OSError."""
        with suppress(FileNotFoundError):
            # Another process of this node may have told of a gateway that is not this one's.
            return address_of(self.data)
        root = Path(roots.root_of(self.directory))
        described = roots.read(str(root)).store
        if described is None:
            raise OSError(f"{root} is that of a file system; this layout needs an object store")
        self._site = described
        prefix = f"{described['prefix']}{self.directory.relative_to(root).as_posix()}/"
        key, secret = secrets.token_hex(16), secrets.token_hex(16)
        names = ("start", "endpoint", "region", "bucket", "latency_ms", "bandwidth")
        task = {name: described[name] for name in names}
        search = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
        self._gateway = subprocess.Popen(
            [sys.executable, "-m", "hyperslab.measuring.object_store.gateway"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))},
            # Not killed: it removes what the cell has put into the bucket, and ends.
            preexec_fn=partial(end_with_parent, os.getpid(), 15),
        )
        end_servers.append(self._tell_end)
        await_servers.append(self._await_end)
        own = {"prefix": prefix, "key": key, "alias": self._alias, "directory": str(self.directory / STORE)}
        assert self._gateway.stdin is not None
        self._gateway.stdin.write(json.dumps({**task, **own}) + "\n")
        self._gateway.stdin.flush()
        port = _answer(self._gateway)["port"]
        for name in [name for name in os.environ if name.startswith(OURS)]:
            # No client of this process has a use for the store's own credentials.
            del os.environ[name]
        found = Address(
            f"http://127.0.0.1:{port}", described["region"], described["bucket"], prefix, self.directory, key,
            secret, partial(_ended, self._gateway), patience_seconds(described["bandwidth"]),
        )  # fmt: skip
        reached(self.data, found)
        return found


def part_bytes(size: int) -> int:
    """Return the bytes of a part of an object of `size` bytes, of which a store takes only so many."""
    return max(PART_BYTES, -(-size // MOST_PARTS))


def patience_seconds(bandwidth: int | None, part: int = PART_BYTES) -> float:
    """Return how long a request may stand still on a line of so many bytes a second, beside others at once.

    Each `part` that is put stands still until the store has all of it.
    """
    return max(PATIENCE_SECONDS, 2 * AT_ONCE * part / bandwidth) if bandwidth else PATIENCE_SECONDS


def _unknown() -> bool:
    """Return False: another process than that which started a gateway is not told that it has ended."""
    return False


def _ended(gateway: subprocess.Popen[str]) -> bool:
    """Return whether a gateway that was asked nothing has ended: its answers are at their end."""
    return bool(gateway.stdout and connection.wait([gateway.stdout.fileno()], 0))


def _through(address: Address, size: int) -> control.Way:
    """Return the way through a gateway to an object of its control."""
    signed = {"Authorization": f"AWS4-HMAC-SHA256 Credential={address.key}/"}
    where = f"{address.endpoint}/{address.bucket}/{address.prefix}{control.name(size)}"
    return control.Way(where, signed)


def _answer(gateway: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a gateway answers; raises ConnectionError with its own words where it cannot go on."""
    assert gateway.stdout is not None
    line = gateway.stdout.readline()
    if not line:
        raise ConnectionError(ENDED)
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise ConnectionError(answer["error"])
    return answer
