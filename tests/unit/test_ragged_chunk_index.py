"""An address in a chunk index that was half written: it leads beyond the file, or to what is no block."""

from __future__ import annotations

import errno
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab import ragged
from hyperslab.ragged import chunk_index
from hyperslab.ragged.checksum import CHECKSUM, lookup3
from hyperslab.ragged.chunk_index import HEADER, mended

CHUNKS = 600
SIGNATURES = (b"EAIB", b"EASB")


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A file whose chunks are found through data blocks, of which a super block lists some."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("a", (0,), "i4", chunks=(2,), maxshape=(None,))
        dataset.resize((2 * CHUNKS,))
        dataset[:] = np.arange(2 * CHUNKS)
    return path


def pointer(content: bytes, signature: bytes) -> int:
    """Where the first address of a data block lies in the first block with this signature."""
    at = content.index(signature)
    blocks = [place for place in range(len(content)) if content.startswith(b"EADB", place)]
    (first,) = sorted(
        found for block in blocks if (found := content.find(block.to_bytes(8, "little"), at, at + 400)) > 0
    )[:1]
    return first


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("address", ["beyond", "half", "no block", "at the end"])
def test_only_the_block_with_the_address_is_mended(grown: Path, signature: bytes, address: str) -> None:
    content = grown.read_bytes()
    place = pointer(content, signature)
    block = content[place : place + 8]
    written = {
        "beyond": (10 * len(content)).to_bytes(8, "little"),
        # Below it was nowhere: all bits are one.
        "half": block[:3] + b"\xff" * 5,
        "no block": (int.from_bytes(block, "little") + 1).to_bytes(8, "little"),
        "at the end": (len(content) - 2).to_bytes(8, "little"),
    }[address]
    grown.write_bytes(content[:place] + written + content[place + 8 :])
    ((start, before),) = list(mended(grown))
    assert before.startswith(signature) and start < place < start + len(before)
    after = grown.read_bytes()
    changed = [at for at, (old, new) in enumerate(zip(content, after, strict=True)) if old != new]
    # But for the address itself nothing is new but the checksum, which is right.
    end = start + len(before) - CHECKSUM.size
    assert set(changed) <= {*range(place, place + 8), *range(end, end + CHECKSUM.size)}
    assert CHECKSUM.pack(lookup3(after[start:end])) == after[end : end + CHECKSUM.size]
    assert not list(mended(grown))


def test_a_header_that_is_left_over_leads_to_no_block_of_another_array(grown: Path) -> None:
    content = grown.read_bytes()
    place = content.index(b"EAHD")
    header = bytearray(content[place : place + HEADER.size])
    # As if this array had had elements of another length: its blocks would end elsewhere.
    header[6] += 4
    grown.write_bytes(content + bytes(header) + CHECKSUM.pack(lookup3(bytes(header))))
    before = grown.read_bytes()
    assert not list(mended(grown))
    assert grown.read_bytes() == before


def torn(path: Path, signature: bytes) -> bytes:
    """The file with a wrong checksum in the first block with this signature; returns all of it."""
    content = bytearray(path.read_bytes())
    content[pointer(bytes(content), signature)] ^= 1
    path.write_bytes(content)
    return bytes(content)


def test_what_cleared_a_mark_and_was_killed_then_is_done_to_its_end(grown: Path) -> None:
    assert not ragged.recover(grown)
    content = torn(grown, b"EAIB")
    # The mark is there no more; the address of a chunk's block leads nowhere.
    with pytest.raises(ragged.RaggedError, match="cannot be made whole"):
        ragged.recover(grown)
    assert grown.read_bytes() == content


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_file_is_as_it_was_where_mending_fails(
    grown: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    content = torn(grown, b"EAIB")

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(chunk_index, "_mend", fails)
    with pytest.raises(type(error)):
        ragged.recover(grown)
    assert grown.read_bytes() == content


def test_a_block_that_is_cut_short_is_left_as_it_is(grown: Path) -> None:
    content = grown.read_bytes()
    block = int.from_bytes(content[(place := pointer(content, b"EAIB")) : place + 8], "little")
    # Its signature is there, and the rest is not.
    cut = content[: block + 4]
    grown.write_bytes(cut)
    assert not list(mended(grown))
    assert grown.read_bytes() == cut
