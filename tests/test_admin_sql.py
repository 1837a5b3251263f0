"""Runs every statement of docs/admin-sql.md and checks that it takes effect with the next message."""

import json
from typing import Any

import asyncpg
import pytest

from shared.db.database import Address
from shared.messages import AgentResponse
from shared.models import Base
from shared.settings import Settings
from tests.standins.openai_api import Answer, Fault
from tests.support.documents import Block, document
from tests.support.given_database import connect
from tests.support.house import House

ACCOUNT = "80351110224678912"
SERVER = "81384788765712384"
CHANNEL = "381870553235193857"
REFUSED = "-- refused: "
BLOCKS = document("docs/admin-sql.md").blocks("sql")
STATEMENTS = [block for block in BLOCKS if REFUSED not in block.text]
REFUSALS = [block for block in BLOCKS if REFUSED in block.text]

PEOPLE = """
INSERT INTO users DEFAULT VALUES; INSERT INTO users DEFAULT VALUES;
INSERT INTO user_platform_links (user_id, platform, platform_user_id) VALUES
    (1, 'discord', '80351110224678912'), (2, 'slack', 'U024BE7LH');
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings in which guests have one of several modules."""
    return settings.model_copy(update={"default_guest_modules": ("knowledge",)})


def statement(heading: str) -> str:
    found = [block.text for block in STATEMENTS if block.heading == heading]
    assert len(found) == 1, f"{heading} stands in docs/admin-sql.md once"
    return found[0]


async def run(address: Address, sql: str, *, as_owner: bool = False) -> None:
    """Run statements as psql does: one text, no parameters."""
    connection = await connect(address, as_owner=as_owner)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def admin(house: House, heading: str) -> None:
    """Run the statement under a heading of docs/admin-sql.md."""
    await run(house.app.database.address, statement(heading), as_owner=True)


async def hears(house: House, content: str = "hello", **given: Any) -> AgentResponse:
    """Send a message of the person with the Discord account on the server."""
    return await house.hears(
        content, **{"platform": "discord", "user": ACCOUNT, "server": SERVER, "channel": "general", **given}
    )


def asked(house: House) -> dict[str, Any]:
    body: dict[str, Any] = house.model.requests[-1].body
    return body


def prompt(house: House) -> str:
    return str(asked(house)["messages"][0]["content"])


def offered(house: House) -> set[str]:
    """Return the modules whose tools the model was offered last."""
    return {each["function"]["name"].partition("__")[0] for each in asked(house).get("tools", ())}


@pytest.mark.parametrize("as_owner", [False, True], ids=["parley_app", "owner"])
async def test_all_statements_of_the_page_run_in_order(address: Address, *, as_owner: bool) -> None:
    await run(address, PEOPLE)

    for block in STATEMENTS:
        try:
            await run(address, block.text, as_owner=as_owner)
        except asyncpg.PostgresError as error:
            pytest.fail(f"{block.heading}: {error}")


@pytest.mark.parametrize("block", REFUSALS, ids=[block.text.partition(REFUSED)[2].strip() for block in REFUSALS])
async def test_invalid_values_are_refused_with_the_constraint_on_the_page(address: Address, block: Block) -> None:
    await run(address, PEOPLE)
    sql, _, words = block.text.partition(REFUSED)

    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
        await run(address, sql)

    assert words.strip() in str(refused.value)


def test_the_page_lists_every_constraint_on_people_personas_and_agents() -> None:
    page = document("docs/admin-sql.md").text
    # Columns that only the program writes.
    internal = {
        "users_tokens_used_this_month_is_not_negative",
        "users_tokens_reserved_is_not_negative",
        "agents_card_is_an_object",
        "agents_card_needs_a_url",
    }
    tables = [Base.metadata.tables[name] for name in ("users", "user_platform_links", "personas", "agents")]
    rules = {str(getattr(each, "name", "")) for table in tables for each in (*table.constraints, *table.indexes)}

    refused = {rule for rule in rules if not rule.startswith(("pk_", "fk_", "ix_"))}
    assert {rule for rule in refused - internal if rule not in page} == set()


async def test_a_persona_in_planner_mode_plans_and_the_modes_can_be_compared(house: House) -> None:
    house.model.play(["Called.", '{"status": "done", "response": "Planned."}', "Called again."])
    await admin(house, "Add a persona for a server")
    said = [(await hears(house)).content]
    await admin(house, "Let a persona plan")
    said.append((await hears(house)).content)
    await admin(house, "Leave the mode to the setting")
    said.append((await hears(house)).content)

    assert said == ["Called.", "Planned.", "Called again."]
    rows = await house.sql(statement("Which mode does better").rstrip().rstrip(";"))
    found = {row.loop_mode: (row.turns, row.finished_percent, row.failed, row.waves, row.calls) for row in rows}
    assert found == {"native": (2, 100, 0, 0, 1), "planner": (1, 100, 0, 0, 1)}


