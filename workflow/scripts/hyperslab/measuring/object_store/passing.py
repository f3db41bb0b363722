"""A gateway's work: requests of clients are passed to the store, counted, and held back as the site says."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import mmap
import os
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import SplitResult, quote, urlsplit

import aiohttp
from aiohttp import web
from botocore.exceptions import BotoCoreError, ClientError
from yarl import URL

from hyperslab.measuring.object_store import control, started
from hyperslab.measuring.object_store.alias import Alias
from hyperslab.measuring.object_store.emptying import (
    CONNECT_SECONDS,
    SETTLED_SECONDS,
    remove,
    remove_at_last,
)
from hyperslab.measuring.object_store.signing import EMPTY, Refused, Signer, made, of_environment
from hyperslab.measuring.object_store.traffic import Counts, Line, foreign, kind_of
from hyperslab.measuring.process import one_line, proxy_of

# What a client sends that its store has to see; all other headers are between neighbours.
PASSED = ("content-type", "content-md5", "content-encoding", "range", "if-match", "if-none-match")
RETURNED = (
    "content-type", "content-range", "etag", "last-modified", "accept-ranges", "retry-after",
    "content-encoding",
)  # fmt: skip
PIECE = 2**16
# How long a request may last that comes while the gateway ends.
END_SECONDS = 1.0
# The largest body of one request: clients send large objects in parts.
MOST_BYTES = 2**30


class Task(TypedDict):
    """What a gateway stands before; `endpoint` is None where it starts the store, by `start`, itself, whose
    files, if it has any, lie in `directory`.
    """

    start: str | None
    directory: str
    endpoint: str | None
    region: str
    bucket: str
    prefix: str
    latency_ms: float
    bandwidth: int | None
    # What clients sign with.
    key: str
    # A bucket that is none, and the part of the prefix that clients take for the whole of it.
    alias: tuple[str, str] | None


def endpoint_of(task: Task) -> str:
    """Return the address of the store that a task names; "" where it is started here."""
    return (task["endpoint"] or "").rstrip("/")


class Gateway:
    """One gateway: its traffic, its connections to the store, and the store where it is started here."""

    def __init__(self, task: Task, owned: mmap.mmap) -> None:
        self.task = task
        self.counts = Counts()
        self._line = Line(task["latency_ms"], task["bandwidth"])
        self._server: subprocess.Popen[str] | None = None
        self._endpoint = endpoint_of(task)
        self._credentials = made() if task["start"] else of_environment()
        self._signer = Signer(task["region"], self._credentials)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        # Those who answer a request now.
        self._answering: set[asyncio.Task[Any]] = set()
        self._alias: Alias | None = None
        if task["alias"]:
            name, below = task["alias"]
            self._alias = Alias(name, task["bucket"], task["prefix"] + below)
        # One byte, not 0 where nothing lay below the prefix, so that all that does is the cell's.
        self._owned = owned

    async def begin(self) -> int:
        """Start what is to be started, see that it answers, and return the port; raises Refused."""
        if name := self.task["start"]:
            directory = Path(self.task["directory"])
            # Not in a thread, with which the store would end.
            self._server, port = started.start(name, self._credentials, directory)
            self._endpoint = f"http://127.0.0.1:{port}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=60),
            auto_decompress=False,
            # Looked for once. By itself (trust_env) it would look before every request, and for a password in
            # .netrc, of which it makes an error beside a signature.
            proxy=proxy_of(self._endpoint),
        )
        # Of itself it would ask once more where a connection was cut, and nobody would count that.
        self._session._retry_connection = False
        bucket, prefix = self.task["bucket"], self.task["prefix"]
        if self.task["start"]:
            await self._ask("PUT", f"/{bucket}")
        found = await self._ask("GET", f"/{bucket}?list-type=2&max-keys=1&prefix={quote(prefix, safe='')}")
        if key := re.search("<Key>(.*?)</Key>", found):
            raise Refused(f"{prefix} in bucket {bucket} is not empty: {key[1]} lies there")
        # Who may not ask, and of a store that does not know, learns nothing.
        versions = ""
        with suppress(Refused):
            versions = await self._ask("GET", f"/{bucket}?versioning=")
        if "<Status>Enabled</Status>" in versions:
            raise Refused(
                f"bucket {bucket} keeps every version of what is removed, which would be billed on; name a "
                "bucket without versioning"
            )
        self._owned[0] = 1
        application = web.Application(client_max_size=MOST_BYTES)
        application.router.add_route("*", "/{path:.*}", self.answer)
        self._runner = runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=END_SECONDS
        )
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port_number: int = runner.addresses[0][1]
        return port_number

    async def end(self) -> None:
        """Remove what the cell has put into the bucket, and end the store where it was started here."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        elif self._owned[0]:
            given_up = await self._quiet()
            # The last look says what this one cannot remove.
            with suppress(BotoCoreError, ClientError):
                await asyncio.to_thread(self._remove)
            if given_up:
                # What was handed to the store in the last moment may come to lie there after it was listed.
                await asyncio.sleep(SETTLED_SECONDS)
            await asyncio.to_thread(self._remove, remove_at_last)
        if self._session is not None:
            await self._session.close()

    async def _quiet(self) -> int:
        """Take no more requests, and give up those that are under way, since whoever asked may be gone.

        Returns how many these were.
        """
        if self._runner is None:
            return 0
        for site in list(self._runner.sites):
            await site.stop()
        answering = [one for one in self._answering if not one.done()]
        for one in answering:
            one.cancel()
        await asyncio.gather(*answering, return_exceptions=True)
        # A client that lives may ask again on a connection that it has.
        await self._runner.cleanup()
        return len(answering)

    def _remove(self, by: Callable[[str, str, Signer, str, str], None] = remove) -> None:
        by(self._endpoint, self.task["region"], self._signer, self.task["bucket"], self.task["prefix"])

    async def counted(self) -> dict[str, Any]:
        """Return what has passed so far."""
        return self.counts.to_dict()

    async def removed(self) -> dict[str, Any]:
        """Remove every object below the cell's prefix, and what is left of uploads in parts."""
        try:
            await asyncio.to_thread(self._remove)
        except (BotoCoreError, ClientError) as error:
            where = f"bucket {self.task['bucket']} below {self.task['prefix']}"
            raise Refused(f"what was put into {where} cannot be removed: {one_line(error)}") from None
        return {}

    async def control_begun(self) -> dict[str, Any]:
        """Put the objects of the control into the store; returns, by their bytes, the address of each and the
        headers with which anybody may get it for a few minutes, which hold no password.
        """
        found = {}
        for size in control.SIZES.values():
            await self._ask("PUT", self._of_control(size), os.urandom(size))
            url = self._endpoint + self._of_control(size)
            found[str(size)] = url, self._signer.headers("GET", url, {}, EMPTY)
        return found

    async def control_ended(self) -> dict[str, Any]:
        """Remove them."""
        for size in control.SIZES.values():
            await self._ask("DELETE", self._of_control(size))
        return {}

    def _of_control(self, size: int) -> str:
        return f"/{self.task['bucket']}/{self.task['prefix']}{control.name(size)}"

    async def _ask(self, method: str, path: str, body: bytes = b"") -> str:
        """Return the answer to a request of the gateway's own; raises Refused where it is an error."""
        assert self._session is not None
        url = self._endpoint + path
        headers = self._signer.headers(method, url, {}, hashlib.sha256(body).hexdigest())
        try:
            async with self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=body or None,
                skip_auto_headers=("Content-Type", "User-Agent"),
            ) as answer:
                text: str = await answer.text()
        except aiohttp.ClientError as error:
            raise Refused(f"no S3 store answers at {self._endpoint}: {one_line(error)}") from None
        except TimeoutError:
            raise Refused(f"no S3 store answers at {self._endpoint} within {CONNECT_SECONDS} s") from None
        if answer.status >= 300:
            words = ": ".join(filter(None, _said(text))) or f"status {answer.status}"
            raise Refused(f"{self._endpoint} answers {words} (bucket {self.task['bucket']})")
        return text

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass a client's request on and its answer back, held back and counted."""
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            return await self._answer(request)
        finally:
            self._answering.discard(task)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        # Two slashes would begin another host.
        path = f"/{request.raw_path.lstrip('/')}"
        alias = self._alias if self._alias is not None and self._alias.names(path) else None
        url = urlsplit(alias.led(path) if alias else path)
        kind = kind_of(request.method, url)
        self.counts.began(kind)
        if reason := self._refusal(request, url):
            self.counts.refused += 1
            return _error(403, "AccessDenied", reason)
        if self._server is not None and self._server.poll() is not None:
            self.counts.failed += 1
            # No server's fault, which a client would ask again for.
            return _error(400, "StoreEnded", "the store that was started for the cell has ended")
        body = await request.read()
        self.counts.received += len(body)
        await self._line.carry(len(body))
        await self._line.reach()
        try:
            return await self._passed(request, url, body, alias if kind == "list" else None)
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            # Nothing that was cut short may look whole: the client's connection is cut, too.
            self.counts.failed += 1
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError(one_line(error)) from None

    def _refusal(self, request: web.Request, url: SplitResult) -> str | None:
        signed = request.headers.get("Authorization", "")
        found = re.search(r"Credential=([^/]+)/", signed)
        if not found or not hmac.compare_digest(found[1], self.task["key"]):
            return "the request is not signed with this cell's key"
        if request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
            return "a body that is signed in pieces cannot be signed anew"
        if "x-amz-copy-source" in request.headers:
            return "nothing is copied within a store"
        own = self.task["bucket"], self.task["prefix"]
        return foreign(request.method, url, own)

    async def _passed(
        self, request: web.Request, asked: SplitResult, body: bytes, alias: Alias | None
    ) -> web.StreamResponse:
        """Return the store's answer; of a listing for an alias, with the keys that its clients know."""
        assert self._session is not None
        url = self._endpoint + asked.geturl()
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in PASSED or (name.lower().startswith("x-amz-") and name.lower() != "x-amz-date")
        }
        digest = headers.pop(
            next((name for name in headers if name.lower() == "x-amz-content-sha256"), ""), EMPTY
        )
        headers = self._signer.headers(request.method, url, headers, digest)
        async with self._session.request(
            request.method,
            URL(url, encoded=True),
            headers=headers,
            data=body if request.method in ("PUT", "POST") else None,
            skip_auto_headers=("Content-Type", "User-Agent"),
        ) as answer:
            # Of stores that say so, who asks too often.
            if answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                self.counts.failed += 1
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() in RETURNED or name.lower().startswith("x-amz-")
            }
            if answer.status >= 400 and request.method != "HEAD":
                # Its code and message alone: what else a store writes of an error may hold who asked.
                code, said = _said(await answer.text(errors="replace"))
                refused = _error(answer.status, code or "Unknown", said or f"status {answer.status}")
                if "retry-after" in answer.headers:
                    refused.headers["retry-after"] = answer.headers["retry-after"]
                length = len(refused.body) if isinstance(refused.body, bytes) else 0
                await self._line.carry(length)
                self.counts.sent += length
                return refused
            if alias is not None:
                listing = alias.cut(await answer.text()).encode()
                await self._line.carry(len(listing))
                self.counts.sent += len(listing)
                return web.Response(status=answer.status, headers=kept, body=listing)
            found = web.StreamResponse(status=answer.status, headers=kept)
            if "Content-Length" in answer.headers:
                found.content_length = int(answer.headers["Content-Length"])
            await found.prepare(request)
            if request.method != "HEAD":
                async for piece in answer.content.iter_chunked(PIECE):
                    await self._line.carry(len(piece))
                    await found.write(piece)
                    self.counts.sent += len(piece)
            await found.write_eof()
            return found


def _said(text: str) -> tuple[str, str]:
    """Return the code and the message of a store's error; "" for what it does not say."""
    code, message = (re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL) for name in ("Code", "Message"))
    return (code[1].strip() if code else "", " ".join(message[1].split()) if message else "")


def _error(status: int, code: str, message: str) -> web.Response:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")
