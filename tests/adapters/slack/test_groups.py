"""What user groups give: permissions and budgets, from the next message on, and no longer than somebody is in them."""

import asyncio
from typing import Any

from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer
from tests.standins.slack import Admin, Json, Person

BIG: Any = {"usage": {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}}


async def answer_to(scene: Scene, person: Person, text: str, channel: Json | None = None) -> str:
    """Return what a command answers."""
    return (await (await person.slash(channel or scene.general, "/parley", text)).answered())[-1]


async def grant(scene: Scene, group: Json, permission: str | None, budget: int | None = None) -> None:
    await scene.sql(
        "INSERT INTO role_grants (platform, server, role, permission_level, token_budget)"
        " VALUES ('slack', :team, :group, :permission, :budget)",
        team=scene.slack.team_id,
        group=group["id"],
        permission=permission,
        budget=budget,
    )


async def test_groups_give_permission_and_budget_and_take_them_along(office: Scene) -> None:
    admin = Admin(office.slack, "Cat")
    keepers = office.slack.world.add_user_group("Keepers", [office.bob.user])
    helpers = office.slack.world.add_user_group("Helpers", [office.bob.user, office.ann.user])
    await grant(office, keepers, "admin", 90_000)
    await grant(office, helpers, "user", 20_000)

    assert "permission admin" in await answer_to(office, office.bob, "me")
    assert "of 90,000 tokens" in await answer_to(office, office.bob, "budget")
    assert "permission admin" in await answer_to(office, office.bob, "me", office.bob.dm)
    assert "permission user" in await answer_to(office, office.ann, "me")
    assert len(office.slack.calls("usergroups.list")) == 1

    await admin.changes_group(keepers, [])
    await office.until_value(0, "SELECT count(*) FROM slack_group_members WHERE group_name = 'Keepers'")
    # Who has left has left, also while Slack can't say who is in.
    office.slack.fail("usergroups.list", error="internal_error")
    assert "permission user" in await answer_to(office, office.bob, "me")
    assert "of 20,000 tokens" in await answer_to(office, office.bob, "budget")
    await admin.changes_group(helpers, [], is_disabled=True)
    await office.until_value(0, "SELECT count(*) FROM slack_group_members WHERE group_name = 'Helpers'")
    assert "permission guest" in await answer_to(office, office.ann, "me")


async def test_a_group_counts_from_the_next_message_on_and_is_shown_to_the_model(office: Scene) -> None:
    keepers = office.slack.world.add_user_group("Keepers", [office.bob.user])
    office.model.play([Answer("First."), Answer("Now I may.")])
    await office.bob.direct("hello")
    await office.bob.hears()
    assert office.slack.calls("usergroups.list") == []
    assert await office.value("SELECT count(*) FROM member_roles") == 0

    await office.sql("UPDATE users SET token_budget_monthly = 0")
    await office.bob.direct("again")
    refusal = (await office.bob.hears(count=2))[1]
    await grant(office, keepers, None, 50_000)
    await office.bob.direct("and now?")

    assert refusal.startswith("You have used this month's budget")
    assert (await office.bob.hears(count=3))[2] == "Now I may."
    assert "Keepers" in office.prompt()
    assert await office.sql("SELECT roles FROM member_roles") == [([keepers["id"]],)]


async def test_who_writes_at_once_is_looked_up_with_one_question_to_slack(office: Scene) -> None:
    crowd = [Person(office.slack, f"P{number}") for number in range(12)]
    await grant(office, office.slack.world.add_user_group("Crowd", [person.user for person in crowd]), "user")

    answers = await asyncio.gather(*(answer_to(office, person, "me") for person in crowd))

    assert all("permission user" in answer for answer in answers)
    assert len(office.slack.calls("usergroups.list")) == 1


async def test_a_group_of_one_workspace_gives_nothing_in_another_and_nothing_where_nobody_can_say(
    office: Scene,
) -> None:
    keepers = office.slack.world.add_user_group("Keepers", [office.bob.user])
    await office.sql(
        "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('slack', 'T1', :role, 'owner')",
        role=keepers["id"],
    )
    assert "permission guest" in await answer_to(office, office.bob, "me")

    await grant(office, keepers, "owner")
    office.slack.fail("usergroups.list", error="missing_scope", times=1)
    assert "permission guest" in await answer_to(office, office.bob, "me")
    await office.sql("UPDATE slack_group_lists SET read_at = now() - interval '1 hour'")
    assert "permission owner" in await answer_to(office, office.bob, "me")


async def test_a_workspace_has_a_budget_besides_the_persons_and_direct_messages_count(office: Scene) -> None:
    insert = "INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('slack', :team, 1000)"
    await office.sql(insert, team=office.slack.team_id)
    office.model.play([Answer("Expensive.", **BIG)])

    await office.ann.direct("hello")
    await office.ann.hears()
    await office.bob.mentions(office.general, "hello")

    (refusal,) = await office.bob.hears(office.general)
    assert refusal.startswith("This server has used this month's budget; it renews on ")
    assert await office.sql("SELECT tokens_used_this_month, tokens_reserved FROM servers") == [(1100, 0)]