async def test_a_budget_of_zero_refuses_the_next_message_and_lifting_it_serves_the_one_after(house: House) -> None:
    assert (await hears(house)).error is None

    await admin(house, "Stop somebody from spending")
    refused = await hears(house)
    assert refused.error == "budget_exhausted"
    assert refused.content.startswith("You have used this month's budget; it renews on ")
    assert house.model.count == 1

    await admin(house, "Lift the limit")
    assert (await hears(house)).error is None


async def test_a_budget_can_be_set_and_its_period_restarted(house: House) -> None:
    await hears(house)
    await house.sql("UPDATE users SET tokens_used_this_month = 60000")
    await admin(house, "Set a budget")
    assert (await hears(house)).error == "budget_exhausted"

    await admin(house, "Begin somebody's period anew")
    answered = await hears(house)

    assert answered.error is None
    assert await house.value("SELECT token_budget_monthly FROM users") == 50000
    assert await house.value("SELECT tokens_used_this_month FROM users") == answered.usage.total


async def test_the_budget_of_all_guests_changes_no_other_budget(house: House) -> None:
    await hears(house)
    await hears(house, user="boss", channel="office")
    await house.sql("UPDATE users SET permission_level = 'user' WHERE id = 2")

    await admin(house, "Set the budget of all guests")

    assert [tuple(row) for row in await house.sql("SELECT id, token_budget_monthly FROM users ORDER BY id")] == [
        (1, 2000), (2, 5000),
    ]  # fmt: skip


async def test_a_promoted_person_has_more_tools_and_no_limit_from_the_next_message_on(house: House) -> None:
    await hears(house)
    assert offered(house) == {"knowledge"}

    await admin(house, "Promote somebody")
    await hears(house)
    assert offered(house) > {"knowledge"}
    assert await house.value("SELECT token_budget_monthly FROM users") is None

    await admin(house, "Demote somebody")
    assert await house.value("SELECT token_budget_monthly FROM users") == 20000


async def test_two_accounts_become_one_user_who_pays_from_one_budget(house: House) -> None:
    await hears(house)
    await hears(house, platform="slack", user="U024BE7LH")
    await admin(house, "Make two accounts one user")

    used = await house.value("SELECT tokens_used_this_month FROM users WHERE id = 1")
    answered = await hears(house, platform="slack", user="U024BE7LH")

    assert await house.value("SELECT user_id FROM turns ORDER BY id DESC LIMIT 1") == 1
    now = await house.value("SELECT tokens_used_this_month FROM users WHERE id = 1")
    assert now == used + answered.usage.total


async def test_a_name_that_an_admin_sets_is_what_the_model_reads(house: House) -> None:
    await hears(house, username="xX_ada_Xx")
    await admin(house, "Set a name and a time zone")

    await hears(house, "who am I?", username="xX_ada_Xx")

    assert "Ada: who am I?" in json.dumps(asked(house)["messages"])
    assert "Europe/Berlin" in json.dumps(asked(house)["messages"])


async def test_the_most_specific_persona_answers(house: House) -> None:
    await hears(house)
    assert prompt(house).startswith("You are Parley")

    await admin(house, "Add a default persona")
    await hears(house)
    assert prompt(house).startswith("You are a patient teacher.")

    await admin(house, "Add a persona for a server")
    await hears(house)
    assert prompt(house).startswith("You are the librarian of the Night Owls reading club.")

    await admin(house, "Add a persona for a channel")
    await hears(house, channel=CHANNEL)
    assert prompt(house).startswith("You know the rules of chess")
    await hears(house)
    assert prompt(house).startswith("You are the librarian")

    await hears(house, server="another")
    assert prompt(house).startswith("You are a patient teacher.")

    await admin(house, "Add a persona for a platform")
    await hears(house, platform="slack", user="U024BE7LH")
    assert prompt(house).startswith("You work here.")


async def test_a_new_default_persona_and_new_instructions_are_used_for_the_next_message(house: House) -> None:
    await admin(house, "Add a default persona")
    await admin(house, "Add a persona for a server")
    await admin(house, "Switch the default persona")

    await hears(house, server="another")
    assert prompt(house).startswith("You are the librarian of the Night Owls")

    await admin(house, "Change the instructions")
    await hears(house, server="another")
    assert prompt(house).startswith("You are the librarian. Answer in two sentences.")


