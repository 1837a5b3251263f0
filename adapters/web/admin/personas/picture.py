"""The picture of a persona: what is uploaded becomes a small square, written anew."""

from pathlib import Path

import shared.files
from adapters.web.admin.visit import Visit
from adapters.web.texts import say
from shared.errors import Refusal
from shared.sandbox.programs import Program, SandboxMissing

MAKER = Program(Path(shared.files.__file__).with_name("portrait_maker.py")).within(20)
NO_PICTURE = say("admin.picture_is_missing")
UNREADABLE = say("admin.picture_is_unreadable")


async def make_portrait(visit: Visit) -> bytes | Refusal:
    """Return the upload as a small square, or why it is refused; outside a transaction, as decoding takes time.

    A file may have taken the program over, which is confined: the database looks at what it is given once more, and it
    is served as nothing but a picture.
    """
    upload = visit.form.files.get("picture", b"")
    if not upload:
        return Refusal(NO_PICTURE)
    try:
        result = await visit.app.files.storage.sandbox.run(visit.admin.user.id, MAKER, upload)
    except TimeoutError:
        return Refusal(UNREADABLE)
    except SandboxMissing as error:
        return Refusal(str(error))
    return result.output if result.status == 0 and result.output else Refusal(UNREADABLE)
