"""Runs every statement of docs/admin-sql.md and checks that it takes effect with the next message."""

import json
import re
from typing import Any

import asyncpg
import pytest

from agent.personal_data.erasure import finish_erasures
from shared.db.database import Address
from shared.db.roles import ADMIN_ROLE
from shared.messages import AgentResponse
from tests.standins.openai_api import Answer, Fault
from tests.support.connections import connected
from tests.support.documents import document
from tests.support.parley import Parley
from tests.support.source_tree import ROOT

ACCOUNT = "80351110224678912"
SERVER = "81384788765712384"
CHANNEL = "381870553235193857"
STATEMENTS = document("docs/admin-sql.md").blocks("sql")
# What else admins may write, by what it does.
FURTHER = dict(
    re.findall(r"^-- (.+)\n((?:(?!--).+\n)+)", (ROOT / "tests/admin_statements.sql").read_text(), re.MULTILINE)
)

PEOPLE = """
INSERT INTO users DEFAULT VALUES; INSERT INTO users DEFAULT VALUES;
INSERT INTO user_platform_links (user_id, platform, platform_user_id) VALUES
    (1, 'discord', '80351110224678912'), (2, 'slack', 'U024BE7LH');
"""


pytestmark = pytest.mark.settings(default_guest_modules=("knowledge",))


def statement(heading: str) -> str:
    blocks = [block.text for block in STATEMENTS if block.heading == heading]
    assert len(blocks) + (heading in FURTHER) == 1, f"{heading} stands in docs/admin-sql.md once"
    return FURTHER.get(heading) or blocks[0]


async def run(address: Address, sql: str) -> None:
    """Run statements as `parley psql` does: one text, no parameters, as an admin."""
    async with connected(address, role=ADMIN_ROLE) as connection:
        await connection.execute(sql)


async def admin(parley: Parley, heading: str) -> None:
    """Run the statement under a heading of docs/admin-sql.md."""
    await run(parley.app.database.address, statement(heading))


async def hears(parley: Parley, content: str = "hello", **fields: Any) -> AgentResponse:
    """Send a message of the person with the Discord account on the server."""
    return await parley.ask(
        content, **{"platform": "discord", "user": ACCOUNT, "server": SERVER, "channel": "general", **fields}
    )


def last_request(parley: Parley) -> dict[str, Any]:
    body: dict[str, Any] = parley.model.requests[-1].body
    return body


def prompt(parley: Parley) -> str:
    return str(last_request(parley)["messages"][0]["content"])


def modules_of(parley: Parley) -> set[str]:
    """Return the modules whose tools the model was offered last."""
    return {tool["function"]["name"].partition("__")[0] for tool in last_request(parley).get("tools", ())}


@pytest.mark.parametrize(
    "statements", [[(block.heading, block.text) for block in STATEMENTS], [*FURTHER.items()]], ids=["page", "file"]
)
async def test_all_statements_of_the_page_run_in_order(address: Address, statements: list[tuple[str, str]]) -> None:
    await run(address, PEOPLE)

    for heading, sql in statements:
        try:
            await run(address, sql)
        except asyncpg.PostgresError as error:
            pytest.fail(f"{heading}: {error}")


# Those of docs/data-analyst.md are for the database of a source.
@pytest.mark.parametrize("page", ["a2a", "discord", "mcp", "planner", "schedule", "stays"])
async def test_the_statements_of_other_pages_run(address: Address, page: str) -> None:
    await run(address, PEOPLE)

    for block in document(f"docs/{page}.md").blocks("sql"):
        try:
            await run(address, block.text)
        except asyncpg.PostgresError as error:
            pytest.fail(f"{block.heading}: {error}")


