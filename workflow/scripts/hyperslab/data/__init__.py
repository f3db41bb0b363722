"""Data: what fills an array, and the boxes and tiles in which it is asked for. Knows no format."""
