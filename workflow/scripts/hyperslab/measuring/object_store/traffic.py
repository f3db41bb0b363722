"""What passes a gateway: how requests are counted, held back, and told apart."""

from __future__ import annotations

import asyncio
from urllib.parse import SplitResult, parse_qs, unquote

# Bytes that the line carries before it is waited for: a timer of the event loop is late by a part of this.
BURST_SECONDS = 0.005


def parts(url: SplitResult) -> tuple[str, str]:
    """Return the bucket and the key, "" for none, that a request is for."""
    bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
    return bucket, key


def kind_of(method: str, url: SplitResult) -> str:
    """Return what a request is: "list" for what asks a bucket, else its method, such as "get"."""
    return "list" if method == "GET" and not parts(url)[1] else method.lower()


class Counts:
    """Requests by kind, bytes of their bodies in both directions, and how many went wrong, since the start.

    `failed` are answers that the store or the line to it did not give as they should be; `refused` are
    requests that the gateway itself did not let pass.
    """

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.sent = self.received = self.failed = self.refused = 0

    def began(self, kind: str) -> None:
        """Add a request."""
        self.requests[kind] = self.requests.get(kind, 0) + 1

    def to_dict(self) -> dict[str, int]:
        """Return everything; `sent` are bytes to the client."""
        return {
            "requests": sum(self.requests.values()),
            "sent": self.sent,
            "received": self.received,
            "failed": self.failed,
            "refused": self.refused,
        } | {f"{kind}_requests": number for kind, number in self.requests.items()}


class Line:
    """What holds traffic back: a delay of each request, and bytes a second that all of them share."""

    def __init__(self, latency_ms: float, bandwidth: int | None) -> None:
        self._latency_s = latency_ms / 1e3
        self._bandwidth = bandwidth
        self._free_at = 0.0

    async def reach(self) -> None:
        """Wait until a request has reached the store and its answer has come back."""
        if self._latency_s:
            await asyncio.sleep(self._latency_s)

    async def carry(self, size: int) -> None:
        """Wait until `size` bytes have passed behind all that are under way."""
        if self._bandwidth is None:
            return
        now = asyncio.get_running_loop().time()
        # Timers that come late are made up for; a line that was idle has saved nothing up.
        begins = self._free_at if now - self._free_at < BURST_SECONDS else now
        self._free_at = begins + size / self._bandwidth
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


def foreign(method: str, url: SplitResult, own: tuple[str, str]) -> str | None:
    """Return why a request is none of the cell's, None where it is; `own` are its bucket and prefix.

    Only what lies below the prefix is written, read or removed, whatever a client or its user asks.
    """
    bucket, key = parts(url)
    if bucket != own[0]:
        return f"the site names the bucket {own[0]}, not {bucket}"
    if not key:
        prefixes = parse_qs(url.query).get("prefix", [""])
        if method in ("GET", "HEAD") and all(prefix.startswith(own[1]) for prefix in prefixes):
            return None
        return f"only what begins with {own[1]} may be listed, and the bucket itself is not changed"
    if ".." in key.split("/"):
        return f"{key} may lead elsewhere"
    return None if key.startswith(own[1]) else f"this cell's objects begin with {own[1]}, not {key}"
