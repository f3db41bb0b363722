"""Serialised: ranks write one after the other, each as a process alone would."""

from __future__ import annotations

from hyperslab.formats.idx.parallel.ways import Job, Way
from hyperslab.formats.idx.writing import Writer
from hyperslab.layouts.idx_files import Place


class Token(Way):
    """A rank writes when the one before it has finished."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        # A writer does not tell its phases apart.
        self.spent = {}

    def write(self) -> None:
        if self.rank:
            self.comm.recv(source=self.rank - 1)
        self.write_alone()
        if self.rank + 1 < self.comm.Get_size():
            self.comm.send(None, dest=self.rank + 1)

    def write_alone(self) -> None:
        """Write this rank's sub-volume, while no other rank writes."""
        writer = Writer(self.job.path, self.job.files, self.job.dtype, alone=False)
        for field, values in enumerate(self.job.values):
            writer.write(Place(0, field), self.box.origin, values)
        writer.close()
        self.opened.update(writer.opened)
