"""The addresses of modules: requests to `/modules/<module>/<path>` are answered by the module's `@route`."""

from starlette.requests import Request
from starlette.responses import Response

from adapters.web.api.bodies import capped
from adapters.web.faults import Fault
from adapters.web.guard import app_of
from agent.people.module_rules import is_off
from shared.errors import ToolError, Unavailable
from shared.hooks import MAX_BODY_BYTES, HttpRequest

PATH = "/modules/{module}/{path:path}"
METHODS = ["GET", "POST", "PUT", "DELETE"]
# What a module may not set: it would change how the connection or the browser's session is treated.
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # No script runs on our origin, whatever a module sends.
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
KEPT_HEADERS = frozenset({"content-type", "www-authenticate", "cache-control", "retry-after", "location"})


async def answer_module(request: Request) -> Response:
    """Let the module answer; an address that no module has is 404."""
    app = app_of(request)
    module, path = request.path_params["module"], request.path_params["path"].strip("/")
    here = [route for route in app.tools.modules.routes if (route.module, route.path) == (module, path)]
    # One that an admin has switched off has no addresses.
    if not here or await is_off(app.database, module):
        raise Fault(404, "not_found", "There is nothing at this address.")
    endpoint = next((candidate for candidate in here if request.method in candidate.methods), None)
    if endpoint is None:
        raise Fault(405, "method_not_allowed", "This address takes another method.")
    body = b"".join([chunk async for chunk in capped(request, MAX_BODY_BYTES)])
    # The browser's session is none of the module's business.
    headers = {name: value for name, value in request.headers.items() if name != "cookie"}
    query = dict(request.query_params)
    http_request = HttpRequest(request.method, path, headers=headers, query=query, body=body)
    try:
        response = await endpoint.answer(app.context_of(module), http_request)
    except ToolError as error:
        raise Fault(400, error.code, str(error)) from None
    except Unavailable as error:
        raise Fault(503, error.code, str(error)) from None
    response_headers = {name: value for name, value in response.headers.items() if name.lower() in KEPT_HEADERS}
    return Response(response.body, response.status, SAFE_HEADERS | response_headers)
