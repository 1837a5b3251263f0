"""`GET /pictures/{digest}`: the picture of a persona, for whoever has its address.

It is no secret: everybody whom the persona answers sees it, platforms and shared chats included, which have no session.
And nobody guesses the address of another persona's: it is the digest of the bytes. Browsers keep it, and ask each time
whether it is still there: one that was taken off is seen no more.
"""

import re

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.guard import apps_of, has_copy
from shared.db.statements import load_statements

statements = load_statements(__file__)

DIGEST = re.compile(r"[0-9a-f]{64}")
HEADERS = {
    "Cache-Control": "public, no-cache",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def get_picture(request: Request) -> Response:
    """Send a picture that a persona has; any other address gets what every address gets where nothing is."""
    digest = request.path_params["digest"]
    for app in apps_of(request) if DIGEST.fullmatch(digest) else ():
        async with app.database.transaction() as session:
            row = (await session.execute(statements.read_picture, {"digest": digest})).one_or_none()
        if row is not None:
            headers = HEADERS | {"ETag": f'"{digest}"'}
            if has_copy(request, headers["ETag"]):
                return Response(status_code=304, headers=headers)
            return Response(row.content, media_type=row.mime_type, headers=headers)
    raise HTTPException(404)
