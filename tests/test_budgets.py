"""Limits as people meet them: a sentence that names the limit, prices, and the ledger."""

from datetime import UTC, datetime

import pytest

from agent.commands import answer
from agent.commands.grants.notices import send_notices
from shared.db.database import Address
from shared.messages import Place, PlatformContext
from shared.messages import Sender as Writer
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)


def begins_of_next_month() -> str:
    """Return the first day of the next month in UTC, as it is said to people."""
    today = datetime.now(UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return f"{datetime(year, month, 1, tzinfo=UTC):%d %B %Y}"


async def test_the_limit_that_refuses_is_named_with_the_day_on_which_it_begins_again(parley: Parley) -> None:
    parley.model.play([Answer("ok")])
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 1)")
    await parley.ask("hello")

    reply = await parley.ask("hello again")

    renews = begins_of_next_month()
    assert reply.error == "budget_exhausted"
    assert reply.content == f"All people here together have used this month's budget; it renews on {renews}."
    assert parley.model.count == 1
    await parley.sql("UPDATE budgets SET token_limit = 1000000")
    assert (await parley.ask("hello?", channel="else")).error is None


async def test_a_limit_in_dollars_refuses_a_model_of_unknown_price_until_an_admin_sets_it(parley: Parley) -> None:
    await parley.sql("INSERT INTO budgets (kind, period, cost_limit) VALUES ('installation', 'day', 5)")

    unknown = await parley.ask("hello")
    assert unknown.error == "price_unknown"
    assert parley.model.count == 0

    model = parley.app.models.router.routes()[0]
    await parley.sql(
        "INSERT INTO model_prices (model, input_per_million, output_per_million) VALUES (:model, 20, 100000)",
        model=model,
    )
    await parley.app.models.router.prices.refresh(parley.app.database)
    parley.model.play([Answer("ok", usage={"prompt_tokens": 1000, "completion_tokens": 10})] * 9)
    reply = await parley.ask("hello again")

    assert reply.usage.cost == pytest.approx(1.02)
    assert float(await parley.value("SELECT cost_estimate FROM token_logs")) == pytest.approx(1.02)
    assert float(await parley.value("SELECT cost_used FROM budgets")) == pytest.approx(1.02)
    errors = [(await parley.ask("more", channel=str(number))).error for number in range(5)]
    assert errors == [None, None, None, None, "budget_exhausted"]
    assert float(await parley.value("SELECT cost_used + cost_reserved FROM budgets")) == pytest.approx(5.1)


async def test_an_own_price_of_the_embedding_model_is_what_an_embedding_costs(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    embedding = settings.model_copy(update={"embedding_model": "openai/small"})
    async with open_parley(embedding, address, model) as parley:
        await parley.sql("INSERT INTO model_prices (model, input_per_million) VALUES ('openai/small', 2000000)")
        await parley.app.models.router.prices.refresh(parley.app.database)
        model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes tea"})]), Answer("Noted.")])
        await parley.ask("remember that I like tea")

        rows = await parley.sql("SELECT input_tokens, cost_estimate FROM token_logs WHERE purpose = 'embedding'")

    assert rows
    assert [float(row.cost_estimate) for row in rows] == [2.0 * row.input_tokens for row in rows]


async def says(parley: Parley, user: str, command: str, *, server: str | None = None) -> str:
    """Give a command directly, or in the channel of a server, and return the reply."""
    place = Place("test", server, f"dm-{user}" if server is None else "general", is_direct=server is None)
    reply = await answer(parley.app, Writer("test", user, user.title()), place, command)
    assert reply is not None
    return reply.text


async def test_who_is_refused_asks_for_more_and_an_approver_grants_it_with_a_button(parley: Parley) -> None:
    await parley.accept("hello", user="olga", adapter="fake")
    await parley.accept("hello", user="ann", adapter="fake")
    await parley.platform.wait_for(2)
    await parley.sql(
        "UPDATE users SET permission_level = 'owner' WHERE id IN"
        " (SELECT user_id FROM user_platform_links WHERE platform_user_id = 'olga')"
    )
    await parley.sql("INSERT INTO budgets (kind, token_limit, permission_level) VALUES ('permission', 0, 'guest')")
    await parley.accept("hello again", user="ann", adapter="fake")
    await parley.platform.wait_for(3)
    assert parley.platform.posts[-1].choices == ("/more",)

    assert "1 people who may decide were told" in await says(parley, "ann", "/more 90000")
    await parley.platform.wait_for(4)
    request = parley.platform.posts[-1]
    assert (request.place.channel, request.choices) == ("dm-olga", ("/grant 1", "/refuse 1"))
    assert request.content.startswith(
        "Request 1: Ann asks for 90,000 tokens more of the budget of the permission guest"
    )
    assert "This needs the permission admin" in await says(parley, "ann", "/grant 1")
    assert (
        await says(parley, "olga", "/grant")
        == "1: 90,000 tokens more of the budget of the permission guest (0 of 0 tokens used)"
    )
    assert "is no number" in await says(parley, "olga", "/grant one")

    reply = await says(parley, "olga", "/grant 1 80000 3")

    assert reply.startswith("80,000 tokens more were granted")
    await parley.platform.wait_for(5)
    assert (parley.platform.posts[-1].place.channel, parley.platform.posts[-1].content) == ("dm-ann", reply)
    assert (await parley.ask("hello once more")).error is None
    assert await says(parley, "olga", "/refuse 1") == "There is no open request 1 that you may decide on."
    assert await parley.sql(
        "SELECT actor, new_values ->> 'status' FROM audit_log WHERE table_name = 'budget_grants' ORDER BY id"
    ) == [(None, "asked"), ("test:olga", "granted")]


async def test_nobody_is_asked_for_more_than_a_person_allows_themselves(parley: Parley) -> None:
    await parley.accept("hello", user="ann", adapter="fake")
    await parley.platform.wait_for(1)
    await parley.sql("SELECT parley_set_own_limit(id, 0) FROM users")
    await parley.accept("hello again", user="ann", adapter="fake")
    await parley.platform.wait_for(2)
    assert "the limit that you have set for yourself" in parley.platform.posts[-1].content
    assert parley.platform.posts[-1].choices == ()

    assert "change or lift it under About me" in await says(parley, "ann", "/more")
    assert await parley.value("SELECT count(*) FROM budget_grants") == 0
    # What others limit is asked for, although the own limit is older.
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 0)")
    assert "has the number 1" in await says(parley, "ann", "/more")