async def test_a_persona_in_planner_mode_plans_and_the_modes_can_be_compared(parley: Parley) -> None:
    parley.model.play(["Called.", '{"status": "done", "response": "Planned."}', "Called again."])
    await admin(parley, "Add a persona for a server")
    answers = [(await hears(parley)).content]
    await admin(parley, "Let a persona plan")
    answers.append((await hears(parley)).content)
    await admin(parley, "Leave the mode to the setting")
    answers.append((await hears(parley)).content)

    assert answers == ["Called.", "Planned.", "Called again."]
    (comparison,) = document("docs/planner.md").blocks("sql")
    rows = await parley.sql(comparison.text.rstrip().rstrip(";"))
    figures = {row.loop_mode: (row.turns, row.finished_percent, row.failed, row.waves, row.calls) for row in rows}
    assert figures == {"native": (2, 100, 0, 0, 1), "planner": (1, 100, 0, 0, 1)}


async def test_a_budget_of_zero_refuses_the_next_message_and_lifting_it_serves_the_one_after(parley: Parley) -> None:
    assert (await hears(parley)).error is None

    await admin(parley, "Stop somebody from spending")
    reply = await hears(parley)
    assert reply.error == "budget_exhausted"
    assert reply.content.startswith("You have used this month's budget; it renews on ")
    assert parley.model.count == 1

    await admin(parley, "Lift the limit")
    assert (await hears(parley)).error is None


async def test_a_budget_can_be_set_and_its_period_restarted(parley: Parley) -> None:
    await hears(parley)
    await parley.sql("UPDATE users SET tokens_used_this_month = 60000")
    await admin(parley, "Set a budget")
    assert (await hears(parley)).error == "budget_exhausted"

    await admin(parley, "Begin somebody's period anew")
    reply = await hears(parley)

    assert reply.error is None
    assert await parley.value("SELECT token_budget_monthly FROM users") == 50000
    assert await parley.value("SELECT tokens_used_this_month FROM users") == reply.usage.total


async def test_the_budget_of_all_guests_changes_no_other_budget(parley: Parley) -> None:
    await hears(parley)
    await hears(parley, user="boss", channel="office")
    await parley.sql("UPDATE users SET permission_level = 'user' WHERE id = 2")

    await admin(parley, "Set the budget of all guests")

    assert [tuple(row) for row in await parley.sql("SELECT id, token_budget_monthly FROM users ORDER BY id")] == [
        (1, 2000), (2, 5000),
    ]  # fmt: skip


async def test_a_promoted_person_has_more_tools_and_no_limit_from_the_next_message_on(parley: Parley) -> None:
    await hears(parley)
    assert modules_of(parley) == {"knowledge"}

    await admin(parley, "Promote somebody")
    await hears(parley)
    assert modules_of(parley) > {"knowledge"}
    assert await parley.value("SELECT token_budget_monthly FROM users") is None

    await admin(parley, "Demote somebody")
    assert await parley.value("SELECT token_budget_monthly FROM users") == 20000


async def test_two_accounts_become_one_user_who_pays_from_one_budget(parley: Parley) -> None:
    await hears(parley)
    await hears(parley, platform="slack", user="U024BE7LH")
    await admin(parley, "Make two accounts one user")

    tokens = await parley.value("SELECT tokens_used_this_month FROM users WHERE id = 1")
    reply = await hears(parley, platform="slack", user="U024BE7LH")

    assert await parley.value("SELECT user_id FROM turns ORDER BY id DESC LIMIT 1") == 1
    now = await parley.value("SELECT tokens_used_this_month FROM users WHERE id = 1")
    assert now == tokens + reply.usage.total


async def test_a_name_that_an_admin_sets_is_what_the_model_reads(parley: Parley) -> None:
    await hears(parley, username="xX_ada_Xx")
    await admin(parley, "Set a name and a time zone")

    await hears(parley, "who am I?", username="xX_ada_Xx")

    assert "Ada: who am I?" in json.dumps(last_request(parley)["messages"])
    assert "Europe/Berlin" in json.dumps(last_request(parley)["messages"])


