"""Cases of ragged rows."""
