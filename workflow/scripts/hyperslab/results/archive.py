"""Archives: files in a tar, compressed by xz, that come out within bounds or not at all.

`tar xf` opens them, too. The same files always give the same bytes.
"""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

MIB = 2**20
# A record of the largest study here has 30 kB, all of them together 13 MB.
MOST_MEMBER_BYTES = 16 * MIB
MOST_BYTES = 1024 * MIB
# Decompressing what the strongest preset made takes 65 MiB; a header can ask for 4 GiB.
DECOMPRESSION_BYTES = 128 * MIB
PIECE = 2**16


class ArchiveError(Exception):
    """An archive that cannot be read or made; the text is one line without the archive's name."""


class _Bounded:
    """Decompressed bytes, piece by piece; raises ArchiveError for damage and for more than MOST_BYTES."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DECOMPRESSION_BYTES)
        self._count = 0

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end."""
        parts: list[bytes] = []
        wanted = size
        while wanted and not self._decompressor.eof:
            fed = self._file.read(PIECE) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not fed:
                raise ArchiveError("it ends too early")
            parts.append(self._decompressor.decompress(fed, wanted))
            wanted -= len(parts[-1])
        self._count += size - wanted
        if self._count > MOST_BYTES:
            raise ArchiveError(f"it holds more than {MOST_BYTES // MIB} MiB")
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """Return `size` bytes."""
        content = self.read(size)
        if len(content) < size:
            raise ArchiveError("it ends too early")
        return content

    def finish(self) -> None:
        """Read to the end, where the checksum of everything stands and only zeros may lie before."""
        while piece := self.read(PIECE):
            if piece.strip(b"\0"):
                raise ArchiveError("something follows its last file")
        if self._decompressor.unused_data or self._file.read(1):
            raise ArchiveError("something follows its end")


def members(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of every file of an archive, in order.

    Only when it has come to its end is it known to be whole. Raises ArchiveError for a file that is no such
    archive, is damaged, or holds anything but files of at most MOST_MEMBER_BYTES each.
    """
    try:
        with file.open("rb") as opened:
            bounded = _Bounded(opened)
            while (header := bounded.exactly(tarfile.BLOCKSIZE)).strip(b"\0"):
                info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
                if info.type != tarfile.REGTYPE:
                    raise ArchiveError(f"{info.name!r} is not a file")
                if not 0 <= info.size <= MOST_MEMBER_BYTES:
                    raise ArchiveError(f"{info.name!r} has more than {MOST_MEMBER_BYTES // MIB} MiB")
                content = bounded.exactly(info.size)
                bounded.exactly(-info.size % tarfile.BLOCKSIZE)
                yield info.name, content
            bounded.finish()
    except (lzma.LZMAError, tarfile.TarError, UnicodeDecodeError) as error:
        raise ArchiveError(f"not readable ({' '.join(str(error).split())})") from None
    except OSError as error:
        raise ArchiveError(f"cannot be read: {error.strerror}") from None


def write(file: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Make an archive of (name, content) pairs; raises ArchiveError for one that `members` would not read."""
    # The strongest, with what suits text: what came before tells more than where a byte lies (xz(1)).
    strongest = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}
    with (
        lzma.open(file, "wb", filters=[strongest]) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in files:
            if len(content) > MOST_MEMBER_BYTES:
                raise ArchiveError(f"{name} has more than {MOST_MEMBER_BYTES // MIB} MiB")
            info = tarfile.TarInfo(name)
            info.size = len(content)
            try:
                archive.addfile(info, io.BytesIO(content))
            except ValueError as error:
                raise ArchiveError(f"{name}: {error}") from None
