"""What MPI ranks run; mpirun or srun starts it for one cell (hyperslab/cases/mpi/launch.py)."""

import os

from hyperslab.measuring.parent import end_with_parent

# First of all, as what follows takes a second: a launcher that is killed leaves nothing behind.
end_with_parent(os.getppid())

from hyperslab.cases.mpi.program import main  # noqa: E402

if __name__ == "__main__":
    main()
