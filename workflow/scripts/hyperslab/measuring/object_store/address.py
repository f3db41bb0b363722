"""Where the data of an artifact lie in a store, for the clients of a cell, and what these say of errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

# Attempts at one request, the first included, and how long it may stand still, unless the line is slow.
ATTEMPTS, PATIENCE_SECONDS = 4, 60
# Longer than any object takes on any line.
MOST = "24h"
# Objects that are put, or parts that are copied, at once.
AT_ONCE = 8
# Packages whose errors are those of the store, and how far one may lie behind another's.
CLIENTS = ("obstore", "botocore", "aiobotocore", "aiohttp")
LONGEST_CHAIN = 20
ENDED = "the gateway to the object store has ended"


@dataclass(frozen=True)
class Address:
    """Where the data of one artifact lie: an endpoint on loopback, and the key with which clients sign.

    Names of objects are those of the files below `directory` that were put, behind `prefix`.
    """

    endpoint: str
    region: str
    bucket: str
    prefix: str
    directory: Path
    key: str = field(repr=False)
    secret: str = field(repr=False)
    # Whether the gateway that listens there has ended.
    ended: Callable[[], bool] = field(repr=False, compare=False)
    # How long a request may stand still, and until when it is tried again.
    patience_s: float = PATIENCE_SECONDS

    def name_of(self, path: str | Path) -> str:
        """Return the name, behind the prefix, of the object or objects that were put from `path`."""
        return Path(path).relative_to(self.directory).as_posix()

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
            client_options={
                "allow_http": True,
                # From the request to its answer, and then from one piece of that to the next.
                "read_timeout": f"{self.patience_s:.0f}s",
                "timeout": MOST,
            },
            retry_config={
                "max_retries": ATTEMPTS - 1,
                "retry_timeout": timedelta(seconds=self.patience_s),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=2),
                    "base": 2,
                },
            },
        )


# Of artifacts whose gateways run, by their data: formats know no more than a path.
_addresses: dict[Path, Address] = {}


def reached(data: Path, address: Address) -> None:
    """Have clients find the data of an artifact at an address, and load what they ask with.

    Every process that asks is told so before its first stopwatch.
    """
    import obstore.store  # noqa: F401

    _addresses[data] = address


def left(data: Path) -> None:
    """Have them find these data no more."""
    _addresses.pop(data, None)


def address_of(path: str | Path) -> Address:
    """Return where an artifact's data, or a part of them, lie.

    Raises FileNotFoundError where no gateway runs for them.
    """
    own = Path(path)
    for place in (own, *own.parents):
        if place in _addresses:
            return _addresses[place]
    raise FileNotFoundError(f"{path}: the object store of this artifact is not reached yet")


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


def told(error: BaseException) -> OSError:
    """Return an error of a client's as one of the store, in one line.

    obstore's go on with how its own code came there, others come wrapped in that of whoever asked. None of
    them knows that it is the gateway that has ended.
    """
    if any(address.ended() for address in _addresses.values()):
        return OSError(ENDED)
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and len(
        causes
    ) < LONGEST_CHAIN:
        causes.append(cause)
    known = [one for one in causes if type(one).__module__.partition(".")[0] in CLIENTS]
    chosen = known[0] if known else error
    said = next((line.strip() for line in str(chosen).splitlines() if line.strip()), "")
    return OSError(f"the object store: {type(chosen).__name__}: {said}")
