"""`/admin/people/17`: one person, and what an admin does about them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from starlette.responses import Response

from adapters.web.admin.visit import Act, Visit, calling
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Permission

statements = load_statements(__file__)

NO_ACCOUNT = say("admin.person_has_no_account")


async def show_person(visit: Visit) -> Response:
    """Show a person with accounts, limits, turns and spend, and the forms for them."""
    user_id = int(visit.path_params["id"])
    person = await visit.row(statements.find_person, id=user_id)
    accounts = await visit.rows(statements.list_accounts, id=user_id)
    await visit.act(list_acts(visit, person, accounts))
    if visit.outcome is not None and visit.outcome.is_done:
        person = await visit.row(statements.find_person, id=user_id)
    loss = None
    if accounts:
        account = {"platform": accounts[0].platform, "account": accounts[0].platform_user_id}
        loss = (await visit.row(statements.describe_erasure, **account))[0]
    return visit.render(
        "people/person.html",
        title=person.name,
        person=person,
        accounts=accounts,
        limits=await visit.rows(statements.list_limits, id=user_id),
        grants=await visit.rows(statements.list_grants, id=user_id),
        spend=await visit.row(statements.read_spend, id=user_id),
        turns=await visit.rows(statements.list_turns, id=user_id),
        loss=loss,
        levels=[permission.label for permission in Permission],
    )


def list_acts(visit: Visit, person: Any, accounts: list[Any]) -> Mapping[str, Act]:
    """Return what the page's forms do; each act is a function of the schema `admin` on the person's first account."""

    def account() -> Mapping[str, Any]:
        if not accounts:
            raise Refusal(NO_ACCOUNT)
        return {"platform": accounts[0].platform, "account": accounts[0].platform_user_id}

    def read_limit(form: Form) -> Mapping[str, Any]:
        limit = {"tokens": form.number("tokens"), "dollars": form.amount("dollars"), "period": form.text("period")}
        return {**account(), **limit}

    def read_level(form: Form) -> Mapping[str, Any]:
        return {**account(), "permission": form.text("permission"), "until": to_end(visit, form)}

    def read_more(form: Form) -> Mapping[str, Any]:
        return {"id": person.id, "until": to_end(visit, form), "tokens": form.number("tokens") or 0}

    def read_name(form: Form) -> Mapping[str, Any]:
        # As a page shows it; what cannot be typed has a number.
        names = {" ".join(person.name.split()), str(person.id)} - {""}
        if " ".join(form.text("name").split()) not in names:
            raise Refusal(say("admin.wrong_name", name=person.name, id=person.id))
        return account()

    return {
        "budget": calling(statements.set_budget, lambda form: {**account(), "tokens": form.number("tokens")}),
        "limit": calling(statements.set_limit, read_limit),
        "level": calling(statements.grant_permission, read_level),
        "more": calling(statements.grant_more, read_more),
        "pause": calling(statements.pause, lambda _form: account()),
        "resume": calling(statements.resume, lambda _form: account()),
        "erase": calling(statements.erase, read_name),
    }


def to_end(visit: Visit, form: Form) -> datetime | None:
    """Return the end of the day that a form names, where the admin lives; None if it names none."""
    text = form.text("until")
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=visit.zone) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise Refusal(say("admin.no_such_date", text=repr(text[:40]))) from None
