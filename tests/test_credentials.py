"""Credentials of people: entered in private, used by tools, and seen by nobody else."""

import dataclasses
import json
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from agent import commands
from agent.app import App
from agent.commands.registry import all_commands
from agent.personal_data.erasure import erase, request_erasure
from agent.personal_data.export import export_person
from shared.db.database import Address
from shared.errors import Refusal
from shared.log import redact
from shared.messages import IncomingMessage, Place, PlatformContext, QuotedMessage
from shared.messages import Sender as Writer
from shared.settings import Settings
from shared.text import had_credential, without_credential
from tests.standins.cabins import Cabins
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, message, open_parley

SECRET = "lantern-4711-wagon"  # it opens nothing
ANN = Writer("test", "ann", "Ann")
DIRECT, CHANNEL = Place("test", None, "dm-ann", is_direct=True), Place("test", "guild", "general")
BOOKINGS = Answer(tool_calls=[("cabins__bookings", {})])


@pytest.fixture(name="cabins")
def new_cabins() -> Cabins:
    """A booking system that nobody has logged in to."""
    return Cabins()


@pytest.fixture(name="settings")
def settings_with_cabins(settings: Settings) -> Settings:
    """Settings with which guests may use it."""
    overrides = {"default_guest_modules": ("cabins",), "default_guest_token_budget": 1_000_000}
    return settings.model_copy(update=overrides)


@pytest.fixture(name="parley")
async def parley_with_cabins(
    settings: Settings, address: Address, model: OpenAIStub, cabins: Cabins
) -> AsyncIterator[Parley]:
    """A running Parley whose guests may book cabins."""
    async with open_parley(settings, address, model, modules=cabins.modules()) as parley:
        yield parley


async def give(parley: Parley, line: str, place: Place = DIRECT) -> str:
    """Give a command and return its answer."""
    reply = await commands.answer(parley.app, ANN, place, line)
    assert reply is not None
    assert reply.is_private
    return reply.text


async def dump(parley: Parley) -> str:
    """Return all rows of all tables as text."""
    tables = await parley.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    rows = [await parley.sql(f"SELECT CAST(row_to_json(t) AS text) FROM {table[0]} AS t") for table in tables]  # noqa: S608
    return "\n".join(str(row[0]) for result in rows for row in result)


async def test_a_tool_uses_the_persons_credential_and_nobody_else_gets_to_see_it(
    parley: Parley, cabins: Cabins
) -> None:
    assert "I keep your credential cabins" in await give(parley, f"/credential set cabins {SECRET}")
    calls = Answer(tool_calls=[("cabins__bookings", {}), ("cabins__broken", {}), ("cabins__tell", {})])
    parley.model.play([calls, Answer("You have the lake cabin."), Answer(f"Your login is {SECRET}, {SECRET[::-1]}.")])

    reply = await parley.ask("what have I booked?")

    assert cabins.logins == [SECRET]
    assert reply.content.count("[a secret was removed here]") == 2
    assert reply.tool_calls_made[0].result["bookings"] == ["Lake cabin"]
    assert redact(None, "", {"exception": f"no such login: {SECRET}"}) == {"exception": "no such login: ***"}
    for text in (str(reply), json.dumps([request.body for request in parley.model.requests]), await dump(parley)):
        assert SECRET not in text


async def test_without_one_the_model_is_told_how_the_person_enters_it(parley: Parley, cabins: Cabins) -> None:
    parley.model.play([BOOKINGS, Answer("Please use /credential set cabins.")])

    reply = await parley.ask("what have I booked?")

    result = reply.tool_calls_made[0].result
    assert result["error"] is True
    assert "/credential set cabins" in result["message"]
    assert "must not write it into this chat" in result["message"]
    assert cabins.logins == []


async def test_it_is_listed_replaced_forgotten_exported_by_name_and_erased_with_the_person(
    parley: Parley, cabins: Cabins
) -> None:
    assert "no credentials" in await give(parley, "/credential")
    await give(parley, "/credential set cabins another-one-0815")
    await give(parley, f"/credential set cabins  {SECRET} ")
    assert "cabins (since" in await give(parley, "/credential list")
    parley.model.play([BOOKINGS, Answer("One."), BOOKINGS, Answer("None.")])
    await parley.ask("what have I booked?")
    # Another person has none, whatever the name.
    await parley.ask("what have I booked?", user="bob")
    assert cabins.logins == [SECRET]

    user_id = await parley.value("SELECT user_id FROM user_platform_links WHERE platform_user_id = 'ann'")
    async with parley.app.database.transaction() as session:
        exported = await export_person(session, parley.app.files.storage, user_id)
        assert exported is not None
        assert [credential["name"] for credential in exported["credentials"]] == ["cabins"]
        erasure_id = await request_erasure(session, user_id)
    assert SECRET not in str(exported)
    assert await give(parley, "/credential forget nothing") == "You have no credential nothing here."
    assert await give(parley, "/credential forget cabins") == "I have forgotten cabins."
    await give(parley, f"/credential set cabins {SECRET}")
    assert erasure_id is not None
    await erase(parley.app.database, parley.app.files.storage, erasure_id)
    assert await parley.value("SELECT count(*) FROM credentials") == 0


