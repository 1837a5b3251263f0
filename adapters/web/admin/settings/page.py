"""`/admin/settings`: every setting as this process has it, where its value comes from, and what it means."""

import re
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup, escape
from starlette.responses import Response
from starlette.routing import Route

from adapters.catalogue import list_all_parts
from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from shared.errors import ConfigurationError
from shared.settings.catalogue import Part, Setting

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
CODE = re.compile(r"`([^`]+)`")


async def show_settings(visit: Visit) -> Response:
    """Show the settings whose name or meaning has the words of the filter, or those that are set."""
    problem, parts = None, list[Part]()
    try:
        parts = choose(list_all_parts(visit.app.settings), visit.query("q"), only_set=visit.query("only") == "set")
    except ConfigurationError as error:
        problem = str(error)
    return visit.render(
        "settings/settings.html",
        title=say("admin.settings"),
        parts_of_settings=parts,
        to_markup=to_markup,
        problem=problem,
        waits=any(setting.waits for part in parts for setting in part.settings),
    )


def choose(parts: Sequence[Part], words: str, *, only_set: bool) -> list[Part]:
    """Return the parts with those settings that have all of the words, without empty ones."""

    def fits(setting: Setting) -> bool:
        text = f"{setting.name} {setting.meaning}".casefold()
        return (setting.source != "default" or not only_set) and all(word in text for word in words.casefold().split())

    chosen = [replace(part, settings=tuple(filter(fits, part.settings))) for part in parts]
    return [part for part in chosen if part.settings]


def to_markup(meaning: str) -> Markup:
    """Return the text below a field, which is Markdown, with its code; the pages that it links to are not here."""
    text = LINK.sub(r"\1", str(escape(" ".join(meaning.split()))))
    return Markup(CODE.sub(r"<code>\1</code>", text))  # noqa: S704  # it is escaped


ROUTES = (Route("/admin/settings", show_settings),)
