"""What config/sites.yaml may say of an object store; credentials come from the environment alone."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from hyperslab.validation.models import Count, Strict

# Of buckets (Amazon S3, "Bucket naming rules"), and of prefixes what needs no quoting in an address.
BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PREFIX = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9._-]*/)+")
REGION = re.compile(r"[a-z0-9-]+")
# Of a store that a cell starts, in which there is nothing else.
OWN_BUCKET = "hyperslab"
# Longer than any network's, and above any network's.
MOST_LATENCY_MS = 10_000
MOST_BANDWIDTH = 10**12


def _endpoint_mistake(given: str) -> str | None:
    """Return what is wrong with an address, without its text: that may hold a password."""
    try:
        parts = urlsplit(given)
        plain = parts.hostname and not parts.query and not parts.path.strip("/") and (parts.port or 1)
    except ValueError:
        return "should be an address such as https://s3.eu-west-1.amazonaws.com"
    if "@" in given:
        return "credentials come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
    if parts.scheme not in ("http", "https") or not plain:
        return "should be an address such as https://s3.eu-west-1.amazonaws.com"
    return None


def _matching(pattern: re.Pattern[str], rule: str) -> Any:
    def check(given: str) -> str:
        if not pattern.fullmatch(given):
            raise ValueError(rule)
        return given

    return AfterValidator(check)


class Store(Strict):
    """A bucket of an S3 store, in which the objects of a run lie while a cell is measured."""

    start: Literal["moto", "versitygw"] | None = Field(
        default=None,
        description="a store that each cell starts for itself, instead of an endpoint: moto, in memory, or "
        "versitygw, over files below the root, where it is installed",
    )
    endpoint: str | None = Field(
        default=None, description="address of a store, such as https://s3.eu-west-1.amazonaws.com"
    )
    region: Annotated[str, _matching(REGION, "should be the name of a region, such as us-east-1")] = Field(
        default="us-east-1", description="its region, with which requests are signed"
    )
    bucket: Annotated[
        str, _matching(BUCKET, "should be 3 to 63 lower-case letters, digits, dots and hyphens")
    ] = Field(
        description="the only bucket that the run touches; of a store that is started, one of its own if "
        "none is named"
    )
    prefix: Annotated[
        str, _matching(PREFIX, "should be letters, digits and . _ - between slashes, and end with one")
    ] = Field(
        default="hyperslab/",
        description="with which the run's objects begin; it has to be empty, and is emptied",
    )
    latency_ms: Annotated[float, Field(ge=0, le=MOST_LATENCY_MS)] = Field(
        default=0, description="added to each request, ms"
    )
    bandwidth: Annotated[Count, Field(le=MOST_BANDWIDTH)] | None = Field(
        default=None, description="of all requests together, bytes a second; as it is, if not given"
    )

    @model_validator(mode="before")
    @classmethod
    def _bucket_of_ones_own(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("start") and "bucket" not in given:
            return {**given, "bucket": OWN_BUCKET}
        return given

    @model_validator(mode="after")
    def _one_store(self) -> Store:
        if (self.start is None) == (self.endpoint is None):
            raise ValueError("needs either endpoint, the address of a store, or start, which makes one")
        # Not where the field is checked, whose errors say what was found there.
        if self.endpoint is not None and (wrong := _endpoint_mistake(self.endpoint)):
            raise ValueError(f"endpoint: {wrong}")
        return self
