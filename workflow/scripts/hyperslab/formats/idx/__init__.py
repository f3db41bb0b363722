"""IDX, version 6, written and read by numpy; OpenVisus beside it."""