async def test_nobody_is_asked_whose_permission_has_ended(parley: Parley) -> None:
    for number, user in enumerate(("olga", "ann"), 1):
        await parley.accept("hello", user=user, adapter="fake")
        await parley.platform.wait_for(number)
    await parley.sql(
        "UPDATE users SET permission_level = 'admin', permission_after = 'guest',"
        " permission_until = now() - interval '1 second' WHERE id = (SELECT min(id) FROM users)"
    )
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 0)")

    assert "I could tell nobody directly" in await says(parley, "ann", "/more")


async def test_an_admin_by_a_role_decides_about_the_limits_of_that_server_alone(parley: Parley) -> None:
    await parley.ask("hello", server="guild")
    await parley.sql(
        "INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('test', 'guild', 0)"
    )
    await parley.sql(
        "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('test', 'guild', 'r', 'admin')"
    )
    assert "I could tell nobody directly" in await says(parley, "ann", "/more", server="guild")
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 0)")
    await parley.sql("UPDATE servers SET token_budget_monthly = NULL")
    await says(parley, "ann", "/more", server="guild")
    await parley.sql("UPDATE servers SET token_budget_monthly = 0")
    place, roles = Place("test", "guild", "general"), PlatformContext(role_ids=("r",))

    async def as_moderator(command: str) -> str:
        reply = await answer(parley.app, Writer("test", "bob"), place, command, platform_context=roles)
        assert reply is not None
        return reply.text

    assert "1: 1 tokens more" in await as_moderator("/grant")
    assert "2: " not in await as_moderator("/grant")
    assert await as_moderator("/grant 2") == "There is no open request 2 that you may decide on."
    assert "were granted" in await as_moderator("/grant 1 500")
    await parley.sql("UPDATE servers SET tokens_used_this_month = 500")
    assert "has the number 3" in await says(parley, "ann", "/more", server="guild")
    assert "has the number 3" in await says(parley, "ann", "/more", server="guild"), "nobody is asked twice"
    assert "was refused" in await as_moderator("/refuse 3")
    assert "ask again tomorrow" in await says(parley, "ann", "/more", server="guild")


async def test_a_limit_that_is_half_used_is_told_once_to_the_person_or_to_the_owners(parley: Parley) -> None:
    parley.model.play([Answer("ok", usage={"prompt_tokens": 600, "completion_tokens": 0})] * 3)
    for user in ("ann", "olga"):
        await parley.accept("hello", user=user, adapter="fake")
    await parley.platform.wait_for(2)
    await parley.sql("UPDATE users SET permission_level = 'owner' WHERE id = (SELECT max(id) FROM users)")
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 1000)")
    await parley.sql("UPDATE users SET token_budget_monthly = 2000 WHERE permission_level = 'guest'")
    owner = await parley.value("SELECT platform_user_id FROM user_platform_links ORDER BY user_id DESC LIMIT 1")
    guest = {"ann": "olga", "olga": "ann"}[owner]

    await parley.ask("hello", user=guest, channel="elsewhere")
    await send_notices(parley.app.database)
    await send_notices(parley.app.database)

    await parley.platform.wait_for(4)
    contents = {post.place.channel: post.content for post in parley.platform.posts[2:]}
    renews = begins_of_next_month()
    assert (
        contents[f"dm-{owner}"]
        == f"50 % of the budget of the installation is used: 600 of 1,000 tokens. It begins again on {renews}."
    )
    assert contents[f"dm-{guest}"].startswith("50 % of your budget is used: 1,200 of 2,000 tokens.")
    assert await parley.value("SELECT count(*) FROM budget_notices") == 0
