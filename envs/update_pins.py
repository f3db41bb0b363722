"""Give every pin in the conda environment files the version of requirements.lock; `make lock` runs it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^(?P<lead>\s*- )?(?P<name>[a-z0-9-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


def versions(text: str) -> dict[str, str]:
    """Package name -> version, of a lock or of an environment file with `name==version` lines."""
    return {pin["name"]: pin["version"] for pin in PIN.finditer(text)}


def updated(text: str, lock: dict[str, str]) -> str:
    """`text` with the lock's version in every pin; raises KeyError for a package that the lock lacks."""
    return PIN.sub(lambda pin: f"{pin['lead'] or ''}{pin['name']}=={lock[pin['name']]}", text)


def main() -> None:
    """Rewrite envs/*.yaml where a pin differs."""
    lock = versions((ROOT / "requirements.lock").read_text())
    for file in sorted((ROOT / "envs").glob("*.yaml")):
        before = file.read_text()
        after = updated(before, lock)
        if after != before:
            file.write_text(after)


if __name__ == "__main__":
    main()
