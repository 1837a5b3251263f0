"""The reply to a command, as it is kept while its platform is away."""

from adapters.base import key_of
from adapters.chat.undelivered import Destination, to_reply
from agent.commands import CommandReply
from shared.messages import Place
from shared.settings import Secrets

SECRETS = Secrets("token", ("key",))
ROOM = Place("matrix", "!room:example.org", "!room:example.org")


async def test_a_private_reply_goes_to_its_account_and_knows_its_message_whatever_colons_they_have() -> None:
    account, message = "@ann:example.org", "$1:example.org"

    async def open_direct(person: str) -> str:
        return f"direct messages with {person}"

    private = to_reply(Destination("matrix", ROOM, account, message), CommandReply("Your budget", is_private=True))
    direct = await private.in_direct(open_direct, where="#room")

    assert (direct.place.channel, direct.delivery.asker) == (f"direct messages with {account}", account)
    # What it says of "here" is not of the place where it is read.
    assert direct.content == "About #room\n\nYour budget"
    other = to_reply(Destination("matrix", ROOM, account, "$2:example.org"), CommandReply("Another", is_private=True))
    second = to_reply(Destination("matrix", ROOM, account, message), CommandReply("And this", is_private=True))
    assert len({key_of(SECRETS, reply) for reply in (private, other, second)}) == 3
