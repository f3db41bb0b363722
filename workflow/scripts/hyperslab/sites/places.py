"""Whether a root is still the place at which the records of its site were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hyperslab.sites import mounts


@dataclass(frozen=True)
class Place:
    """Where test files lie: type and source of the mount, and the identity of the root from its first use.

    A node-local place is one on each node, so that only its type tells it from others. An empty identity is
    that of a root which has not been used, or of a record from before roots had one. `store` are the words of
    an object store to which what lies there goes, empty where it stays, or in a table from before.
    """

    type: str
    source: str
    identity: str = ""
    node_local: bool = False
    store: str = ""

    def same(self, other: Place) -> bool:
        """Tell whether two descriptions may be of one place.

        A remounted file system has another source now and then, but keeps what lies in its root.
        """
        if self.type != other.type or (self.store and other.store and self.store != other.store):
            return False
        if self.node_local or other.node_local:
            return True
        if self.identity and other.identity:
            return self.identity == other.identity
        return self.source == other.source

    def __str__(self) -> str:
        """Return the words by which a user knows it, such as ext4 on /dev/sda1."""
        named = f"{self.type} on {self.source}" + (f" ({self.identity[:8]})" if self.identity else "")
        return f"{named} before {self.store}" if self.store else named

    def to_dict(self) -> dict[str, Any]:
        """Return the text that tables keep."""
        return asdict(self)


def words_of_store(store: Mapping[str, Any] | None) -> str:
    """Return what times depend on of an object store, as sites or a record describe it; "" for none."""
    if not store:
        return ""
    line = f" and {store['bandwidth']} bytes a second" if store.get("bandwidth") else ""
    named = store.get("start") or store.get("endpoint")
    return f"the object store {named} at {store.get('latency_ms') or 0:g} ms{line}"


def place_of(root: str, identity: str, node_local: bool, store: str = "") -> Place:
    """Return the place of a root that is there."""
    mount = mounts.mount_of(root)
    return Place(mount.type, mount.source, identity, node_local, store)


def recorded(record: Mapping[str, Any]) -> Place:
    """Return the place at which a record was measured."""
    root, mount = record.get("root", {}), record["file_system"]
    return Place(
        mount.get("type", "unknown"),
        mount.get("source", "unknown"),
        root.get("identity", ""),
        bool(root.get("node_local", False)),
        words_of_store(root.get("store")),
    )


def _known_first(place: Place) -> tuple[bool, bool, str, str, str]:
    """Return by what places are put in order, those of which most is known before others."""
    return (not place.identity, not place.store, place.type, place.source, place.store)


def distinct(places: Iterable[Place]) -> list[Place]:
    """Return one description of each place among several."""
    found: list[Place] = []
    # Those that know most come first, so that what says less is found in them.
    for place in sorted(places, key=_known_first):
        if not any(place.same(known) for known in found):
            found.append(place)
    return found
