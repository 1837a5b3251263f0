"""Where large packages are: in the environment of people's code, or in Parley's own."""

import sys
from importlib.util import find_spec
from pathlib import Path

# `make run` and the image make it. numpy and what builds on it are there alone, so that nothing is installed twice.
CODE_ENVIRONMENT = Path(sys.prefix) / "code"


def find_python(package: str, environment: Path = CODE_ENVIRONMENT) -> Path | None:
    """Return an interpreter that can import the package, which Parley itself does not; None where there is none."""
    if any(environment.glob(f"lib/python3.*/site-packages/{package}")):
        return environment / "bin" / "python"
    return Path(sys.executable) if find_spec(package) else None
