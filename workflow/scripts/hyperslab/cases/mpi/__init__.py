"""MPI ranks: what starts them (launch), and what they run in an environment of their own (program)."""
