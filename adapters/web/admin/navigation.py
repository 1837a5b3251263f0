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
    Item("people", "People", "/admin/people"),
    Item("servers", "Servers", "/admin/servers"),
    Item("audit", "Audit", "/admin/audit"),
)
