"""What the formats of object stores have in common: how a layout says by which client it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.layouts.environments import made
from hyperslab.layouts.layout import Setting
from hyperslab.text import size

# The environment that has the clients, the gateway and a store.
ENVIRONMENT = made("object-store")
# What puts objects into a store, and what else a client of a layout needs.
CLIENT = "obstore.store"
MODULES = {"s3fs": "s3fs", "obstore": CLIENT, "ros3": "h5py"}
SETTINGS = {
    "client": Setting("Client of the object store"),
    "client_cache": Setting("Cache of the client"),
    "client_block_bytes": Setting("Block of that cache", size=True),
}


def words(access: Mapping[str, Any]) -> str:
    """Return how a layout is read, such as "through s3fs (readahead, 5 MiB)"."""
    more = [str(access[name]) for name in ("cache",) if name in access]
    more += [size(access["block_bytes"])] if "block_bytes" in access else []
    return f"through {access['through']}" + (f" ({', '.join(more)})" if more else "")
