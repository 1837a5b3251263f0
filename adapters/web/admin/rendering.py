"""The templates of the admin pages, and how they show times, numbers and money."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from adapters.web.admin.navigation import NAVIGATION
from adapters.web.texts import say, say_in_html, to_day
from shared.text import escape_invisible, to_sentence

NOTHING = "-"
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
CODE = re.compile(r"`([^`]+)`")


@pass_context
def to_time(context: Context, moment: datetime | None) -> str:
    """Return a moment in the zone of the admin who looks."""
    if moment is None:
        return NOTHING
    local = to_zone(moment, context["visit"].zone)
    shown = f"{to_day(local)}, {local:%H:%M}"
    iso = to_zone(moment, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, f"{local:%Y-%m-%d %H:%M:%S %Z}", shown)


def to_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment in a zone; the ends of the calendar, such as `infinity`, as they are."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment


def to_number(value: Decimal | int | float | None) -> str:
    """Return a number with its thousands set apart."""
    return NOTHING if value is None else f"{value:,.0f}"


def to_dollars(value: Decimal | float | None) -> str:
    """Return an amount of money; small ones with as many places as say something."""
    if value is None:
        return NOTHING
    return f"${value:,.2f}" if value == 0 or value >= Decimal("0.1") else f"${value:,.4f}"


def to_length(value: timedelta | float | None) -> str:
    """Return a length of time in its largest units."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 60:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return say("admin.minutes", minutes=minutes)
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return say("admin.hours_and_minutes", hours=hours, minutes=minutes)
    return say("admin.days", days=hours // 24)


@pass_context
def to_address(context: Context, **changes: Any) -> str:
    """Return the address of the page that is shown, with other parameters; None leaves one out."""
    request = context["visit"].request
    parameters = {**request.query_params, **changes}
    query = urlencode({name: value for name, value in parameters.items() if value is not None and value != ""})
    # Written anew: in the path as Starlette decodes it, a name with %41 in it would be another one.
    path = quote(request.scope["path"])
    return f"{path}?{query}" if query else path


def to_markup(text: str) -> Markup:
    """Return a text of ours, which is Markdown, with its code; the pages that it links to are not here."""
    escaped = LINK.sub(r"\1", str(escape(" ".join(text.split()))))
    return Markup(CODE.sub(r"<code>\1</code>", escaped))  # noqa: S704  # it is escaped


def build_templates(folder: Path) -> Environment:
    """Return the templates of a folder, which show times, numbers and money alike; what they show is escaped."""
    templates = Environment(
        loader=FileSystemLoader(folder, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["say"] = say_in_html
    templates.filters |= {"time": to_time, "day": to_day, "number": to_number, "dollars": to_dollars}
    return templates


TEMPLATES = build_templates(Path(__file__).parent)
TEMPLATES.filters |= {"length": to_length, "sentence": to_sentence, "markup": to_markup, "visible": escape_invisible}
TEMPLATES.globals |= {"navigation": NAVIGATION, "address": to_address}