async def test_the_most_specific_persona_answers(parley: Parley) -> None:
    await hears(parley)
    assert prompt(parley).startswith("You are Parley")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    await admin(parley, "Add a default persona")
    await hears(parley)
    assert prompt(parley).startswith("You are a patient teacher.")

    await admin(parley, "Add a persona for a server")
    await hears(parley)
    assert prompt(parley).startswith("You are the librarian of the Night Owls reading club.")

    await admin(parley, "Add a persona for a channel")
    await hears(parley, channel=CHANNEL)
    assert prompt(parley).startswith("You know the rules of chess")
    await hears(parley)
    assert prompt(parley).startswith("You are the librarian")

    await hears(parley, server="another")
    assert prompt(parley).startswith("You are a patient teacher.")

    await admin(parley, "Add a persona for a platform")
    await hears(parley, platform="slack", user="U024BE7LH")
    assert prompt(parley).startswith("You work here.")


async def test_a_new_default_persona_and_new_instructions_are_used_for_the_next_message(parley: Parley) -> None:
    await admin(parley, "Add a default persona")
    await admin(parley, "Add a persona for a server")
    await admin(parley, "Switch the default persona")

    await hears(parley, server="another")
    assert prompt(parley).startswith("You are a cheerful host.")

    await admin(parley, "Change the instructions")
    await hears(parley)
    assert prompt(parley).startswith("You are the librarian. Answer in two sentences.")


async def test_a_change_is_taken_back_by_its_object_and_by_who_made_it_whatever_came_last(address: Address) -> None:
    of_object, of_person = statement("Take a change back"), statement("Take back what one person has changed")
    async with connected(address, role=ADMIN_ROLE) as psql:
        await psql.execute(PEOPLE)
        await psql.execute("INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'One.'), ('Other', 'One.')")
        for prompt in ("Two.", "Three."):
            await psql.execute("UPDATE personas SET system_prompt = $1 WHERE name = 'Sage'", prompt)
        await psql.execute(f"SET parley.actor = 'discord:{ACCOUNT}'")
        await psql.execute("UPDATE users SET token_budget_monthly = 7 WHERE id = 2")
        await psql.execute("RESET parley.actor")
        await psql.execute("UPDATE personas SET system_prompt = 'Two.' WHERE name = 'Other'")

        assert "Two." in await psql.fetchval(of_object)
        assert "One." in await psql.fetchval(of_object)
        assert "5000" in await psql.fetchval(of_person)
        assert "nothing was taken back" in await psql.fetchval(of_person)

        prompts = await psql.fetch("SELECT name, system_prompt FROM personas ORDER BY name")
        assert [tuple(prompt) for prompt in prompts] == [("Other", "Two."), ("Sage", "One.")]
        # A persona that is gone has its name in the log.
        await psql.execute("DELETE FROM personas WHERE name = 'Sage'")
        assert "is there again" in await psql.fetchval(of_object)
        name = await psql.fetchval("""SELECT name FROM admin.audit WHERE "table" = 'users' LIMIT 1""")
        assert name == await psql.fetchval("SELECT name FROM admin.users WHERE id = 2")


async def test_a_persona_can_be_moved_and_removed(parley: Parley) -> None:
    await admin(parley, "Add a persona for a channel")
    await admin(parley, "Move a persona to another place")
    await hears(parley, channel=CHANNEL)
    assert prompt(parley).startswith("You are Parley")
    await hears(parley, platform="web")
    assert prompt(parley).startswith("You know the rules of chess")

    await admin(parley, "Remove a persona")
    await hears(parley, platform="web")
    assert prompt(parley).startswith("You are Parley")
    assert await parley.value("SELECT count(*) FROM turns WHERE persona_id IS NULL") == 3


async def test_allowed_modules_limit_the_tools_of_everybody_in_the_place(parley: Parley) -> None:
    await hears(parley)
    await admin(parley, "Promote somebody")
    await admin(parley, "Add a persona for a server")

    await admin(parley, "Allow only some modules")
    await hears(parley)
    assert modules_of(parley) == {"knowledge"}

    await admin(parley, "Allow every module again")
    await hears(parley)
    assert modules_of(parley) > {"knowledge"}