async def test_what_can_not_be_kept_is_refused(parley: Parley, subtests: pytest.Subtests) -> None:
    for words in ("set cabins short1", "set Cabins 12345678", "set", "nothing", "forget", f"set cabins {'x' * 5000}"):
        with subtests.test(words[:30]):
            answer = await give(parley, f"/credential {words}")

            assert answer.startswith(("A credential", "Write /credential"))
            assert await parley.value("SELECT count(*) FROM credentials") == 0


async def test_what_is_typed_where_others_read_is_not_stored_and_no_model_sees_it(parley: Parley) -> None:
    assert "I have not kept the credential" in await give(parley, f"/credential set cabins {SECRET}", CHANNEL)
    quoted = PlatformContext(earlier=(QuotedMessage("Ann", f"@Parley /credential set cabins {SECRET}"),))
    await parley.accept("hello", server="guild", platform_context=quoted, user="bob", event_id="1")

    first = await parley.ask(f"@Parley /Credential set cabins\n{SECRET} please", server="guild", event_id="2")

    assert first.content.startswith("I have not kept the credential that you wrote, and no model has seen it.")
    assert (first.iterations, first.finished) == (0, True)
    assert SECRET not in await dump(parley)
    assert SECRET not in json.dumps([request.body for request in parley.model.requests])
    assert await parley.value("SELECT count(*) FROM credentials") == 0


def test_only_what_follows_the_name_is_taken_out_of_a_message() -> None:
    assert without_credential("see /credential list and /credential forget pms") == (
        "see /credential list and /credential forget pms"
    )
    assert without_credential("/credential set pms") == "/credential set pms"
    assert without_credential("/credential pms hunter2") == "/credential set pms [removed]"
    once = without_credential("please /credential set pms [removed] hunter2\nand more")
    assert once == without_credential(once) == "please /credential set pms [removed]"
    hidden = without_credential("please \uff0fcre\u200bdential set pms\rhunter2")
    assert hidden == "please /credential set pms [removed]"
    assert without_credential("/ credential pms hunter2") == "/credential set pms [removed]"
    assert without_credential("a password / credential of mine is lost") == "a password / credential of mine is lost"
    assert without_credential("½ \uff0fcredential list") == "½ \uff0fcredential list"
    assert had_credential(once)
    assert not had_credential("/credential set pms")


@pytest.mark.parametrize(
    "typed",
    [
        # Matrix knows commands by this sign, too.
        "!credential set pms",
        "\uff01credential set pms",
        "/credentials set pms",
        "/credential: set pms",
        "/credential-set pms",
        "/credential_set pms",
        # As bold text and code are typed.
        "**/credential** set pms",
        "*/credential set* pms",
        "`/credential` set pms",
        # Names that begin as a subcommand does.
        "/credential set set-top-box",
        "/credential set list",
        "/credential forget-me-not",
        # As the thumb and the keyboards of others write it.
        "/credentials pms",
        "/credental set pms",
        "/Crendential pms",
        "/credentialset pms",
        "/credential sett pms",
        "\\credential set pms",
        "\n\\ credentials pms",
        "/cr\u00e9dential set pms",
        "/\u0441redential set pms",
        "/\u0441r\u0435d\u0435nti\u0430l pms",
        "/\uff43\uff52\uff45\uff44ential set pms",
        "\n/ credencial pms",
        "/credentia1 set pms",
        "/credential1 set pms",
        "\n! credential set pms",
    ],
)
def test_a_credential_is_taken_out_of_a_message_however_the_command_was_typed(typed: str) -> None:
    without = without_credential(f"please {typed} hunter2hunter2")

    assert "hunter2" not in without
    assert had_credential(without)
    assert without_credential(without) == without


@pytest.mark.parametrize("typed", ["set pms=", "set pms:", "pms=", "pms: ", "set pms = ", "set name=pms value="])
def test_a_credential_is_taken_out_of_a_message_in_whatever_way_it_was_set_apart_from_its_name(typed: str) -> None:
    without = without_credential(f"please /credential {typed}hunter2=hunter2")

    assert "hunter2" not in without
    assert had_credential(without)
    assert without_credential(without) == without


def test_a_credential_is_taken_out_behind_a_shorter_name_of_the_command() -> None:
    for name in ("cred", "creds", "Creden"):
        assert without_credential(f"/{name} set pms hunter2") == "/credential set pms [removed]"
        assert without_credential(f"the folder /{name} set pms hunter2") == f"the folder /{name} set pms hunter2"


