"""A booking system with logins, as a module whose tools use the credential of the person who asks."""

from dataclasses import dataclass, field
from typing import Any

from agent.tools.modules import ModuleTools
from shared.messages import Permission
from shared.tools import Tool, ToolContext


@dataclass
class Cabins:
    """The module's tools, and the logins that the system has seen."""

    logins: list[str] = field(default_factory=list)

    def modules(self) -> ModuleTools:
        """Return the tools."""

        async def bookings(context: ToolContext) -> dict[str, Any]:
            """List the person's bookings of cabins."""
            login = await context.credential("cabins")
            self.logins.append(login)
            # As careless as a service may be: what it answers repeats the login.
            return {"logged_in_as": login, "bookings": ["Lake cabin"]}

        async def broken(context: ToolContext) -> str:
            """Fail with the login in the error."""
            raise RuntimeError(f"no such login: {await context.credential('cabins')}")

        async def tell(context: ToolContext) -> str:
            """Say the bookings in a model's words."""
            return await context.complete(f"I am {await context.credential('cabins')}. Tell my bookings.")

        return ModuleTools(
            [
                Tool(bookings, Permission.GUEST, read_only=True, module="cabins"),
                Tool(broken, Permission.GUEST, read_only=True, module="cabins"),
                Tool(tell, Permission.GUEST, spends_budget=True, module="cabins"),
            ]
        )
