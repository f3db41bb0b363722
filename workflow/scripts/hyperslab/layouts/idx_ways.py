"""The ways in which MPI ranks write sub-volumes of an array that is stored in IDX."""

from __future__ import annotations

from typing import Literal, get_args

# Each level has a time of its own.
LevelByLevel = Literal["per-level", "per-level-kept", "per-level-fast-reopened", "per-level-fast"]
# Into the blocks of a dataset, and beside it the same bytes in no order.
IdxWay = Literal["token", LevelByLevel, "aggregated", "plain", "plain-writeback"]
LEVEL_BY_LEVEL, WAYS = get_args(LevelByLevel), get_args(IdxWay)
