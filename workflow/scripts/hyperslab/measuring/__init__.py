"""Measuring: what stands around a stopwatch. Imports neither tables nor plots nor Snakemake."""
