"""The contracts of dummy-a2a, against Parley as an agent."""

import asyncio
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx

from tests.adapters.web.conftest import TOKEN, Site
from tests.conformance.environment import PACKAGES, Verdict, open_door
from tests.standins.openai_api import Answer, Fault, Reply
from tests.standins.openai_api.script import Body, last_user_text

SUITE = "A2A"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Parley-Platform": "suite", "Parley-User": "peer"}
PERSON = "SELECT user_id FROM user_platform_links WHERE platform = 'suite'"
USE_UP = f"UPDATE users SET tokens_used_this_month = token_budget_monthly WHERE id = ({PERSON})"  # noqa: S608
RENEW = f"UPDATE users SET tokens_used_this_month = 0 WHERE id = ({PERSON})"  # noqa: S608

ONE_MESSAGE = "a task takes one message: a question ends it, and the next message goes on in the same context"
LINKS = "files of an answer are parts with a signed link, not raw bytes"
NO_PUSH = "no push notifications: no requests are sent to an address that a caller chooses"
NO_EXTENSIONS = "the card advertises no extensions"
NOT_APPLICABLE = {
    "card.extended-card": "the card advertises no extended card",
    "state.input-required": ONE_MESSAGE,
    "multi-turn.input-required-follow-up": ONE_MESSAGE,
    "state.auth-required": "credentials are never asked for in a message",
    "multi-turn.auth-required-follow-up": "credentials are never asked for in a message",
    "content.file-part": LINKS,
    "content.data-part": "answers are text and files; a peer's data parts are read as JSON",
    "content.multi-artifact": "an answer is one artifact with several parts",
}
APPLICABLE_EXTENSIONS = ("ext.unknown-ignored",)


async def run(home: Path) -> list[Verdict]:
    """Return what came of each contract."""
    async with open_door(home) as site:
        site.parley.model.play(answer)
        # After a failure the model is out for a while.
        contracts = sorted(load_contracts(), key=lambda contract: str(contract.id) == "state.failed")
        return [await _verify(site, contract) for contract in contracts]


def load_contracts() -> list[Any]:
    """Return the contracts; their package's server needs another release of the protocol's library, so it stays out."""
    package = ModuleType("dummy_a2a")
    package.__path__ = [str(PACKAGES / "dummy_a2a")]
    sys.modules["dummy_a2a"] = package
    return list(importlib.import_module("dummy_a2a.contracts").a2a_contracts)


def answer(body: Body, _number: int) -> Reply:
    """Do what the contracts' commands say."""
    command = last_user_text(body).partition("<context>")[0].rpartition(": ")[2].strip()
    if command == "fail":
        return Fault(status=401)
    if command == "slow":
        return Answer("word " * 40, chunk_delay=0.5)
    return Answer(f"You said: {command}", chunk_chars=4, chunk_delay=0.02)


def why_not(contract: str) -> str | None:
    """Return the reason for which a contract does not apply."""
    if contract.startswith("push."):
        return NO_PUSH
    if contract.startswith("ext.") and contract not in APPLICABLE_EXTENSIONS:
        return NO_EXTENSIONS
    return NOT_APPLICABLE.get(contract)


async def _verify(site: Site, contract: Any) -> Verdict:
    if (reason := why_not(contract.id)) is not None:
        return Verdict(SUITE, contract.id, None, reason)

    async def to_endpoint(request: httpx.Request) -> None:
        if request.url.path == "/":
            request.url = request.url.copy_with(path="/a2a")

    headers = HEADERS | sys.modules["dummy_a2a.contracts"].A2A_JSONRPC_DEFAULT_HEADERS
    if contract.id == "state.rejected":
        await site.parley.sql(USE_UP)
    try:
        hooks: dict[str, Any] = {"request": [to_endpoint]}
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(base_url=site.url, headers=headers, event_hooks=hooks, timeout=40) as client,
        ):
            await contract._verify_fn(client)  # `verify` makes a client that has no token
    except (AssertionError, LookupError, TypeError, ValueError, TimeoutError, httpx.HTTPError) as error:
        return Verdict(SUITE, contract.id, False, f"{type(error).__name__}: {error}")
    finally:
        await site.parley.sql(RENEW)
    return Verdict(SUITE, contract.id, True)
