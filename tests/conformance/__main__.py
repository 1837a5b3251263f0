"""`python -m tests.conformance` runs suites that others have written, and programs of others, scenario by scenario."""

import argparse
import asyncio
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from shared.log import configure_logging
from shared.settings import prepare_litellm_environment
from tests.conformance import a2a_suite, mcp_suite, oidc_suite, openai_suite
from tests.conformance.environment import NODE, Verdict

SUITES = {"mcp": mcp_suite.run, "a2a": a2a_suite.run, "openai": openai_suite.run, "oidc": oidc_suite.run}


async def run(names: Sequence[str]) -> list[Verdict]:
    """Run these suites, each with a folder of its own."""
    verdicts: list[Verdict] = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"parley-conformance-{name}-", ignore_cleanup_errors=True) as home:
            verdicts += await SUITES[name](Path(home))
    return verdicts


def tell(console: Console, verdicts: Sequence[Verdict]) -> None:
    """Print a line for each scenario, with the reason where it does not apply, and one for each suite."""
    for verdict in verdicts:
        word = {True: "passed", False: "FAILED", None: "does not apply"}[verdict.is_passed]
        detail = f": {verdict.detail}" if verdict.detail else ""
        console.print(f"{verdict.suite}  {verdict.scenario}  {word}{detail}", highlight=False, markup=False)
    for suite in dict.fromkeys(verdict.suite for verdict in verdicts):
        results = [verdict.is_passed for verdict in verdicts if verdict.suite == suite]
        others = results.count(None)
        passed = f"{results.count(True)} of {len(results) - others} passed"
        console.print(f"{suite}: {passed}, {others} of {len(results)} do not apply")


def main() -> None:
    """Run the suites that are named, or all, and exit 1 if a scenario that applies fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this; may be given several times")
    options = parser.parse_args()
    if not NODE.exists():
        sys.exit(f"{NODE} is missing: run make conformance, which makes it")
    configure_logging("ERROR", "console")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    prepare_litellm_environment()
    verdicts = asyncio.run(run(options.suite or tuple(SUITES)))
    tell(Console(width=160, soft_wrap=True), verdicts)
    if any(verdict.is_passed is False for verdict in verdicts):
        sys.exit(1)


if __name__ == "__main__":
    main()
