"""Limits as people meet them: a sentence that names the limit, prices, and the ledger."""

from datetime import UTC, datetime

import pytest

from shared.settings import Settings
from tests.standins.openai_api import Answer
from tests.support.parley import Parley


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings in which a guest's own tokens suffice."""
    return settings.model_copy(update={"default_guest_token_budget": 1_000_000})


def begins_of_next_month() -> str:
    """Return the first day of the next month in UTC, as it is said to people."""
    today = datetime.now(UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return f"{datetime(year, month, 1, tzinfo=UTC):%d %B %Y}"


async def test_the_limit_that_refuses_is_named_with_the_day_on_which_it_begins_again(parley: Parley) -> None:
    parley.model.play([Answer("ok")])
    await parley.sql("INSERT INTO budgets (kind, token_limit) VALUES ('installation', 1)")
    await parley.ask("hello")

    refused = await parley.ask("hello again")

    renews = begins_of_next_month()
    assert refused.error == "limit_exhausted"
    assert (
        refused.content
        == f"All people here together have used their budget for this month; it begins again on {renews}."
    )
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
    answered = await parley.ask("hello again")

    assert answered.usage.cost == pytest.approx(1.02)
    assert float(await parley.value("SELECT cost_estimate FROM token_logs")) == pytest.approx(1.02)
    assert float(await parley.value("SELECT cost_used FROM budgets")) == pytest.approx(1.02)
    errors = [(await parley.ask("more", channel=str(number))).error for number in range(5)]
    assert errors == [None, None, None, None, "limit_exhausted"]
    assert float(await parley.value("SELECT cost_used + cost_reserved FROM budgets")) == pytest.approx(5.1)
