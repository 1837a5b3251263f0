"""The pages in the order of the menu; each is the folder of its name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the menu: the page's folder, what the menu calls it, its address, and its icon in `icons.html`."""

    name: str
    title: str
    path: str


NAVIGATION = (Item("overview", "Overview", "/admin"),)
