"""Providers of tools: any of them is offered and called alike, in one order."""

from collections.abc import Mapping, Sequence

import pytest

from agent.tools.calls import PendingCall
from agent.tools.modules import FoundModules, Module, ModuleTools
from agent.tools.offer import Scope
from agent.tools.providers import ToolProvider
from agent.tools.toolbox import Toolbox
from shared.messages import Permission
from shared.tools import Tool, ToolContext
from tests.agent.tools.test_toolbox import scope
from tests.support.tool_calls import bare_context


async def greet(context: ToolContext) -> str:
    """Greet."""
    return f"Hello {context.user.name}"


class Guests(ToolProvider):
    """A provider whose tools only guests are offered, by its own rule."""

    is_personal = True

    def list(self, scope: Scope) -> Sequence[Tool]:
        return (GREETING,) if scope.user.permission == Permission.GUEST else ()

    def list_missing(self, scope: Scope) -> Mapping[str, str]:
        return {} if self.list(scope) else {GREETING.name: "Only guests are greeted."}


GREETING = Tool(greet, Permission.OWNER, module="arrivals")
WAVING = Tool(greet, Permission.GUEST, module="waving")
RADIO = Module("radio", "built in", (), off={"radio.play": "no station is set: RADIO_URL"})
BOX = Toolbox((Guests(), ModuleTools([WAVING])), 2000)


def test_personal_tools_stand_last_and_follow_their_own_rule() -> None:
    assert [tool.module for tool in BOX.offered_to(scope()).tools] == ["waving", "arrivals"]
    assert [tool.module for tool in BOX.offered_to(scope(Permission.ADMIN)).tools] == ["waving"]


async def test_a_call_asks_the_rule_again_and_says_why_it_may_not_be_made() -> None:
    guest, admin = scope(), scope(Permission.ADMIN)
    offer = BOX.offered_to(guest)

    greeted = await BOX.call(
        PendingCall("1", "arrivals__greet", {}, guest, offer), bare_context("test_toolbox", user=guest.user)
    )
    outcome = await BOX.call(
        PendingCall("2", "arrivals.greet", {}, admin, offer), bare_context("test_toolbox", user=admin.user)
    )

    assert greeted.content == '"Hello Ann"'
    assert "Only guests are greeted." in outcome.content


@pytest.mark.parametrize("name", ["radio.play", "radio__play", "play"])
async def test_a_tool_that_is_off_is_explained_by_each_of_its_names(name: str) -> None:
    box, guest = Toolbox((ModuleTools(find=lambda: FoundModules((RADIO,), ())),), 2000), scope()
    call = PendingCall("1", name, {}, guest, box.offered_to(guest))

    outcome = await box.call(call, bare_context("test_toolbox", user=guest.user))

    assert "radio.play can't be used here: no station is set: RADIO_URL" in outcome.content
    assert call.offer.removed == {"no station is set: RADIO_URL": ("radio.play",)}


def test_a_tool_is_looked_up_by_its_full_name_whoever_may_use_it() -> None:
    assert BOX.find("waving.greet") is WAVING
    assert BOX.find("tools.find_tool") is not None
    assert BOX.find("greet") is None
    assert BOX.tools == (WAVING,)
