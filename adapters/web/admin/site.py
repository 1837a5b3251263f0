"""The entrance of the admin pages: it admits an admin's request and finds its page; anything else is missing."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from adapters.web.admin.access import find_admin
from adapters.web.admin.navigation import NAVIGATION
from adapters.web.admin.rendering import TEMPLATES
from adapters.web.admin.visit import HEADERS, Visit
from adapters.web.api.bodies import capped
from adapters.web.api.uploads import parse_multipart
from adapters.web.faults import Fault
from adapters.web.guard import app_of
from adapters.web.login.forms import find_form_account
from adapters.web.login.sessions import require_same_origin
from adapters.web.notes import note
from adapters.web.page.chat import PLATFORM
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.errors import Unavailable
from shared.text import MAX_ID, clean

MAX_FORM_BYTES, MAX_UPLOAD_BYTES = 1024 * 1024, 5 * 1024 * 1024
NOT_NOW = say("admin.not_now")


async def answer(request: Request) -> Response:
    """Answer an admin with the page of this address; anybody else gets what an address gets where nothing is."""
    try:
        admin = await find_admin(request)
    except Unavailable as error:
        return note(NOT_NOW, str(error), 503)
    if admin is None:
        raise HTTPException(404)
    if request.method == "GET" and request.url.path.endswith("/"):
        return RedirectResponse(request.url.path.rstrip("/"))
    form = Form({})
    if request.method == "POST":
        try:
            form = await read_form(request)
        except Fault as fault:
            return to_problem(Visit(request, app_of(request), admin, form=form), 422, fault.message)
        # In another session of theirs an act is refused with a sentence.
        account = find_form_account(app_of(request), form.text("token"))
        is_own = account is not None and admin.account == f"{PLATFORM}:{account}"
        if not (is_own and is_from_ours(request)):
            raise HTTPException(404)
    visit = Visit(request, app_of(request), admin, form=form)
    try:
        return await find_page(request).endpoint(visit)  # type: ignore[no-any-return]  # a page returns a response
    except HTTPException as error:
        if error.status_code != 404:
            raise
        return to_problem(visit, 404, say("fault.not_found"))
    except Unavailable as error:
        return to_problem(visit, 503, str(error))


async def read_form(request: Request) -> Form:
    """Return what a form sends."""
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        async with parse_multipart(request, MAX_UPLOAD_BYTES, max_files=1) as parts:
            items = parts.multi_items()
            files = {name: await part.read() for name, part in items if isinstance(part, UploadFile)}
            return Form({name: clean(part) for name, part in items if isinstance(part, str)}, files)
    body = b"".join([chunk async for chunk in capped(request, MAX_FORM_BYTES)])
    fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    return Form({name: clean(value).replace("\r\n", "\n") for name, value in fields})


def is_from_ours(request: Request) -> bool:
    """Tell whether a page of ours sends this, and no other site's with this browser's session."""
    try:
        require_same_origin(request)
    except Fault:
        return False
    return True


def find_page(request: Request) -> Route:
    """Return the page of the address, whose parts become the request's; raises a 404."""
    for route in list_pages():
        match, scope = route.matches(request.scope)
        numbers = (part for part in scope.get("path_params", {}).values() if isinstance(part, int))
        if match is Match.FULL and all(number <= MAX_ID for number in numbers):
            request.scope.update(scope)
            return route
    raise HTTPException(404)


@cache
def list_pages() -> Sequence[Route]:
    """Return the routes of all pages; their endpoints take a `Visit`."""
    # The setup is in no menu: it is there while no model is set.
    names = [*(item.name for item in NAVIGATION), "setup"]
    pages = [import_module(f"{__package__}.{name}.page") for name in names]
    return [route for page in pages for route in page.ROUTES]


def to_problem(visit: Visit, status: int, sentence: str) -> Response:
    """Return a page with one sentence."""
    values = {
        "visit": visit,
        "title": NOT_NOW if status == 503 else say("admin.not_here"),
        "outcome": None,
        "sentence": sentence,
        "is_missing": True,
    }
    page = TEMPLATES.get_template("problem.html").render(values)
    return HTMLResponse(page, status, headers=HEADERS)
