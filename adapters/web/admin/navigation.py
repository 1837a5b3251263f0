"""The pages in the order of the menu; each is the folder of its name."""

from dataclasses import dataclass

from adapters.web.texts import say


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the menu: the page's folder, which is also its icon in `icons.html`, its title and its address."""

    name: str
    title: str
    path: str


NAVIGATION = (
    Item("overview", say("admin.overview"), "/admin"),
    Item("spend", say("admin.spend"), "/admin/spend"),
    Item("turns", say("admin.turns"), "/admin/turns"),
    Item("people", say("admin.people"), "/admin/people"),
    Item("servers", say("admin.servers"), "/admin/servers"),
    Item("personas", say("admin.personas"), "/admin/personas"),
    Item("tools", say("admin.tools"), "/admin/tools"),
    Item("schedules", say("admin.schedules"), "/admin/schedules"),
    Item("outbox", say("admin.outbox"), "/admin/outbox"),
    Item("memory", say("admin.memory"), "/admin/memory"),
    Item("audit", say("admin.audit"), "/admin/audit"),
    Item("backups", say("admin.backups"), "/admin/backups"),
    Item("settings", say("admin.settings"), "/admin/settings"),
)
