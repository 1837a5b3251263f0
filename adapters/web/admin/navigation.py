"""The pages in the order of the menu; each is the folder of its name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the menu: the page's folder, which is also its icon in `icons.html`, its title and its address."""

    name: str
    title: str
    path: str


NAVIGATION = (
    Item("overview", "Overview", "/admin"),
    Item("spend", "Spend", "/admin/spend"),
    Item("turns", "Turns", "/admin/turns"),
    Item("people", "People", "/admin/people"),
    Item("servers", "Servers", "/admin/servers"),
    Item("personas", "Personas", "/admin/personas"),
    Item("tools", "Tools", "/admin/tools"),
    Item("schedules", "Schedules", "/admin/schedules"),
    Item("outbox", "Outbox", "/admin/outbox"),
    Item("memory", "Memory", "/admin/memory"),
    Item("audit", "Audit", "/admin/audit"),
    Item("backups", "Backups", "/admin/backups"),
    Item("settings", "Settings", "/admin/settings"),
)
