"""The libraries of others that the page and its tests run are those that their makers have published, with licences."""

import hashlib
import re
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

LINE = re.compile(r"^([0-9a-f]{64})  (\S+) +(\S+@[\d.]+) +(\S.*?)  +(\S+)$", re.MULTILINE)


@pytest.mark.parametrize("folder", ["adapters/web/static/vendor", "tests/adapters/web/vendor"], ids=["page", "tests"])
def test_every_library_has_the_hash_and_the_licence_that_are_noted(folder: str) -> None:
    vendor: Path = ROOT / folder
    entries = {match[2]: match for match in LINE.finditer((vendor / "VENDOR.txt").read_text("utf-8"))}
    licences = (vendor / "LICENCES.txt").read_text("utf-8")

    assert entries.keys() == {path.name for path in vendor.glob("*.js")}
    for name, line in entries.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == line[1], name
        assert f"==== {line[3]}" in licences
