"""The name and the picture of a persona in the place where it answers, on platforms that have others in each place."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from adapters.api_client import File
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import Undeliverable
from shared.log import get_logger
from shared.messages import Place

statements = load_statements(__file__)
log = get_logger()


class Face(NamedTuple):
    """The name of a persona, and where the platform has its picture."""

    name: str
    picture: str | None

    @property
    def row(self) -> dict[str, str | None]:
        """Return the face as it can be noted beside what is shown."""
        return self._asdict()


class Faces:
    """The faces that one account of a platform has, each where its persona answers.

    `upload` takes a picture and says where it is; `wear` shows a face in a place, for None the account's own.
    """

    def __init__(
        self,
        database: Database,
        account: tuple[str, str],
        *,
        upload: Callable[[File], Awaitable[str]],
        wear: Callable[[Place, Face | None], Awaitable[None]],
    ) -> None:
        self._database, self._upload, self._wear = database, upload, wear
        self._account = {"platform": account[0], "account": account[1]}
        # Places that allow none.
        self._refusing = set[str]()

    async def show(self, place: Place, worn: object) -> None:
        """Show the face of a place, unless it is the one that is worn there (as `Face.row`) or the place refuses it."""
        if place.channel in self._refusing:
            return
        try:
            face = await self._find(place)
            if (face and face.row) != worn:
                await self._wear(place, face)
        except Undeliverable as error:
            self._refusing.add(place.channel)
            log.info("face_refused", platform=place.platform, channel=place.channel, cause=str(error))

    async def _find(self, place: Place) -> Face | None:
        parameters = self._account | {"server": place.server, "channel": place.channel}
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_face, parameters)).one_or_none()
        if row is None or row.sha256 is None or row.address is not None:
            return None if row is None else Face(row.name, row.address)
        async with self._database.statement() as session:
            picture = (await session.execute(statements.read_picture, {"sha256": row.sha256})).one()
        address = await self._upload(File(picture.content, picture.mime_type))
        async with self._database.statement() as session:
            values = self._account | {"sha256": row.sha256, "address": address}
            await session.execute(statements.store_picture, values)
        return Face(row.name, address)
