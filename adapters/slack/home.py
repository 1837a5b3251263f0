"""App Home: what somebody has here, shown to that person alone, and what can be changed about it."""

import re
from typing import TYPE_CHECKING, Any

from adapters.slack.home_view import (
    ACTION_ID,
    BUDGET,
    BUDGET_FIELD,
    BUDGET_FORM,
    MOST_TOKENS,
    REMOVE,
    Home,
    Section,
    read_budget,
    to_budget_form,
    to_view,
)
from adapters.slack.incoming import PLATFORM
from adapters.slack.visitors import Visitor
from adapters.slack.web import Json
from agent.budget import find_server_standing, get_standing
from agent.commands.base import Request
from agent.panels import find_panel, list_panels
from agent.personas import resolve_persona
from agent.roles import with_roles
from agent.servers import get_server_spend, set_server_budget
from agent.users import resolve_user
from shared.errors import ParleyError, Refusal
from shared.log import get_logger
from shared.messages import Place
from shared.permissions import Permission

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.running import Running
    from adapters.slack.visitors import Visitors
    from agent.app import App

NO_NUMBER = f"Write a whole number of tokens up to {MOST_TOKENS:,}, or nothing for unlimited."
DONE_BUDGET, DONE_UNLIMITED = "The workspace's budget is {budget:,} tokens now.", "The workspace's budget is unlimited."
# Where Slack does not say which channel somebody's talk with the agent is.
NO_CHANNEL = "home"

log = get_logger()


class Homes:
    """Publishes the tab of whoever opens it, and takes what is done there."""

    def __init__(self, app: "App", visitors: "Visitors", running: "Running") -> None:
        self._app, self._visitors, self._running = app, visitors, running

    async def opened(self, event: Json, context: Any) -> None:
        """Show somebody's Home."""
        if event.get("tab", "home") == "home" and event.get("user"):
            self._running.start(self._publish_for(context.team_id, str(event["user"])), "slack home")

    async def press(self, ack: Any, body: Json) -> None:
        """Take a button of a Home."""
        await ack()
        self._running.start(self._press(body), "slack home")

    async def submit(self, ack: Any, body: Json) -> None:
        """Take the form for the workspace's budget; it stays open with a sentence when that can't be."""
        try:
            note, visitor = await self._set_budget(body)
        except ParleyError as error:
            await ack(response_action="errors", errors={BUDGET_FIELD: str(error)})
            return
        await ack()
        self._running.start(self._publish(visitor, note), "slack home")

    async def _publish_for(self, team_id: str | None, user_id: str) -> None:
        visitor = await self._visitors.meet(team_id, user_id)
        if visitor is not None:
            await self._publish(visitor)

    async def _press(self, body: Json) -> None:
        pressed = (body.get("actions") or [{}])[0]
        action = str(pressed.get("action_id", "")).partition(":")[2]
        visitor = None
        try:
            visitor = await self._visitors.meet_in(body)
            if visitor is not None and action == REMOVE:
                await self._publish(visitor, await self._remove(visitor, str(pressed.get("value", ""))))
            elif visitor is not None and action == BUDGET:
                await self._open_form(visitor, str(body.get("trigger_id")))
        except ParleyError as error:
            log.warning("slack_home_failed", action=action, cause=str(error))
            if visitor is not None:
                await self._publish(visitor, str(error))

    async def _remove(self, visitor: Visitor, value: str) -> str:
        name, _, entry_id = value.partition(":")
        panel = find_panel(name)
        if panel is None:
            return ""
        # Whose it is, is looked up again: the button says only which.
        return await panel.remove(await self._request(visitor, entry_id))

    async def _open_form(self, visitor: Visitor, trigger_id: str) -> None:
        request = await self._request(visitor)
        request.require(Permission.ADMIN)
        async with self._app.database.transaction() as session:
            standing = await find_server_standing(session, request.place)
        form = to_budget_form(standing.limit if standing is not None else None)
        await visitor.web.call("views.open", patience=0, trigger_id=trigger_id, view=form)

    async def _set_budget(self, body: Json) -> tuple[str, Visitor]:
        values = (body["view"].get("state") or {}).get("values") or {}
        filled = values.get(BUDGET_FIELD, {}).get(BUDGET_FIELD, {})
        try:
            budget = read_budget(filled.get("value"))
        except ValueError:
            raise Refusal(NO_NUMBER) from None
        visitor = await self._visitors.meet_in(body)
        if visitor is None:
            raise Refusal
        # Asked again: the form may have been open since before the permission was taken away.
        request = await self._request(visitor)
        request.require(Permission.ADMIN)
        async with self._app.database.transaction() as session:
            await set_server_budget(session, request.place, budget, by=request.user.id)
        return DONE_UNLIMITED if budget is None else DONE_BUDGET.format(budget=budget), visitor

    async def _request(self, visitor: Visitor, argument: str = "") -> Request:
        channel = await self._visitors.find_direct(visitor) or NO_CHANNEL
        place = Place(PLATFORM, visitor.team_id, channel, is_direct=True)
        async with self._app.database.transaction() as session:
            user = await resolve_user(session, visitor.sender, self._app.settings.default_guest_token_budget)
            user = await with_roles(session, user, visitor.sender, place, visitor.around)
        return Request(self._app, visitor.sender, place, user, argument)

    async def _publish(self, visitor: Visitor, note: str = "") -> None:
        try:
            home = await self._look(await self._request(visitor), note)
            await visitor.web.call("views.publish", user_id=visitor.user_id, view=to_view(home))
        except ParleyError as error:
            log.warning("slack_home_not_shown", team=visitor.team_id, cause=str(error))

    async def _look(self, request: Request, note: str) -> Home:
        user, place = request.user, request.place
        is_admin = user.permission >= Permission.ADMIN
        async with self._app.database.transaction() as session:
            standing = await get_standing(session, user.id)
            persona = await resolve_persona(session, place, user.permission, self._app.settings)
            server = await get_server_spend(session, place) if is_admin else None
        sections = []
        for panel in list_panels():
            listed = await panel.list_entries(request)
            sections.append(Section(panel, listed.entries, listed.more))
        return Home(user.permission.label, standing, persona.name, sections, server, note)


def register(bolt: "AsyncApp", homes: Homes) -> None:
    """Listen to the tab, its buttons and its form."""
    bolt.event("app_home_opened")(homes.opened)
    bolt.action(re.compile(rf"^{ACTION_ID}:"))(homes.press)
    bolt.view_submission(BUDGET_FORM)(homes.submit)
