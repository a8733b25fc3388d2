"""make audit: each pinned dependency is asked for, and one that cannot be asked for is no pass."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!]*")


def test_every_pin_is_exact_so_that_nothing_has_to_be_resolved() -> None:
    lines = (ROOT / "conf" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if PIN.fullmatch(line) is None] == []
    assert len({line.partition("==")[0].lower() for line in pins}) == len(pins)


def test_all_pins_are_asked_for_and_one_that_is_not_found_fails() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "audit", "ARGS=--ignore-vuln ID"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    (command,) = (line.split() for line in shown.stdout.splitlines() if "bin/pip-audit" in line)
    assert command[1:] == [
        "--requirement", "conf/constraints.txt", "--no-deps", "--disable-pip", "--strict",
        "--progress-spinner", "off", "--ignore-vuln", "ID",
    ]  # fmt: skip
