"""What MPI ranks run; mpirun or srun starts it for one cell (hyperslab/cases/mpi/launch.py)."""

from hyperslab.cases.mpi.program import main

if __name__ == "__main__":
    main()
