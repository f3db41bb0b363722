"""The clients through which HDF5 reads an object: s3fs with fsspec's caches, obstore, and its own driver."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import h5py
from h5py import h5fd, h5p

from hyperslab.formats import Unavailable
from hyperslab.layouts.s3_access import MODULES
from hyperslab.measuring.object_store.address import ATTEMPTS, Address

# How long a client may take to close its connections.
LET_GO_SECONDS = 10
NO_ROS3 = (
    "access: this build of h5py has no ros3 (h5py.get_config().ros3), and its wheels have none; take s3fs or "
    "obstore, or an h5py of an HDF5 that was built with it"
)


class Client(ABC):
    """A client of a store that is new: it has neither connections nor listings of an older one."""

    @abstractmethod
    def put_driver(self, access: h5p.PropFAID, path: str) -> tuple[bytes, Callable[[], None]]:
        """Have HDF5 read the object made of the file `path` by this client: set a property list's driver.

        Returns the name under which HDF5 is to open it, and what closes what was opened for that.
        """

    @abstractmethod
    def close(self) -> None:
        """Let its connections go."""


class OfFiles(Client):
    """A client that gives an object as a file of Python's, which h5py reads."""

    @abstractmethod
    def file(self, key: str) -> Any:
        """Return the object of this name behind the prefix as an open file."""

    def __init__(self, address: Address, access: Mapping[str, Any]) -> None:
        self._address, self._access = address, access

    def put_driver(self, access: h5p.PropFAID, path: str) -> tuple[bytes, Callable[[], None]]:
        """Have HDF5 read through h5py's driver of file objects."""
        key = self._address.name_of(path)
        file = WholeReads(self.file(key), key)
        access.set_fileobj_driver(h5fd.fileobj_driver, file)
        return f"{self._address.bucket}/{self._address.prefix}{key}".encode(), file.close


class WholeReads:
    """What h5py's driver needs of an open file; a read raises OSError where less comes than was asked for.

    The driver itself would go on with whatever its buffer held before.
    """

    def __init__(self, file: Any, key: str) -> None:
        self.seek, self.tell, self.close = file.seek, file.tell, file.close
        self._readinto = getattr(file, "readinto", None) or partial(_read_into, file)
        self._key = key

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer with what is next; returns its size in bytes."""
        count: int = self._readinto(buffer)
        if count != buffer.nbytes:
            raise OSError(f"of {self._key} came {count:,} bytes of {buffer.nbytes:,}")
        return count


def _read_into(file: Any, buffer: memoryview) -> int:
    """Do so by `read`, of a file that has nothing else; returns the number of bytes."""
    content = memoryview(file.read(buffer.nbytes))
    buffer[: content.nbytes] = content
    return content.nbytes


class S3fs(OfFiles):
    """s3fs, with one of fsspec's caches."""

    def __init__(self, address: Address, access: Mapping[str, Any]) -> None:
        super().__init__(address, access)
        import s3fs

        # Botocore tries so often, and s3fs each of its calls.
        half = round(ATTEMPTS**0.5)
        self._client = s3fs.S3FileSystem(
            key=address.key,
            secret=address.secret,
            endpoint_url=address.endpoint,
            client_kwargs={"region_name": address.region},
            config_kwargs={"s3": {"addressing_style": "path"}, "retries": {"total_max_attempts": half}},
            skip_instance_cache=True,
            use_listings_cache=False,
        )
        self._client.retries = half

    def file(self, key: str) -> Any:
        """Return an object as an open file, with the cache that the layout names."""
        own = {"cache": "cache_type", "block_bytes": "block_size"}
        options = {own[name]: value for name, value in self._access.items() if name in own}
        return self._client.open(f"{self._address.bucket}/{self._address.prefix}{key}", "rb", **options)

    def close(self) -> None:
        """Close its connections."""
        from fsspec.asyn import sync
        from fsspec.exceptions import FSTimeoutError

        # It has none where it was asked nothing.
        if (connected := self._client._s3) is not None:
            with suppress(FSTimeoutError):
                sync(self._client.loop, connected.__aexit__, None, None, None, timeout=LET_GO_SECONDS)


class Obstore(OfFiles):
    """obstore, in Rust, with a buffer in front of each file."""

    def __init__(self, address: Address, access: Mapping[str, Any]) -> None:
        super().__init__(address, access)
        self._store = address.store()

    def file(self, key: str) -> Any:
        """Return an object as an open file, with the buffer that the layout names."""
        import obstore

        options = {"buffer_size": self._access["block_bytes"]} if "block_bytes" in self._access else {}
        return obstore.open_reader(self._store, key, **options)

    def close(self) -> None:
        """Do nothing: they go with it."""


class Ros3(Client):
    """HDF5's own driver, which reads by ranges; from 1.14.3 on it first gets, and keeps, 16 MiB of a file."""

    def __init__(self, address: Address, _: Mapping[str, Any]) -> None:
        self._address = address

    def put_driver(self, access: h5p.PropFAID, path: str) -> tuple[bytes, Callable[[], None]]:
        """Have HDF5 read by itself; raises Unavailable where it was built without that."""
        if not has_ros3():
            raise Unavailable(NO_ROS3)
        address = self._address
        region, key, secret = (one.encode() for one in (address.region, address.key, address.secret))
        access.set_fapl_ros3(region, key, secret)
        where = f"{address.endpoint}/{address.bucket}/{address.prefix}{address.name_of(path)}"
        return where.encode(), lambda: None

    def close(self) -> None:
        """Do nothing: they are HDF5's."""


def has_ros3() -> bool:
    """Return whether this build of HDF5 has the driver."""
    return bool(h5py.get_config().ros3)


# name in a layout -> the client
CLIENTS: dict[str, Callable[[Address, Mapping[str, Any]], Client]] = {
    "s3fs": S3fs,
    "obstore": Obstore,
    "ros3": Ros3,
}


def load(access: Mapping[str, Any]) -> None:
    """Import what the client of a layout needs, so that no stopwatch measures it; raises Unavailable."""
    importlib.import_module(MODULES[access["through"]])
    if access["through"] == "ros3" and not has_ros3():
        raise Unavailable(NO_ROS3)


def new(address: Address, access: Mapping[str, Any]) -> Client:
    """Return a new client of the kind that a layout names."""
    return CLIENTS[access["through"]](address, access)
