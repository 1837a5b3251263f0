"""The name and the picture of a persona in the place where it answers, on platforms that have others in each place."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from cachetools import TTLCache

from adapters.api_client import File
from shared.db.statements import load_statements
from shared.errors import Undeliverable
from shared.log import get_logger
from shared.messages import Place

if TYPE_CHECKING:
    from agent.app import App

statements = load_statements(__file__)
log = get_logger()

# A place that has refused a profile is asked again after this time: somebody may have given the permission.
MOST_PLACES, REFUSED_SECONDS = 10_000, 600


class Profile(NamedTuple):
    """The name of a persona, and where the platform has its picture."""

    name: str
    picture: str | None

    @property
    def row(self) -> dict[str, str | None]:
        """Return the profile as it can be noted beside what is shown."""
        return self._asdict()


class Profiles:
    """The profiles that one account of a platform has, each where its persona answers.

    `upload` takes a picture and says where it is; `set_profile` shows a profile in a place, for None the account's own.
    """

    def __init__(
        self,
        app: "App",
        account: tuple[str, str],
        *,
        upload: Callable[[File], Awaitable[str]],
        set_profile: Callable[[Place, Profile | None], Awaitable[None]],
    ) -> None:
        self._database, self._upload, self._set_profile = app.database, upload, set_profile
        self._account = {"platform": account[0], "account": account[1]}
        self._refused: TTLCache[str, None] = TTLCache(MOST_PLACES, REFUSED_SECONDS, timer=app.clock.monotonic)

    async def show(self, place: Place, current: object) -> None:
        """Show the profile of a place, unless it is the `current` one there, as `Profile.row`, or it was refused."""
        if place.channel in self._refused:
            return
        try:
            profile = await self._find(place)
            if (profile and profile.row) != current:
                await self._set_profile(place, profile)
        except Undeliverable as error:
            self._refused[place.channel] = None
            log.info("profile_refused", platform=place.platform, channel=place.channel, cause=str(error))

    async def _find(self, place: Place) -> Profile | None:
        parameters = self._account | {"server": place.server, "channel": place.channel}
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_profile, parameters)).one_or_none()
        if row is None or row.sha256 is None or row.address is not None:
            return None if row is None else Profile(row.name, row.address)
        async with self._database.statement() as session:
            picture = (await session.execute(statements.read_picture, {"sha256": row.sha256})).one()
        address = await self._upload(File(picture.content, picture.mime_type))
        async with self._database.statement() as session:
            values = self._account | {"sha256": row.sha256, "address": address}
            await session.execute(statements.store_picture, values)
        return Profile(row.name, address)
