"""A store's credentials, of the environment or made for one that is started, and how requests are signed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from hyperslab.measuring.object_store import KEY, SECRET, TOKEN

# SHA-256 of a body without a byte.
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Refused(Exception):
    """What the store answers, or why it cannot be asked; one line."""


def of_environment() -> Credentials:
    """Return the credentials for a store that is there; raises Refused where the environment has none."""
    if missing := [name for name in (KEY, SECRET) if not os.environ.get(name)]:
        raise Refused(f"the environment has no {missing[0]}, which the store needs")
    return Credentials(os.environ[KEY], os.environ[SECRET], os.environ.get(TOKEN) or None)


def made() -> Credentials:
    """Return credentials for a store that is yet to be started, which nobody else has."""
    return Credentials(secrets.token_hex(10), secrets.token_hex(20))


class _Signature(S3SigV4Auth):  # type: ignore[misc]
    """That of a request whose body its client has already digested."""

    def payload(self, request: Any) -> str:
        """Return the digest that the client gave."""
        return str(request.context["digest"])


class Signer:
    """Signs requests to a store."""

    def __init__(self, region: str, credentials: Credentials) -> None:
        self._region = region
        self._credentials = credentials

    def names(self) -> dict[str, str | None]:
        """Return the credentials by the names that botocore has for them."""
        return {
            "aws_access_key_id": self._credentials.access_key,
            "aws_secret_access_key": self._credentials.secret_key,
            "aws_session_token": self._credentials.token,
        }

    def headers(self, method: str, url: str, headers: Mapping[str, str], digest: str) -> dict[str, str]:
        """Return the headers of a request with the signature, over a body with this digest."""
        request = AWSRequest(method=method, url=url, headers=dict(headers))
        request.context["digest"] = digest
        _Signature(self._credentials, "s3", self._region).add_auth(request)
        return {**dict(request.headers.items()), "Accept-Encoding": "identity"}
