"""What MPI ranks run; mpirun or srun starts it for one cell (hyperslab/mpi/launch.py)."""

from hyperslab.mpi.program import main

if __name__ == "__main__":
    main()
