"""An S3 store for one cell, in this process's memory: moto's, on loopback. Its port is all that it says.

Usage: python -m hyperslab.measuring.object_store.moto_server
"""

from __future__ import annotations

import logging
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.s3.models import FakeKey
from werkzeug.serving import make_server


def _content(key: Any) -> bytes:
    found: bytes = key.__dict__.get("content", b"")
    return found


def _set_content(key: Any, content: bytes) -> None:
    key.content = bytes(content)
    key.contentsize = len(content)


def ready() -> Any:
    """Return moto's server, listening on a port of loopback that nobody else has; it serves when told to."""
    # Moto copies a whole object for every range of it that is asked: 0.1 s for 300 MB, which no store takes.
    FakeKey.value = property(_content, _set_content)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    return make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)


def main() -> None:
    """Run the command."""
    server = ready()
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