async def test_model_and_limits_of_a_persona_reach_the_model(parley: Parley) -> None:
    await admin(parley, "Add a persona for a server")
    await admin(parley, "Set the model and the limits of a persona")
    parley.model.play(lambda _body, _number: Answer("", tool_calls=[("knowledge__list_memories", {})]))

    await hears(parley, "go on")

    body = last_request(parley)
    assert body["model"] == "gpt-4.1-mini"
    assert 600 in {body.get("max_tokens"), body.get("max_completion_tokens")}


async def test_an_agent_can_be_added_restricted_to_admins_and_switched_off(parley: Parley) -> None:
    await admin(parley, "Add an agent")
    await hears(parley)
    assert "- archivist: Finds things in the files" in json.dumps(last_request(parley)["tools"])

    await admin(parley, "Add an agent of another installation")
    await admin(parley, "Choose who may use an agent")
    await hears(parley)
    assert "agents" not in modules_of(parley)

    await admin(parley, "Promote somebody")
    await hears(parley)
    assert "- travel-desk: Books trains and hotels." in json.dumps(last_request(parley)["tools"])
    await admin(parley, "Switch an agent off")
    await hears(parley)
    assert "archivist" not in json.dumps(last_request(parley)["tools"])


async def test_a_persona_with_a_list_of_modules_uses_agents_only_when_it_lists_them(parley: Parley) -> None:
    await admin(parley, "Add an agent")
    await admin(parley, "Add a persona for a server")
    await admin(parley, "Allow only some modules")
    await hears(parley)
    assert modules_of(parley) == {"knowledge"}

    await admin(parley, "Let a persona with a list of modules use agents")
    await hears(parley)
    assert modules_of(parley) == {"knowledge", "agents"}


async def test_a_parked_message_can_be_retried(parley: Parley) -> None:
    parley.model.play([Fault(status=400, body={"error": {"message": "no"}})])
    failed = await hears(parley)
    assert failed.error == "models_unavailable"
    assert await parley.value("SELECT status FROM inbox") == "failed"
    # The sweeper only considers messages that are old enough.
    await parley.sql("UPDATE inbox SET created_at = now() - interval '1 minute'")
    parley.model.play(["Here I am."])

    await admin(parley, "Retry parked messages")

    response = await parley.app.events.response(await parley.value("SELECT id FROM inbox"))
    assert response.content == "Here I am."


async def test_deleting_a_person_leaves_nothing_that_they_wrote(parley: Parley) -> None:
    parley.model.play([Answer("", tool_calls=[("knowledge__remember", {"content": "The secret is marzipan."})]), "ok"])
    await hears(parley, "my secret is marzipan", username="Adabella")
    await hears(parley, "marzipan again", server=None, channel="dm-ada", username="Adabella")
    await hears(parley, "what did she say?", user="bob", username="Bob")

    assert {"memories.content", "messages.content", "turn_events.payload"} <= set(await traces(parley))
    await admin(parley, "Delete everything of a person")
    # The worker does so, too: one of the two may have to wait.
    while await parley.value("SELECT count(*) FROM erasures WHERE finished_at IS NULL"):
        await finish_erasures(parley.app.database, parley.app.files.storage)
    assert await traces(parley) == []
    assert await parley.value("SELECT count(*) FROM users") == 1
    assert await parley.value("SELECT count(*) FROM token_logs WHERE user_id IS NULL") == 3


async def traces(parley: Parley) -> list[str]:
    """Return the columns that still contain something about the deleted person."""
    columns = await parley.sql(
        "SELECT format('%I.%I', table_name, column_name) AS name, format("
        "    'SELECT count(*) FROM %I WHERE %I::text ~* $1', table_name, column_name) AS query"
        " FROM information_schema.columns WHERE table_schema = 'public'"
    )
    # As the owner, who sees everybody's memories.
    pattern = f"marzipan|adabella|dm-ada|{ACCOUNT}"
    async with connected(parley.app.database.address) as owner:
        return [column.name for column in columns if await owner.fetchval(column.query, pattern)]
