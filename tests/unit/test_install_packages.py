"""The set-up says how far it is and how long it took, and fails as pip does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import install_packages
from install_packages import Installation

LOCK = "a==1 \\\n    --hash=sha256:0\nb-c.d==2 ; python_version < '3' \\\n    --hash=sha256:1\ne==3\n"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "some.lock"
    path.write_text(LOCK, encoding="utf-8")
    return path


def test_packages_are_counted_as_pip_names_them(lock: Path) -> None:
    found = Installation(lock)
    assert found.text() == "  0 of 3 packages downloaded, 0 s so far"
    found.hear("Ignoring b-c.d: markers 'python_version < \"3\"' don't match your environment")
    found.hear("Collecting a==1 (from -r some.lock (line 1))")
    assert found.text() == "  1 of 2 packages downloaded, 0 s so far"
    found.hear("Requirement already satisfied: e==3 in somewhere")
    found.hear("Installing collected packages: a")
    assert found.text() == "  0 of 1 packages installed, 0 s so far"


@pytest.mark.parametrize("status", [0, 3])
def test_it_ends_as_pip_does(
    lock: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], status: int
) -> None:
    program = f"import sys, time; time.sleep(0.3); sys.stderr.write('no such wheel\\n'); sys.exit({status})"
    monkeypatch.setattr(install_packages, "PIP", ("-c", program))
    monkeypatch.setattr(install_packages, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(sys, "argv", ["install_packages.py", str(lock)])
    assert install_packages.main() == status
    printed, complained = capfd.readouterr()
    assert "  0 of 3 packages downloaded" in printed
    assert ("done in" in printed) == (status == 0)
    assert complained == "no such wheel\n"
