"""What a file holds: every object once, by address, and every link of every group in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from h5py import Dataset, h5, h5a, h5f, h5g, h5l, h5o, h5p, h5t

from hyperslab.rewriting import RewriteError

KINDS = {h5o.TYPE_GROUP: "group", h5o.TYPE_DATASET: "dataset", h5o.TYPE_NAMED_DATATYPE: "named datatype"}
LINK_KINDS = {h5l.TYPE_HARD: "hard link", h5l.TYPE_SOFT: "soft link", h5l.TYPE_EXTERNAL: "external link"}


@dataclass(frozen=True)
class Link:
    """One name in a group: the `address` of a hard link's object, or what another link says."""

    name: bytes
    kind: int
    encoding: int
    address: int
    value: bytes | tuple[bytes, ...] = b""


@dataclass
class Node:
    """One object: its address, its kind (h5o.TYPE_…), its first path, and a group's links in order."""

    address: int
    kind: int
    path: bytes
    header: int
    links: list[Link] = field(default_factory=list)


def shown(path: bytes) -> str:
    """Return a path or name for messages."""
    return path.decode(errors="backslashreplace")


def below(path: bytes, name: bytes) -> bytes:
    """Return the path of a group's member."""
    return path + name if path == b"/" else path + b"/" + name


def address_of(thing: Any) -> int:
    """Return the address of an open object or committed datatype."""
    return int(h5o.get_info(thing).addr)


def committed_address(datatype: h5t.TypeID) -> int | None:
    """Return the address of a datatype that has a place of its own in the file, else None."""
    return address_of(datatype) if datatype.committed() else None


def _by_creation(creation: Any, get: str) -> int:
    """Return the index by which to iterate: that of creation, where the group or object keeps one."""
    tracked = getattr(creation, get)() & h5p.CRT_ORDER_TRACKED
    return int(h5.INDEX_CRT_ORDER if tracked else h5.INDEX_NAME)


def links_of(group: h5g.GroupID, path: bytes = b"") -> list[Link]:
    """Return the links of a group, in order of creation where it is kept, else by name."""
    found: list[tuple[bytes, Any]] = []
    links = group.links
    order = _by_creation(group.get_create_plist(), "get_link_creation_order")

    def visit(name: bytes, info: Any) -> None:
        # The library reuses what it hands over.
        found.append((name, (info.type, info.cset, info.u)))

    links.iterate(visit, idx_type=order, info=True)
    result = []
    for name, (kind, encoding, address) in found:
        if kind not in LINK_KINDS:
            where = shown(below(path, name))
            raise RewriteError(f"{where}: is a link of a kind (number {kind}) that only its program knows")
        if kind == h5l.TYPE_HARD:
            result.append(Link(name, kind, encoding, int(address)))
        else:
            result.append(Link(name, kind, encoding, 0, links.get_val(name)))
    return result


# What the attribute CLASS of a dimension scale says.
SCALE = "DIMENSION_SCALE"


def attributes_of_scales(dataset: Dataset) -> frozenset[str]:
    """Return the names of a dataset's attributes by which HDF5 keeps dimension scales.

    CLASS and NAME of what is no scale itself are its user's: images and tables have such, too.
    """
    said = dataset.attrs.get("CLASS")
    said = said.decode(errors="replace") if isinstance(said, bytes) else said
    of_itself = ("CLASS", "NAME") if isinstance(said, str) and said == SCALE else ()
    return frozenset(("REFERENCE_LIST", "DIMENSION_LIST", *of_itself))


def attributes_of(thing: Any) -> list[tuple[bytes, int]]:
    """Return (name, character set) of each attribute, in order of creation where it is kept, else by name."""
    found: list[tuple[bytes, int]] = []

    def visit(name: bytes, info: Any) -> None:
        found.append((name, int(info.cset)))

    order = _by_creation(thing.get_create_plist(), "get_attr_creation_order")
    h5a.iterate(thing, visit, index_type=order, info=True)
    return found


def survey(file: h5f.FileID) -> dict[int, Node]:
    """Return address -> object for everything that links lead to, groups before what they hold.

    Raises RewriteError for a link of an unknown kind.
    """
    nodes: dict[int, Node] = {}

    def add(path: bytes) -> Node:
        info = h5o.get_info(file, path)
        node = Node(int(info.addr), int(info.type), path, int(info.hdr.version))
        nodes[node.address] = node
        return node

    waiting = [add(b"/")]
    for node in waiting:
        if node.kind != h5o.TYPE_GROUP:
            continue
        group = h5g.open(file, node.path)
        node.links = links_of(group, node.path)
        for link in node.links:
            if link.kind == h5l.TYPE_HARD and link.address not in nodes:
                waiting.append(add(below(node.path, link.name)))
    return nodes