async def test_a_persona_can_be_moved_and_removed(house: House) -> None:
    await admin(house, "Add a persona for a channel")
    await admin(house, "Move a persona to another place")
    await hears(house, channel=CHANNEL)
    assert prompt(house).startswith("You are Parley")
    await hears(house, platform="web")
    assert prompt(house).startswith("You know the rules of chess")

    await admin(house, "Remove a persona")
    await hears(house, platform="web")
    assert prompt(house).startswith("You are Parley")
    assert await house.value("SELECT count(*) FROM turns WHERE persona_id IS NULL") == 3


async def test_allowed_modules_limit_the_tools_of_everybody_in_the_place(house: House) -> None:
    await hears(house)
    await admin(house, "Promote somebody")
    await admin(house, "Add a persona for a server")

    await admin(house, "Allow only some modules")
    await hears(house)
    assert offered(house) == {"knowledge"}

    await admin(house, "Allow every module again")
    await hears(house)
    assert offered(house) > {"knowledge"}


async def test_model_and_limits_of_a_persona_reach_the_model(house: House) -> None:
    await admin(house, "Add a persona for a server")
    await admin(house, "Set the model and the limits of a persona")
    house.model.play(lambda _body, _number: Answer("", tool_calls=[("knowledge__list_memories", {})]))

    await hears(house, "go on")

    body = asked(house)
    assert body["model"] == "gpt-4.1-mini"
    assert 600 in {body.get("max_tokens"), body.get("max_completion_tokens")}


async def test_an_agent_can_be_added_restricted_to_admins_and_switched_off(house: House) -> None:
    await admin(house, "Add an agent")
    await hears(house)
    assert "- archivist: Finds things in the files" in json.dumps(asked(house)["tools"])

    await admin(house, "Add an agent of another installation")
    await admin(house, "Choose who may use an agent")
    await hears(house)
    assert "agents" not in offered(house)

    await admin(house, "Promote somebody")
    await hears(house)
    assert "- travel-desk: Books trains and hotels." in json.dumps(asked(house)["tools"])
    await admin(house, "Switch an agent off")
    await hears(house)
    assert "archivist" not in json.dumps(asked(house)["tools"])


async def test_a_persona_with_a_list_of_modules_uses_agents_only_when_it_lists_them(house: House) -> None:
    await admin(house, "Add an agent")
    await admin(house, "Add a persona for a server")
    await admin(house, "Allow only some modules")
    await hears(house)
    assert offered(house) == {"knowledge"}

    await admin(house, "Let a persona with a list of modules use agents")
    await hears(house)
    assert offered(house) == {"knowledge", "agents"}


async def test_a_parked_message_can_be_retried(house: House) -> None:
    house.model.play([Fault(status=400, body={"error": {"message": "no"}})])
    failed = await hears(house)
    assert failed.error == "models_unavailable"
    assert await house.value("SELECT status FROM inbox") == "failed"
    # The sweeper only considers messages that are old enough.
    await house.sql("UPDATE inbox SET created_at = now() - interval '1 minute'")
    house.model.play(["Here I am."])

    await admin(house, "Retry parked messages")

    response = await house.app.events.response(await house.value("SELECT id FROM inbox"))
    assert response.content == "Here I am."


async def test_deleting_a_person_leaves_nothing_that_they_wrote(house: House) -> None:
    house.model.play([Answer("", tool_calls=[("knowledge__remember", {"content": "The secret is marzipan."})]), "ok"])
    await hears(house, "my secret is marzipan", username="Adabella")
    await hears(house, "marzipan again", server=None, channel="dm-ada", username="Adabella")
    await hears(house, "what did she say?", user="bob", username="Bob")

    assert {"memories.content", "messages.content", "turn_events.payload"} <= set(await traces(house))
    await admin(house, "Delete everything of a person")

    assert await traces(house) == []
    assert await house.value("SELECT count(*) FROM users") == 1
    assert await house.value("SELECT count(*) FROM token_logs WHERE user_id IS NULL") == 3


async def traces(house: House) -> list[str]:
    """Return the columns that still contain something about the deleted person."""
    columns = await house.sql(
        "SELECT format('%I.%I', table_name, column_name) AS name, format("
        "    'SELECT count(*) FROM %I WHERE %I::text ~* $1', table_name, column_name) AS query"
        " FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'procrastinate%'"
    )
    # As the owner, who sees everybody's memories.
    connection = await connect(house.app.database.address)
    try:
        pattern = f"marzipan|adabella|dm-ada|{ACCOUNT}"
        return [column.name for column in columns if await connection.fetchval(column.query, pattern)]
    finally:
        await connection.close()
