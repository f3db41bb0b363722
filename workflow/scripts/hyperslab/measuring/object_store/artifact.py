"""A test artifact in an object store: its data are written here, put into a bucket, and read from there.

What the site's store is, the root's marker says. Clients see nothing but the gateway that it starts.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from hyperslab.measuring.artifact import Artifact, make_directory
from hyperslab.measuring.counters import on_wire
from hyperslab.measuring.parent import end_with_parent
from hyperslab.sites import roots

# Attempts at one request, the first included, and about how long all of them may take.
ATTEMPTS, PATIENCE_SECONDS = 4, 60
# Objects that are put at once, and bytes of a part of a large one.
AT_ONCE, PART_BYTES = 8, 16 * 2**20
# How long a gateway may take to remove what the cell has put into the bucket.
END_SECONDS = 120
# Packages whose errors are those of the store, and how far one may lie behind another's.
CLIENTS = ("obstore", "botocore", "aiobotocore", "aiohttp")
LONGEST_CHAIN = 20
# Variables that clients would take instead of what they are told.
OURS = ("AWS_",)


@dataclass(frozen=True)
class Address:
    """Where the data of one artifact lie: an endpoint on loopback, and the key with which clients sign."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    key: str
    secret: str

    def store(self, below: str = "") -> Any:
        """Return a new client of obstore's for what lies below the prefix, with connections of its own."""
        from obstore.store import S3Store

        return S3Store(
            self.bucket,
            prefix=self.prefix + below,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.key,
            secret_access_key=self.secret,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": f"{PATIENCE_SECONDS}s"},
            retry_config={
                "max_retries": ATTEMPTS - 1,
                "retry_timeout": timedelta(seconds=PATIENCE_SECONDS),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=2),
                    "base": 2,
                },
            },
        )


# Of artifacts whose gateways run, by their data: formats know no more than a path.
_addresses: dict[Path, Address] = {}


def _meet(data: Path, address: Address) -> None:
    _addresses[data] = address


def address_of(path: str | Path) -> Address:
    """Return where the data of an artifact lie; raises FileNotFoundError where no gateway runs for it."""
    try:
        return _addresses[Path(path)]
    except KeyError:
        raise FileNotFoundError(f"{path}: the object store of this artifact is not reached yet") from None


def objects_of(path: str | Path) -> dict[str, int]:
    """Return the bytes of every object of an artifact's in its bucket, by its name.

    Raises OSError where the store refuses, FileNotFoundError where no gateway runs for the artifact.
    """
    address = address_of(path)
    import obstore
    from obstore.exceptions import BaseError

    try:
        return {one["path"]: one["size"] for page in obstore.list(address.store()) for one in page}
    except BaseError as error:
        raise told(error) from None


class StoredArtifact(Artifact):
    """Data that lie here while they are written, and in a bucket when they are read.

    `alias` is a name that clients have for a bucket of their own, and what of the data they find in it.
    """

    def __init__(self, data: str | Path, alias: tuple[str, str] | None = None) -> None:
        super().__init__(data)
        self._gateway: subprocess.Popen[str] | None = None
        self._alias = alias

    def files(self) -> list[Path]:
        """Return nothing: no reader opens what lies here, so the page cache has no part in it."""
        return []

    def bytes(self) -> int:
        """Return the bytes of all objects, which are those of the files that were put."""
        return sum(file.stat().st_size for file in super().files())

    def fsync(self) -> None:
        """Do nothing: the files here are only on their way."""

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

        store, before = address.store(), self.wire()
        started = perf_counter_ns()
        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                put = partial(obstore.put, store, chunk_size=PART_BYTES, max_concurrency=AT_ONCE)
                list(pool.map(put, files, files.values()))
            seconds = (perf_counter_ns() - started) / 1e9
            passed = on_wire(before, self.wire())
        except BaseError as error:
            raise told(error) from None
        if objects_of(self.data) != {key: file.stat().st_size for key, file in files.items()}:
            raise OSError(f"{self.data}: the store holds other objects than were put into it")
        assert passed is not None
        return {
            "upload_s": seconds,
            "upload_requests": passed.requests,
            "upload_bytes": passed.received,
        }

    def introduction(self) -> Callable[[], None]:
        """Return what tells another process of this node where the data lie."""
        return partial(_meet, self.data, self._reached())

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

    def clear(self) -> None:
        """Remove the data here and in the bucket."""
        super().clear()
        if self._gateway is not None:
            self._asked("remove")

    def stop(self) -> None:
        """Have the gateway remove what is in the bucket and end, and with it a store that was started."""
        if self._gateway is None:
            return
        gateway, self._gateway = self._gateway, None
        _addresses.pop(self.data, None)
        assert gateway.stdin is not None and gateway.stdout is not None
        gateway.stdin.close()
        try:
            gateway.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()
        gateway.stdout.close()

    def _asked(self, what: str) -> dict[str, int]:
        gateway = self._gateway
        assert gateway is not None and gateway.stdin is not None and gateway.stdout is not None
        try:
            gateway.stdin.write(json.dumps({"do": what}) + "\n")
            gateway.stdin.flush()
        except BrokenPipeError:
            raise ConnectionError("the gateway to the object store has ended") from None
        return _answer(gateway)

    def _reached(self) -> Address:
        """Return where the data go, with a gateway that has seen the store answer; raises OSError."""
        if self.data in _addresses:
            return _addresses[self.data]
        root = Path(roots.root_of(self.directory))
        described = roots.read(str(root)).store
        if described is None:
            raise OSError(f"{root} is that of a file system; this layout needs an object store")
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
        told = {**task, "prefix": prefix, "key": key, "parent": os.getpid(), "alias": self._alias}
        assert self._gateway.stdin is not None
        self._gateway.stdin.write(json.dumps(told) + "\n")
        self._gateway.stdin.flush()
        port = _answer(self._gateway)["port"]
        for name in [name for name in os.environ if name.startswith(OURS)]:
            # No client of this process has a use for the store's own credentials.
            del os.environ[name]
        found = Address(
            f"http://127.0.0.1:{port}", described["region"], described["bucket"], prefix, key, secret
        )
        _addresses[self.data] = found
        return found


def _answer(gateway: subprocess.Popen[str]) -> dict[str, int]:
    """Return what a gateway answers; raises ConnectionError with its own words where it cannot go on."""
    assert gateway.stdout is not None
    line = gateway.stdout.readline()
    if not line:
        raise ConnectionError("the gateway to the object store has ended")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise ConnectionError(answer["error"])
    return answer


def told(error: BaseException) -> OSError:
    """Return an error of a client's as one of the store, in one line.

    obstore's go on with how its own code came there, others come wrapped in that of whoever asked.
    """
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(
        causes
    ) < LONGEST_CHAIN:
        causes.append(cause)
    known = [one for one in causes if type(one).__module__.partition(".")[0] in CLIENTS]
    chosen = known[0] if known else error
    said = next((line.strip() for line in str(chosen).splitlines() if line.strip()), "")
    return OSError(f"the object store: {type(chosen).__name__}: {said}")
