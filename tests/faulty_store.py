"""A proxy before an S3 store that makes what can go wrong: throttling, cut and short answers, clocks."""

from __future__ import annotations

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# For so many requests a fault goes on that is to go on for ever.
ALWAYS = 10**9
ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message></Error>"
# fault -> status, code and message of the store's answer
ANSWERS = {
    "throttled": (503, "SlowDown", "Please reduce your request rate."),
    "skewed": (403, "RequestTimeTooSkewed", "The difference between the request time and now is too large."),
}


class FaultyStore:
    """A proxy on loopback; `fault` is what it does to the next `times` requests for an object with `part` in
    its name.
    """

    def __init__(self, upstream: int) -> None:
        self.fault, self.times, self.part = "", 0, ""
        self.caused = 0
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

    def cause(self, fault: str, times: int = ALWAYS, part: str = "") -> None:
        """Cause a fault from now on; "" ends it."""
        self.fault, self.times, self.part, self.caused = fault, times, part, 0

    def _due(self, method: str, path: str) -> str:
        """Return the fault of a request, "" for none; the bucket itself has none but that of clocks."""
        name = path.partition("?")[0]
        of_object = name.count("/") > 1 and self.part in name
        with self._lock:
            if not self.fault or self.caused >= self.times or not (of_object or self.fault == "skewed"):
                return ""
            if self.fault in ("cut", "short") and method != "GET":
                return ""
            self.caused += 1
            return self.fault

    def answer(self, request: BaseHTTPRequestHandler, upstream: int) -> None:
        """Pass a request on, or cause the fault that is due."""
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        fault = self._due(request.command, request.path)
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
            request.connection.shutdown(2)
            request.close_connection = True
        elif fault == "short":
            # An object that is shorter than it should be, and says so.
            self._send(request, found.status, headers, content[: len(content) // 2])
        else:
            self._send(request, found.status, headers, content)
        connection.close()

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