@pytest.mark.parametrize(
    "typed",
    [
        "/secret set pms hunter2",
        "/Secrets set pms=hunter2",
        "@Parley /secret set pms hunter2 please",
        "please do \uff0fpassword set pms hunter2",
        "/token hunter2hunter2",
        "/ token pms hunter2hunter2",
        "/api_key = hunter2",
        "!api-key pms: hunter2",
        "/**password** hunter2",
        "**/secret** set pms hunter2",
        "\\passwd hunter2\n",
        "**/token** hunter2",
        "||/token hunter2||",
        "```\n/token hunter2\n```",
        "/api_key=hunter2",
        "/Token:hunter2",
        "please /access-token set pms hunter2",
        "/pwd hunter2",
        "/key\n-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
    ],
)
def test_a_credential_is_taken_out_behind_what_other_programs_call_the_command(typed: str) -> None:
    without = without_credential(typed)

    assert "hunter2" not in without
    assert had_credential(without)
    assert without_credential(without) == without


def test_a_sentence_behind_a_word_for_credentials_stays_as_it_is_and_takes_no_time() -> None:
    for text in (
        "/token returns 401 although I am signed in",
        "/secret set pms",
        "/secret",
        "/token list",
        "POST /token sets the header",
        "`/token` endpoint",
        "why is POST /token set up to ask guests for a password?",
        "!token \u3068\u306f\u4f55\u3067\u3059\u304b",
        "https://example.org/password set pms hunter2",
        "the file ~/token hunter2hunter2",
        f"/token {'=' * 100_000} x y",
        f"/token {'=a ' * 30_000}",
    ):
        assert without_credential(text) == text


def test_a_command_that_is_another_one_stays_as_it_is() -> None:
    names = {command.name for command in all_commands()} | {
        "start",
        "shrug",
        "\u043d\u0430\u043f\u043e\u043c\u043d\u0438",
    }
    for name in names - {"credential"}:
        assert without_credential(f"/{name} set pms hunter2") == f"/{name} set pms hunter2"


def test_a_sentence_about_credentials_stays_as_it_is() -> None:
    for text in (
        "it is /essential to me, and C:\\credentials\\pms is a folder",
        "the keys in ~/.aws/credentials are two",
        "see /credential, which asks for it. /credential/ is a folder",
        "Done! Credential set up for you!",
        "src/auth/credential store.py fails, and so does https://example.org/credential page 2",
        "why?\n10.0.0.1 GET /credentials HTTP/1.1 403\n10.0.0.1 GET /v1/credential HTTP/2 403",
        "the password/credential of somebody",
        "\\central limit theorem, and \\partial f",
        "/credential set list",
        "/credential forget pms now",
    ):
        assert without_credential(text) == text


def given_for(parley: Parley, content: str) -> IncomingMessage:
    """Return a message of Ann with a credential that a program gives for it."""
    return message(content, credentials=parley.app.credentials.encrypt_given("Ann's", {"cabins": SECRET}))


async def test_a_program_gives_one_for_a_single_message_and_it_outlives_the_death_of_a_worker(
    settings: Settings, address: Address, model: OpenAIStub, cabins: Cabins
) -> None:
    async with open_parley(settings, address, model, modules=cabins.modules(), works=False) as door:
        await door.app.inbox.accept(given_for(door, "what have I booked?"))
        await door.accept("and next year?")
        assert await door.value("SELECT count(*) FROM inbox WHERE credentials IS NOT NULL") == 1
        assert SECRET not in await dump(door)

    # Another process, which knows no more than what is stored.
    async with open_parley(settings, address, model, modules=cabins.modules()) as parley:
        model.play([BOOKINGS, Answer("The lake cabin."), BOOKINGS, Answer("I can't see that.")])
        await parley.app.events.response(await parley.value("SELECT max(id) FROM inbox"))

        assert cabins.logins == [SECRET]
        assert await parley.value("SELECT count(*) FROM inbox WHERE credentials IS NOT NULL") == 0
        assert await parley.value("SELECT count(*) FROM turns WHERE status = 'answered'") == 2


async def test_an_older_key_still_opens_it_and_is_not_needed_once_it_was_renewed(parley: Parley) -> None:
    old = parley.app
    await give(parley, f"/credential set cabins {SECRET}")
    user_id = await parley.value("SELECT id FROM users")
    secrets = old.secrets

    def with_keys(*keys: str) -> App:
        return replace(old, secrets=dataclasses.replace(secrets, secret_keys=keys))

    rotating = with_keys("new", *secrets.secret_keys).credentials
    assert await rotating.of_user(user_id).get("cabins") == SECRET
    assert (await rotating.renew(), await rotating.renew()) == (1, 0)
    assert await with_keys("another").credentials.renew() == 0
    assert await with_keys("new").credentials.of_user(user_id).get("cabins") == SECRET
    with pytest.raises(Exception, match="There is no credential of this person for cabins"):
        await with_keys("another").credentials.of_user(user_id).get("cabins")
    # A row that was copied to another person opens nothing.
    await parley.sql("INSERT INTO users DEFAULT VALUES")
    await parley.sql("UPDATE credentials SET user_id = (SELECT max(id) FROM users)")
    with pytest.raises(Exception, match="There is no credential"):
        await with_keys("new").credentials.of_user(user_id + 1).get("cabins")
    with pytest.raises(Refusal):
        await old.credentials.of_user(user_id).get("no name")
