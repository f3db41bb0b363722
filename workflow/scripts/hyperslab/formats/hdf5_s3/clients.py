"""The clients through which h5py reads an object as a file: s3fs with fsspec's caches, and obstore."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.measuring.object_store.artifact import ATTEMPTS, Address

# How long a client may take to close its connections.
LET_GO_SECONDS = 10
Opened = tuple[Any, Callable[[], None]]


def _s3fs(address: Address, key: str, access: Mapping[str, Any]) -> Opened:
    """Return a file of a new s3fs, which has neither connections nor listings of an older one."""
    import s3fs
    from fsspec.asyn import sync
    from fsspec.exceptions import FSTimeoutError

    client = s3fs.S3FileSystem(
        key=address.key,
        secret=address.secret,
        endpoint_url=address.endpoint,
        client_kwargs={"region_name": address.region},
        config_kwargs={"s3": {"addressing_style": "path"}, "retries": {"total_max_attempts": ATTEMPTS}},
        skip_instance_cache=True,
        use_listings_cache=False,
    )
    # Botocore has asked again by itself.
    client.retries = 1
    own = {"cache": "cache_type", "block_bytes": "block_size"}
    options = {own[name]: value for name, value in access.items() if name in own}
    file = client.open(f"{address.bucket}/{address.prefix}{key}", "rb", **options)
    file.retries = 1

    def let_go() -> None:
        file.close()
        with suppress(FSTimeoutError):
            sync(client.loop, client.s3.__aexit__, None, None, None, timeout=LET_GO_SECONDS)

    return file, let_go


def _obstore(address: Address, key: str, access: Mapping[str, Any]) -> Opened:
    """Return a file of a new obstore, with a buffer in front of it."""
    import obstore

    options = {"buffer_size": access["block_bytes"]} if "block_bytes" in access else {}
    file = obstore.open_reader(address.store(), key, **options)
    return file, lambda: None


CLIENTS: dict[str, tuple[Callable[[Address, str, Mapping[str, Any]], Opened], str]] = {
    "s3fs": (_s3fs, "s3fs"),
    "obstore": (_obstore, "obstore.store"),
}


def load(access: Mapping[str, Any]) -> None:
    """Import what the client of a layout needs, so that no stopwatch measures it."""
    importlib.import_module(CLIENTS[access["through"]][1])


def opened(address: Address, path: str, access: Mapping[str, Any]) -> Opened:
    """Return the object that was made of the file `path`, as a file, and what lets its client go."""
    return CLIENTS[access["through"]][0](address, Path(path).name, access)
