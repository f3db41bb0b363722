"""A bucket that a client takes for its own: the objects of one cell below a part of its prefix.

Some clients, such as HSDS, write at the top of a bucket and know no prefix. The gateway gives them a name
that is no bucket of the store: their keys are set behind the prefix on their way there, and are cut from
listings on their way back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

# What a listing says of keys; a client that asks for keys in the encoding of addresses gets them so.
_KEYS = re.compile("<(Key|Prefix|StartAfter)>")
# Of a listing: parameters that are keys.
_KEY_PARAMETERS = ("prefix", "start-after")


@dataclass(frozen=True)
class Alias:
    """The name that clients have for the objects of `bucket` whose keys begin with `prefix`."""

    name: str
    bucket: str
    prefix: str

    def names(self, raw_path: str) -> bool:
        """Return whether a request's path, with its query, leads to a bucket of this name."""
        return re.split("[/?]", raw_path.lstrip("/"), maxsplit=1)[0] == self.name

    def led(self, raw_path: str) -> str:
        """Return path and query of a request as the store knows them."""
        path, _, query = raw_path.partition("?")
        key = path.lstrip("/").removeprefix(self.name).lstrip("/")
        if key:
            return f"/{self.bucket}/{quote(self.prefix)}{key}" + (f"?{query}" if query else "")
        asked = dict(parse_qsl(query, keep_blank_values=True))
        asked = {
            name: self.prefix + text if name in _KEY_PARAMETERS else text for name, text in asked.items()
        }
        return f"/{self.bucket}?{urlencode({'prefix': self.prefix, **asked}, quote_via=quote)}"

    def cut(self, listing: str) -> str:
        """Return a listing without what is before the client's own keys."""
        for before in {self.prefix, quote(self.prefix), quote(self.prefix, safe="")}:
            listing = re.sub(f"{_KEYS.pattern}{re.escape(before)}", r"<\1>", listing)
        return listing
