"""`/admin/settings`: every setting as this process has it, where its value comes from, and what it means."""

from collections.abc import Sequence

from msgspec.structs import replace
from starlette.responses import Response
from starlette.routing import Route

from adapters.catalogue import list_all_parts
from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from shared.errors import ConfigurationError
from shared.settings.catalogue import Part, Setting


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


ROUTES = (Route("/admin/settings", show_settings),)
