"""The pages in the order of the menu; each is the folder of its name."""

from msgspec import Struct

from adapters.web.texts import say


class Item(Struct, frozen=True):
    """A line of the menu: the page's folder, which is also its icon in `icons.html`, and its title."""

    name: str
    title: str

    @property
    def path(self) -> str:
        """Return the page's address."""
        return "/admin" if self.name == "overview" else f"/admin/{self.name}"


NAVIGATION = (
    Item("overview", say("admin.overview")),
    Item("spend", say("admin.spend")),
    Item("turns", say("admin.turns")),
    Item("people", say("admin.people")),
    Item("servers", say("admin.servers")),
    Item("personas", say("admin.personas")),
    Item("tools", say("admin.tools")),
    Item("schedules", say("admin.schedules")),
    Item("outbox", say("admin.outbox")),
    Item("memory", say("admin.memory")),
    Item("audit", say("admin.audit")),
    Item("backups", say("admin.backups")),
    Item("settings", say("admin.settings")),
)
