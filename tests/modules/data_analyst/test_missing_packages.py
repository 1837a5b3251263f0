"""Without the extra `analysis`, the operator is told what to install."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from modules.data_analyst import charts, duckdb_engine

CHART = {"kind": "bar", "labels": ["a"], "values": [1], "measure": "count", "title": "A"}


@pytest.mark.parametrize(
    ("program", "job", "package"), [(duckdb_engine.PROGRAM, {}, "duckdb"), (charts.PROGRAM.path, CHART, "matplotlib")]
)
def test_a_program_without_its_package_names_it(program: Path, job: object, package: str) -> None:
    # -S: the installed packages are not found.
    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(program)], input=json.dumps(job), capture_output=True, text=True, check=False
    )

    assert ended.returncode == duckdb_engine.REFUSED == charts.REFUSED
    assert f"{package} is missing" in ended.stderr
    assert ended.stdout == ""
