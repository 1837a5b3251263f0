"""What the apps on Slack and Discord ask for stands in the docs, each with its reason, and nothing else does."""

import re
from collections.abc import Iterable

import pytest

from adapters.discord.doctor import INVITE, NEEDED, USEFUL
from adapters.discord.transport.library import INTENTS
from adapters.slack.install import SCOPES
from adapters.slack.install.manifest import EVENTS, OF_PANEL
from tests.support.source_tree import ROOT

REASON_WORDS = 3
OAUTH_SCOPES = INVITE.partition("&scope=")[2].partition("&")[0].split("+")
# `messages` stands for those on servers and the direct ones.
INTENT_NAMES = [name for name, is_on in INTENTS if is_on and name != "messages"]


def list_reasons(page: str, heading: str) -> dict[str, str]:
    """Return the reasons of the table whose first column has this heading, by each of the names in a row."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table is not None
    rows = [row.strip("|").split("|", 1) for row in table[1].splitlines()]
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("slack.md", "scope", SCOPES),
        ("slack.md", "event", {*EVENTS, *OF_PANEL}),
        ("discord.md", "OAuth scope", OAUTH_SCOPES),
        ("discord.md", "permission", {*NEEDED, *USEFUL}),
        ("discord.md", "intent", INTENT_NAMES),
    ],
)
def test_everything_that_is_asked_for_has_its_reason(page: str, heading: str, names: Iterable[str]) -> None:
    reasons = list_reasons(page, heading)

    assert set(reasons) == set(names)
    assert [name for name, reason in reasons.items() if len(reason.split()) < REASON_WORDS] == []


def test_the_review_of_large_bots_is_mentioned() -> None:
    assert "100 servers" in (ROOT / "docs" / "discord.md").read_text("utf-8")
