"""The name and the picture of a persona in the place where it answers, on platforms that have others in each place."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from shared.db.database import Database
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)


class Face(NamedTuple):
    """The name of a persona, and where the platform has its picture."""

    name: str
    picture: str | None


class Faces:
    """The faces that one account of a platform has; `upload` takes a picture with its type, and says where it is."""

    def __init__(
        self, database: Database, platform: str, account: str, *, upload: Callable[[bytes, str], Awaitable[str]]
    ) -> None:
        self._database, self._upload = database, upload
        self._account = {"platform": platform, "account": account}

    async def find(self, place: Place) -> Face | None:
        """Return the face of the persona that answers in a place; None for the built-in one, which has none."""
        parameters = self._account | {"server": place.server, "channel": place.channel}
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_face, parameters)).one_or_none()
        if row is None or row.sha256 is None or row.address is not None:
            return None if row is None else Face(row.name, row.address)
        async with self._database.statement() as session:
            picture = (await session.execute(statements.read_picture, {"sha256": row.sha256})).one()
        address = await self._upload(picture.content, picture.mime_type)
        async with self._database.statement() as session:
            values = self._account | {"sha256": row.sha256, "address": address}
            await session.execute(statements.store_picture, values)
        return Face(row.name, address)
