"""The gateway between a cell and its object store: it counts what passes, and holds it back as the site says.

Usage: python -m hyperslab.measuring.object_store.gateway

It is told what to do by lines of JSON on standard input, and answers each by one on standard output: first
what to stand before (`Task`), to which it answers its port or an error, then {"do": "counts"} or
{"do": "remove"}. It ends with its input or by SIGTERM, and removes before what the cell has put into the
bucket. Clients sign with a key that the cell has made for itself; the store's own credentials come from the
environment of this process, which signs every request anew, and are nowhere else.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import Any, TypedDict
from urllib.parse import SplitResult, quote, urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from hyperslab.measuring.object_store.alias import Alias
from hyperslab.measuring.object_store.signing import EMPTY, Refused, Signer
from hyperslab.measuring.object_store.traffic import Counts, Line, foreign, kind_of
from hyperslab.measuring.parent import end_with_parent
from hyperslab.measuring.process import one_line

# What a client sends that its store has to see; all other headers are between neighbours.
PASSED = ("content-type", "content-md5", "content-encoding", "range", "if-match", "if-none-match")
RETURNED = (
    "content-type", "content-range", "etag", "last-modified", "accept-ranges", "retry-after",
    "content-encoding",
)  # fmt: skip
PIECE = 2**16
CONNECT_SECONDS = 10
# The largest body of one request: clients send large objects in parts.
MOST_BYTES = 2**30


class Task(TypedDict):
    """What a gateway stands before; `endpoint` is None where it starts the store, by `start`, itself."""

    parent: int
    start: str | None
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


class Gateway:
    """One gateway: its traffic, its connections to the store, and the store where it is started here."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.counts = Counts()
        self._line = Line(task["latency_ms"], task["bandwidth"])
        self._server: subprocess.Popen[str] | None = None
        self._endpoint = (task["endpoint"] or "").rstrip("/")
        self._signer = Signer(task["region"], started=task["start"] is not None)
        self._session: aiohttp.ClientSession | None = None
        self._alias: Alias | None = None
        if task["alias"]:
            name, below = task["alias"]
            self._alias = Alias(name, task["bucket"], task["prefix"] + below)
        # Nothing lay below the prefix, so that all that does is the cell's.
        self._owned = False

    async def begin(self) -> int:
        """Start what is to be started, see that it answers, and return the port; raises Refused."""
        if self.task["start"]:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "hyperslab.measuring.object_store.moto_server"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
                preexec_fn=partial(end_with_parent, os.getpid()),
            )
            assert self._server.stdout is not None
            port = await asyncio.to_thread(self._server.stdout.readline)
            if not port:
                raise Refused(f"{self.task['start']} ended before it was ready")
            self._endpoint = f"http://127.0.0.1:{port.strip()}"
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=60),
            auto_decompress=False,
        )
        bucket, prefix = self.task["bucket"], self.task["prefix"]
        if self.task["start"]:
            await self._ask("PUT", f"/{bucket}")
        found = await self._ask("GET", f"/{bucket}?list-type=2&max-keys=1&prefix={quote(prefix, safe='')}")
        if key := re.search("<Key>(.*?)</Key>", found):
            raise Refused(f"{prefix} in bucket {bucket} is not empty: {key[1]} lies there")
        self._owned = True
        application = web.Application(client_max_size=MOST_BYTES)
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, access_log=None, handle_signals=False)
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
        elif self._owned:
            await asyncio.to_thread(self.remove)
        if self._session is not None:
            await self._session.close()

    def remove(self) -> None:
        """Remove every object below the cell's prefix, and what is left of uploads in parts."""
        import boto3
        from botocore.config import Config

        client = boto3.client(
            "s3",
            endpoint_url=self._endpoint,
            region_name=self.task["region"],
            **self._signer.names(),
            config=Config(s3={"addressing_style": "path"}, connect_timeout=CONNECT_SECONDS),
        )
        bucket, prefix = self.task["bucket"], self.task["prefix"]
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for one in page.get("Contents", []):
                client.delete_object(Bucket=bucket, Key=one["Key"])
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix):
            for one in page.get("Uploads", []):
                client.abort_multipart_upload(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"])

    async def _ask(self, method: str, path: str) -> str:
        """Return the answer to a request of the gateway's own; raises Refused where it is an error."""
        assert self._session is not None
        url = self._endpoint + path
        try:
            async with self._session.request(
                method, URL(url, encoded=True), headers=self._signer.headers(method, url, {}, EMPTY)
            ) as answer:
                text: str = await answer.text()
        except aiohttp.ClientError as error:
            raise Refused(f"no S3 store answers at {self._endpoint}: {one_line(error)}") from None
        except TimeoutError:
            raise Refused(f"no S3 store answers at {self._endpoint} within {CONNECT_SECONDS} s") from None
        if answer.status >= 300:
            code, said = (re.search(f"<{name}>(.*?)</{name}>", text) for name in ("Code", "Message"))
            words = ": ".join(found[1] for found in (code, said) if found) or f"status {answer.status}"
            raise Refused(f"{self._endpoint} answers {words} (bucket {self.task['bucket']})")
        return text

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Pass a client's request on and its answer back, held back and counted."""
        # Two slashes would begin another host.
        path = f"/{request.raw_path.lstrip('/')}"
        alias = self._alias if self._alias is not None and self._alias.names(path) else None
        url = urlsplit(alias.led(path) if alias else path)
        kind = kind_of(request.method, url)
        self.counts.began(kind)
        if reason := self._refusal(request, url):
            self.counts.failed += 1
            return _error(403, "AccessDenied", reason)
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
            if answer.status >= 500:
                self.counts.failed += 1
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() in RETURNED or name.lower().startswith("x-amz-")
            }
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


def _error(status: int, code: str, message: str) -> web.Response:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def serve() -> None:
    """Run a gateway until the input ends or a signal comes."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    task: Task = json.loads(await lines.readline())
    end_with_parent(task["parent"], signal.SIGTERM)
    gateway = None
    try:
        gateway = Gateway(task)
        _say({"port": await gateway.begin()})
        while not ended.is_set():
            stopped, told = asyncio.create_task(ended.wait()), asyncio.create_task(lines.readline())
            await asyncio.wait((stopped, told), return_when=asyncio.FIRST_COMPLETED)
            line = told.result() if told.done() else b""
            stopped.cancel()
            told.cancel()
            if not line:
                break
            if json.loads(line)["do"] == "remove":
                await asyncio.to_thread(gateway.remove)
            _say(gateway.counts.to_dict())
    except Refused as refused:
        with suppress(BrokenPipeError):
            _say({"error": str(refused)})
    finally:
        if gateway is not None:
            await gateway.end()


def main() -> None:
    """Run the command."""
    # What the terminal sends to the whole group is the cell's to act on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What goes wrong between client and store is the client's to say.
    logging.disable()
    asyncio.run(serve())


if __name__ == "__main__":
    main()
