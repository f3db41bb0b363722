"""An HSDS that keeps its objects in a store: it sees the gateway, which gives it the cell's for a bucket."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyperslab.formats.hsds.server import BUCKET, HsdsArtifact
from hyperslab.measuring.object_store.address import ENDED, address_of, objects_of
from hyperslab.measuring.object_store.artifact import StoredArtifact
from hyperslab.measuring.servers import Connection, write_private

# In the server's own directory.
STORE = "store.yml"


class HsdsS3Artifact(HsdsArtifact):
    """The objects of a dataset in a bucket, and HSDS that reads and writes them there."""

    def __init__(self, data: str | Path) -> None:
        super().__init__(data)
        # It writes at the top of a bucket and knows no prefix.
        self._store = StoredArtifact(self.data, alias=(BUCKET, f"{self.data.name}/{BUCKET}/"))
        self._put = False

    def root(self) -> str:
        """Return that there is no directory: its objects are in the store."""
        return ""

    def command(self, layout: Mapping[str, Any], connection: Connection) -> list[str]:
        """Return the command of HSDS, with files that hold the password and the key to the store."""
        address = address_of(self.data)
        # JSON is YAML.
        write_private(Path(connection.directory, STORE), json.dumps({
            "aws_s3_gateway": address.endpoint, "aws_region": address.region,
            "aws_access_key_id": address.key, "aws_secret_access_key": address.secret,
        }))  # fmt: skip
        return super().command(layout, connection)

    def settings(self, layout: Mapping[str, Any], connection: Connection) -> dict[str, str]:
        """Return its configuration, and the file that says where the store is."""
        return {
            **super().settings(layout, connection),
            "CONFIG_OVERRIDE_PATH": os.path.join(connection.directory, STORE),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            # Its client would send bodies in pieces with a sum behind them, which not every store takes.
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        }

    def up(self, connection: Connection) -> bool:
        """Return whether it answers; raises OSError where it never will, since the gateway has ended."""
        if address_of(self.data).ended():
            raise OSError(ENDED)
        return super().up(connection)

    def start(self, layout: Mapping[str, Any]) -> None:
        """Start the server where the data are in the store; else `upload` does once they are."""
        self._layout = layout
        if self._put:
            super().start(layout)

    def upload(self) -> dict[str, float]:
        """Put what was written before the server starts into the bucket, and start it unless it waits.

        Returns columns of that; none where nothing was, or the server has written by itself.
        """
        if self._put:
            return {}
        columns = self._store.upload()
        self._put = True
        if not self._waits:
            self.start(self._layout)
        return columns

    def files(self) -> list[Path]:
        """Return the files in which a store that lies here keeps its objects; none of any other."""
        return self._store.files()

    def bytes(self) -> int:
        """Return the bytes of all objects in the bucket."""
        return sum(objects_of(self.data).values())

    def fsync(self) -> None:
        """Do nothing: what is in the store is kept."""

    def write_back(self) -> None:
        """Have no page dirty of what the store keeps here."""
        self._store.write_back()

    def wire(self) -> Mapping[str, int]:
        """Return what has passed the gateway so far, between server and store."""
        return self._store.wire()

    def control(self) -> dict[str, float]:
        """Return columns of what the gateway between server and store costs by itself."""
        return self._store.control()

    def clear_data(self) -> None:
        """Remove the data here and in the bucket."""
        self._store.clear()

    def stop(self) -> None:
        """End the server, then remove what is in the bucket."""
        super().stop()
        self._store.stop()
