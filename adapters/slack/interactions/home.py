"""App Home: what a person has here, visible only to them, and the actions on it."""

import re
from typing import TYPE_CHECKING, Any

from adapters.slack.events.incoming import PLATFORM
from adapters.slack.interactions.actors import Actor
from adapters.slack.interactions.home_view import (
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
from adapters.slack.interactions.respond import in_background
from adapters.slack.transport.api import Json
from agent.commands.base import Request
from agent.commands.panels import find_panel, list_panels
from agent.people.billing.budget import find_server_budget_status, get_budget_status
from agent.people.billing.servers import get_server_spend, set_server_budget
from agent.people.participants import resolve_user, with_roles
from agent.people.personas import resolve_persona
from shared.errors import ParleyError, Refusal
from shared.log import get_logger
from shared.messages import Permission, Place

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.slack.interactions.actors import Actors
    from agent.app import App

NO_NUMBER = f"Write a whole number of tokens up to {MOST_TOKENS:,}, or nothing for unlimited."
DONE_BUDGET, DONE_UNLIMITED = "The workspace's budget is {budget:,} tokens now.", "The workspace's budget is unlimited."
# Stands for the channel of the direct message while Slack doesn't name it.
NO_CHANNEL = "home"

log = get_logger()


class Homes:
    """Publishes the tab when it is opened, and runs its actions."""

    def __init__(self, app: "App", actors: "Actors", running: "Running") -> None:
        self._app, self._actors, self._running = app, actors, running

    async def open(self, event: Json, team_id: str | None) -> None:
        """Publish the tab for the person who has opened it."""
        if event.get("tab", "home") == "home" and event.get("user"):
            actor = await self._actors.find_actor(team_id, str(event["user"]))
            if actor is not None:
                await self._publish(actor)

    async def on_submit(self, ack: Any, body: Json) -> None:
        """Set the workspace's budget; a refused value keeps the form open, with the reason."""
        values = (body["view"].get("state") or {}).get("values") or {}
        field = values.get(BUDGET_FIELD, {}).get(BUDGET_FIELD, {})
        try:
            budget = read_budget(field.get("value"))
        except ValueError:
            await ack(response_action="errors", errors={BUDGET_FIELD: NO_NUMBER})
            return
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is None:
                raise Refusal
            # Checked again: the permission may have been taken away since the form was opened.
            request = await self._request(actor)
            request.require(Permission.ADMIN)
            async with self._app.database.transaction() as session:
                await set_server_budget(session, request.place, budget, by=request.user.id)
        except ParleyError as error:
            await ack(response_action="errors", errors={BUDGET_FIELD: str(error)})
            return
        await ack()
        note = DONE_UNLIMITED if budget is None else DONE_BUDGET.format(budget=budget)
        self._running.start(self._publish(actor, note), "slack home")

    async def run(self, body: Json) -> None:
        """Run the action of a button of the tab."""
        button = (body.get("actions") or [{}])[0]
        action = str(button.get("action_id", "")).partition(":")[2]
        actor = None
        try:
            actor = await self._actors.find_payload_actor(body)
            if actor is not None and action == REMOVE:
                # The button only names an entry; that it belongs to the person is checked again.
                name, _, entry_id = str(button.get("value", "")).partition(":")
                panel = find_panel(name)
                note = await panel.remove(await self._request(actor), entry_id) if panel is not None else ""
                await self._publish(actor, note)
            elif actor is not None and action == BUDGET:
                trigger_id = str(body.get("trigger_id"))
                request = await self._request(actor)
                request.require(Permission.ADMIN)
                async with self._app.database.transaction() as session:
                    status = await find_server_budget_status(session, request.place)
                form = to_budget_form(status.limit if status is not None else None)
                await actor.web.call("views.open", max_wait=0, trigger_id=trigger_id, view=form)
        except ParleyError as error:
            log.warning("slack_home_failed", action=action, cause=str(error))
            if actor is not None:
                await self._publish(actor, str(error))

    async def _request(self, actor: Actor) -> Request:
        channel = await self._actors.find_direct(actor) or NO_CHANNEL
        place = Place(PLATFORM, actor.team_id, channel, is_direct=True)
        async with self._app.database.transaction() as session:
            user = await resolve_user(session, actor.sender)
            user = await with_roles(
                session, user, sender=actor.sender, place=place, platform_context=actor.platform_context
            )
        return Request(self._app, actor.sender, place, user=user)

    async def _publish(self, actor: Actor, note: str = "") -> None:
        try:
            request = await self._request(actor)
            user, place = request.user, request.place
            is_admin = user.may(Permission.ADMIN)
            async with self._app.database.transaction() as session:
                status = await get_budget_status(session, user.id)
                persona = await resolve_persona(session, place, user.permission, settings=self._app.settings)
                server = await get_server_spend(session, place) if is_admin else None
            sections = []
            for panel in list_panels():
                entries = await panel.list_entries(request)
                sections.append(Section(panel, entries.entries, entries.more))
            home = Home(user.permission.label, status, persona.name, sections=sections, server=server, note=note)
            await actor.web.call("views.publish", user_id=actor.user_id, view=to_view(home))
        except ParleyError as error:
            log.warning("slack_home_not_shown", team=actor.team_id, cause=str(error))


def register(bolt: "AsyncApp", homes: Homes, running: "Running") -> None:
    """Register the listeners for the tab's buttons and its form."""
    bolt.action(re.compile(rf"^{ACTION_ID}:"))(in_background(running, homes.run, "slack home"))
    bolt.view_submission(BUDGET_FORM)(homes.on_submit)
