"""Runs tests/refusals.sql: what admins may not write is refused in words, or by a rule whose name says why."""

import re

import asyncpg
import pytest

from shared.db.database import Address
from tests.support.documents import document
from tests.support.source_tree import ROOT
from tests.test_admin_sql import PEOPLE, run

REFUSALS = re.findall(r"\n\n((?:.+\n)*?)-- refused: (.+)", (ROOT / "tests/refusals.sql").read_text("utf-8"))
# What the program stores at its start.
WORDS = """
INSERT INTO known_words (kind, word) VALUES ('module', 'knowledge'), ('platform', 'discord'), ('platform', 'slack'),
    ('model', 'gpt-4o-mini'), ('provider', 'openai');
"""
# Names of what refuses a row of these tables.
REFUSING = """
SELECT conname AS name FROM pg_constraint WHERE contype IN ('c', 'u', 'x') AND conrelid = ANY ($1::text[]::regclass[])
UNION SELECT indexrelid::regclass::text FROM pg_index
WHERE indisunique AND NOT indisprimary AND indrelid = ANY ($1::text[]::regclass[])
"""


async def test_what_is_refused_is_named_by_its_rule_or_in_words(address: Address, subtests: pytest.Subtests) -> None:
    await run(address, PEOPLE + WORDS)
    for sql, words in REFUSALS:
        with subtests.test(words.strip()):
            # One text is one transaction: what is refused leaves nothing.
            with pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.RaiseError)) as error:
                await run(address, sql)
            assert words.strip() in str(error.value)


async def test_every_rule_on_people_personas_and_agents_refuses_something(owner: asyncpg.Connection) -> None:
    names = " ".join(words for _, words in REFUSALS)
    # Columns that only the program writes.
    internal = {
        "users_tokens_used_this_month_is_not_negative",
        "users_tokens_reserved_is_not_negative",
        "agents_card_is_an_object",
        "agents_card_needs_a_url",
    }
    constraints = {
        row["name"] for row in await owner.fetch(REFUSING, ["users", "user_platform_links", "personas", "agents"])
    }
    assert {rule for rule in constraints - internal if f'"{rule}"' not in names} == set()
    reference = document("docs/reference/tables.md").text
    assert {rule for rule in constraints if f"`{rule}`" not in reference} == set()
