"""How what a cell has put into a bucket is removed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as Unreachable

from hyperslab.measuring.object_store.signing import Signer
from hyperslab.measuring.process import one_line

CONNECT_SECONDS = 10
# Within this time a store has taken, or has not, what was sent by a connection that was given up.
SETTLED_SECONDS = 1.0
# So many objects are removed at once.
AT_ONCE = 8


def remove_at_last(endpoint: str, region: str, signer: Signer, bucket: str, prefix: str) -> None:
    """Do as `remove` does, and say in one line of standard error where that cannot be done."""
    try:
        remove(endpoint, region, signer, bucket, prefix)
    except (BotoCoreError, ClientError) as error:
        sys.stderr.write(
            f"what was put into bucket {bucket} below {prefix} may be there: {one_line(error)}\n"
        )


@cache
def _client(endpoint: str, region: str, signer: Signer) -> Any:
    """Return a client of a store, which takes longer to make than to remove a few objects with."""
    import botocore.session
    from botocore.config import Config

    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        **signer.names(),
        config=Config(s3={"addressing_style": "path"}, connect_timeout=CONNECT_SECONDS),
    )


def remove(endpoint: str, region: str, signer: Signer, bucket: str, prefix: str) -> None:
    """Remove every object below a prefix, and what is left of uploads in parts.

    All that can be removed is, as long as the store answers; raises what the first of those that cannot says
    (botocore's errors).
    """
    client = _client(endpoint, region, signer)
    failures: list[Exception] = []

    def done(deed: Callable[[], object]) -> None:
        if any(isinstance(failure, (HTTPClientError, Unreachable)) for failure in failures):
            # Each of many objects would wait for a store that has gone.
            return
        try:
            deed()
        except (BotoCoreError, ClientError) as error:
            failures.append(error)

    def objects() -> None:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            keys = [one["Key"] for one in page.get("Contents", [])]
            # One after the other a thousand objects take a thousand round trips.
            deeds = (partial(client.delete_object, Bucket=bucket, Key=key) for key in keys)
            list(pool.map(done, deeds))

    def uploads() -> None:
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix):
            for one in page.get("Uploads", []):
                named = {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
                done(partial(client.abort_multipart_upload, **named))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done(objects)
        done(uploads)
    if failures:
        raise failures[0]
