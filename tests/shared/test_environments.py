"""Where large packages are found."""

import sys
from pathlib import Path

from shared.environments import find_python


def test_a_package_of_people_s_code_is_not_looked_for_in_parley_s_own_environment(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    (packages / "pytest").mkdir(parents=True)

    assert find_python("pytest", tmp_path) == tmp_path / "bin/python"


def test_without_that_environment_parley_s_own_is_taken_and_a_package_that_is_nowhere_is_not_found(
    tmp_path: Path,
) -> None:
    assert find_python("pytest", tmp_path) == Path(sys.executable)
    assert find_python("no_such_package", tmp_path) is None
