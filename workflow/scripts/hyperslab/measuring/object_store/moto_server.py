"""An S3 store for one cell, in this process's memory: moto's, on loopback.

Usage: python -m hyperslab.measuring.object_store.moto_server

It reads from standard input the key with which requests have to be signed, and prints its port. Every other
request is refused: moto itself would serve everybody on this machine. It does not check signatures.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.exceptions import InvalidPart
from moto.s3.models import FakeKey, FakeMultipart
from werkzeug.serving import make_server

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
# Of a signature in a header, and in an address.
SIGNED_WITH = re.compile(r"Credential=([^/%]+)(?:/|%2F)")


def _content(key: Any) -> bytes:
    found: bytes = key.__dict__.get("content", b"")
    return found


def _set_content(key: Any, content: bytes) -> None:
    key.content = bytes(content)
    key.contentsize = len(content)


def _complete(multipart: Any, body: Iterable[tuple[int, str]]) -> tuple[bytes, str, None]:
    """Return an object that was put in parts, and its tag; raises InvalidPart for one that is not there."""
    parts = []
    for number, tag in body:
        part = multipart.parts.get(number)
        if part is None or part.etag.strip('"') != tag.strip('"'):
            raise InvalidPart
        parts.append(part)
    tags = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
    digest = hashlib.md5(tags, usedforsecurity=False).hexdigest()
    return b"".join(part.value for part in parts), f"{digest}-{len(parts)}", None


def only_with(key: str, application: Application) -> Application:
    """Return an application that answers those requests alone that are signed with `key`."""

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        said = f"{environment.get('HTTP_AUTHORIZATION', '')}&{environment.get('QUERY_STRING', '')}"
        found = SIGNED_WITH.search(said)
        if found and hmac.compare_digest(found[1], key):
            return application(environment, start)
        start("403 Forbidden", [("Content-Type", "application/xml"), ("Connection", "close")])
        return [b"<Error><Code>InvalidAccessKeyId</Code></Error>"]

    return answer


def ready(key: str | None = None) -> Any:
    """Return moto's server on a port of loopback that nobody else has, for whoever signs with `key`.

    It serves when told to. Without a key it serves everybody.
    """
    # Moto copies a whole object for every range of it that is asked: 0.1 s for 300 MB, which no store takes.
    FakeKey.value = property(_content, _set_content)
    # Of an object that comes in parts it makes two copies more, at once: 10 GB of one of 3.3 GB.
    FakeMultipart.complete = _complete
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application: Application = DomainDispatcherApplication(create_backend_app)
    if key is not None:
        application = only_with(key, application)
    return make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)


def main() -> None:
    """Run the command."""
    server = ready(sys.stdin.readline().strip())
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
