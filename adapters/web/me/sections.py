"""What the pages about oneself show, one function each."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from adapters.web.login.sessions import WebSession
from adapters.web.texts import say
from agent.commands.base import Request
from agent.commands.schedule import jobs_of
from agent.people.billing.budget import get_budget_status
from shared.dates.zones import resolve_zone
from shared.db.statements import load_statements
from shared.memory.own import list_own
from shared.memory.visibility import Visibility, act_for
from shared.schedules.jobs import describe

statements = load_statements(__file__)

DAYS = 30
ROWS = 50
# What the page calls what a memory comes from.
KINDS = {"facts": ("fact", "remembered"), "said": ("turn",)}
# The plot: a bar a day, in units of its own.
BAR, GAP, HEIGHT = 8, 2, 100

Read = Callable[[Request, WebSession, Mapping[str, str]], Awaitable[dict[str, Any]]]


class Section(Struct, frozen=True):
    """One page: its name, its address, its template, and what reads its values."""

    title: str
    path: str
    template: str
    read: Read


async def read_budget(asking: Request, _session: WebSession, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return what the person has used and may use, and what each day took."""
    user = asking.user
    zone = resolve_zone(user.time_zone).key
    async with asking.app.database.transaction() as session:
        status = await get_budget_status(session, user.id)
        days = (await session.execute(statements.list_days, {"user_id": user.id, "zone": zone, "days": DAYS})).all()
        limits = (await session.execute(statements.list_limits, {"user_id": user.id})).all()
    most = max([day.tokens for day in days] or [0])
    bars = [
        {
            "x": number * (BAR + GAP),
            "height": max(1, round(HEIGHT * day.tokens / most)) if day.tokens else 0,
            "day": day.day,
            "tokens": day.tokens,
        }
        for number, day in enumerate(days)
    ]
    plot = {"bars": bars, "bar": BAR, "width": len(bars) * (BAR + GAP) - GAP, "height": HEIGHT, "most": most}
    return {
        "status": status,
        "days": [day for day in reversed(days) if day.tokens],
        "limits": limits,
        "own": next((limit.token_limit for limit in limits if limit.kind == "own"), None),
        "plot": plot,
    }


async def read_memories(asking: Request, _session: WebSession, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the newest memories of one kind, or those with some words."""
    kind = query.get("kind", "facts") if query.get("kind") in KINDS else "facts"
    words, text = query.get("words", "")[:200], query.get("skip", "0")
    skip = min(int(text), 1_000_000) if text.isascii() and text.isdecimal() and len(text) < 8 else 0
    user_id = asking.user.id
    async with asking.app.database.transaction() as session:
        is_paused = (await session.execute(statements.is_memory_paused, {"user_id": user_id})).scalar_one()
        await act_for(session, user_id)
        rows = (await session.execute(statements.count_memories, {"user_id": user_id})).all()
        own = await list_own(
            session, Visibility(user_id, asking.place), words, limit=ROWS + 1, skip=skip, sources=KINDS[kind]
        )
    counts = {name: sum(row.memories for row in rows if row.source in sources) for name, sources in KINDS.items()}
    return {
        "is_paused": is_paused,
        "kind": kind,
        "counts": counts,
        "words": words,
        "memories": own[:ROWS],
        "next": skip + ROWS if len(own) > ROWS else None,
    }


async def read_files(asking: Request, _session: WebSession, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the person's files, the newest first."""
    app = asking.app
    files = await app.files.storage.of_user(app.database, asking.user.id, None).list(limit=ROWS + 1)
    return {"files": files[:ROWS], "has_more": len(files) > ROWS}


async def read_schedules(asking: Request, _session: WebSession, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return the person's reminders and tasks."""
    jobs = await jobs_of(asking).list(ROWS)
    return {"jobs": [(job, describe(job, asking.user.time_zone).partition(": ")[2]) for job in jobs]}


async def read_accounts(asking: Request, session: WebSession, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return accounts, browsers and tokens."""
    own = {"user_id": asking.user.id, "limit": ROWS}
    async with asking.app.database.transaction() as transaction:
        accounts = (await transaction.execute(statements.list_accounts, own)).all()
        sessions = (await transaction.execute(statements.list_sessions, own)).all()
        tokens = (await transaction.execute(statements.list_tokens, own)).all()
    return {"accounts": accounts, "sessions": sessions, "tokens": tokens, "here": session}


async def read_nothing(_asking: Request, _session: WebSession, _query: Mapping[str, str]) -> dict[str, Any]:
    """Return nothing: the page has forms alone."""
    return {}


SECTIONS = (
    Section(say("me.budget"), "/me", "budget.html", read=read_budget),
    Section(say("me.memories"), "/me/memories", "memories.html", read=read_memories),
    Section(say("me.files"), "/me/files", "files.html", read=read_files),
    Section(say("me.schedules"), "/me/schedules", "schedules.html", read=read_schedules),
    Section(say("me.accounts"), "/me/accounts", "accounts.html", read=read_accounts),
    Section(say("me.data"), "/me/data", "data.html", read=read_nothing),
)
