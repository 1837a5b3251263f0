"""Where a persona's profile is shown, and which pictures are kept."""

from datetime import UTC, datetime, timedelta

import asyncpg
from msgspec.structs import replace

from adapters.api_client import File
from adapters.chat.account.profiles import REFUSED_SECONDS, Profile, Profiles
from shared.db.database import Address
from shared.errors import Undeliverable
from shared.messages import Place
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.clocks import SetClock
from tests.support.parley import open_parley
from tests.support.pictures import picture

PLACE = Place("matrix", "!room:example.org", "!room:example.org")


async def test_a_place_that_refuses_a_profile_is_asked_again_later_and_old_pictures_go(
    settings: Settings, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    clock, attempts = SetClock(datetime(2026, 11, 1, tzinfo=UTC)), list[Profile | None]()

    async def upload(file: File) -> str:
        return f"mxc://{len(file.content)}"

    async def refuse(_place: Place, profile: Profile | None) -> None:
        attempts.append(profile)
        raise Undeliverable("not here")

    await owner.execute("SELECT admin.create_persona('Sage', 'Answer.', platform => 'matrix')")
    async with open_parley(settings, address, model, works=False) as parley:
        app = replace(parley.app, clock=clock)
        profiles = Profiles(app, ("matrix", "@parley:example.org"), upload=upload, set_profile=refuse)
        for size in (8, 9):
            await owner.execute("SELECT admin.set_picture('Sage', $1)", content := picture((size, size)))
            for _ in range(2):
                await profiles.show(PLACE, None)
            clock.moment += timedelta(seconds=REFUSED_SECONDS + 1)
            assert attempts.pop() == Profile("Sage", f"mxc://{len(content)}")
            assert attempts == []

    assert await owner.fetchval("SELECT array_agg(address) FROM chat_pictures") == [f"mxc://{len(content)}"]
