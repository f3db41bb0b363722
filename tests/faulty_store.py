"""A proxy before an S3 store that makes what can go wrong: throttling, cut and short transfers, clocks."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

# For so many requests a fault goes on that is to go on for ever.
ALWAYS = 10**9
# As the store of Amazon writes it: on lines of its own, and with more of who asked than anybody should read.
IN_ERRORS = "AKIA-OF-WHO-ASKED"
ERROR = (
    "<?xml version='1.0'?>\n<Error><Code>{}</Code><Message>{}</Message>"
    f"<AWSAccessKeyId>{IN_ERRORS}</AWSAccessKeyId></Error>"
)
# fault -> status, code and message of the store's answer
ANSWERS = {
    "throttled": (503, "SlowDown", "Please reduce your request rate."),
    # As other stores say it.
    "busy": (429, "SlowDown", "Please reduce your request rate."),
    "few": (400, "InvalidArgument", "Part number must be an integer between 1 and 1000."),
    "kept": (403, "AccessDenied", "You may not delete this."),
    "skewed": (403, "RequestTimeTooSkewed", "The difference between the request time and now is too large."),
}


# fault -> the requests that it befalls; others befall all, or those that are named
METHODS = {"cut": "GET", "short": "GET", "cut-put": "PUT", "few": "PUT", "kept": "DELETE"}


class FaultyStore:
    """A proxy on loopback; `fault` is what it does to `times` requests for objects with `part` in their name,
    once `after` such requests have been let pass. `gets` counts those that get an object, `puts` those that
    have put one.
    """

    def __init__(self, upstream: int) -> None:
        self.fault, self.times, self.part, self.after = "", 0, "", 0
        self.then: tuple[str, ...] = ()
        self.method = ""
        self.caused = self.gets = self.puts = 0
        # Objects whose putting in parts was begun, and neither finished nor given up.
        self.unfinished: set[str] = set()
        self._lock = threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def _any(self) -> None:
                store.answer(self, upstream)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _any  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextmanager
    def causing(
        self,
        fault: str,
        times: int = ALWAYS,
        part: str = "",
        *,
        method: str = "",
        after: int = 0,
        then: tuple[str, ...] = (),
    ) -> Iterator[None]:
        """Cause a fault while the block runs, of requests by this method alone if its own is not known; "" is
        none. Then `caused` says how often that was.

        `then` are others that come once each after it.
        """
        with self._lock:
            self.fault, self.times, self.part, self.after, self.caused = fault, times, part, after, 0
            self.then, self.method = then, method
        try:
            yield
        finally:
            with self._lock:
                self.fault = ""

    def _due(self, method: str, path: str) -> str:
        """Return the fault of a request, "" for none; the bucket itself has none but that of clocks."""
        name = path.partition("?")[0]
        of_object = name.count("/") > 1 and self.part in name
        with self._lock:
            self.gets += method == "GET" and name.count("/") > 1
            if not self.fault or not (of_object or self.fault == "skewed"):
                return ""
            over = self.caused - self.times
            if over >= len(self.then):
                return ""
            fault = self.fault if over < 0 else self.then[over]
            if method != METHODS.get(fault, self.method or method):
                return ""
            if self.after:
                self.after -= 1
                return ""
            self.caused += 1
            return fault

    def answer(self, request: BaseHTTPRequestHandler, upstream: int) -> None:
        """Pass a request on, or cause the fault that is due."""
        fault, size = self._due(request.command, request.path), int(request.headers.get("Content-Length", 0))
        if fault == "cut-put":
            # The line goes dead when half of it has come.
            request.rfile.read(size // 2)
            self._cut(request)
            return
        body = request.rfile.read(size)
        if fault in ANSWERS:
            status, code, message = ANSWERS[fault]
            self._send(
                request, status, {"Content-Type": "application/xml"}, ERROR.format(code, message).encode()
            )
            return
        connection = http.client.HTTPConnection("127.0.0.1", upstream, timeout=60)
        connection.request(request.command, request.path, body or None, dict(request.headers.items()))
        found = connection.getresponse()
        content = found.read()
        if found.status < 300:
            self._follow(request.command, request.path, content)
        headers = {
            name: value
            for name, value in found.getheaders()
            if name.lower() not in ("connection", "transfer-encoding", "server", "date")
        }
        if fault == "cut":
            # As promised, but the line goes dead halfway.
            self._head(request, found.status, headers, len(content))
            request.wfile.write(content[: len(content) // 2])
            request.wfile.flush()
            self._cut(request)
        elif fault == "short":
            # An object that is shorter than it should be, and says so.
            self._send(request, found.status, headers, content[: len(content) // 2])
        else:
            self._send(request, found.status, headers, content)
        connection.close()

    def _follow(self, method: str, path: str, content: bytes) -> None:
        """Count what was put, and keep the names of uploads in parts from their beginning to their end."""
        with self._lock:
            self.puts += method == "PUT" and urlsplit(path).path.count("/") > 1
        if method == "POST" and (begun := re.search(rb"<UploadId>(.*?)</UploadId>", content)):
            self.unfinished.add(begun[1].decode())
        elif method in ("POST", "DELETE"):
            self.unfinished -= set(parse_qs(urlsplit(path).query).get("uploadId", []))

    @staticmethod
    def _cut(request: BaseHTTPRequestHandler) -> None:
        request.connection.shutdown(2)
        request.close_connection = True

    def _send(
        self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes
    ) -> None:
        self._head(request, status, headers, len(content))
        if request.command != "HEAD":
            request.wfile.write(content)

    def _head(self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], size: int) -> None:
        length = next((value for name, value in headers.items() if name.lower() == "content-length"), "0")
        request.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                request.send_header(name, value)
        request.send_header("Content-Length", length if request.command == "HEAD" else str(size))
        request.end_headers()

    def close(self) -> None:
        """Let the port go."""
        self._server.shutdown()
        self._server.server_close()
