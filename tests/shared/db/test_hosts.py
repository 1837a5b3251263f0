"""Addresses with several hosts."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given as examples
from hypothesis import strategies
from msgspec.structs import replace
from pydantic import SecretStr

from shared.db.connections import ReadOnlyDatabase
from shared.db.database import Address, check, locate
from shared.db.hosts import URL, make_url
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.support.given_database import GivenTables
from tests.support.silent_network import networked

FORMS = (
    "postgresql://u:p%40w@a:5432,b:5433/db?sslmode=require",
    "postgresql://u:p%40w@a,b:5433/db?sslmode=require&target_session_attrs=read-write",
    "postgresql://u:p%40w@/db?host=a,b&port=5432,5433&sslmode=require",
    "postgres://u:p%40w@/db?host=a:5432&host=b:5433&sslmode=require",
)


def to_address(text: str) -> Address:
    """Return the address that a setting names."""
    return locate(Settings(database_url=SecretStr(text)))


@pytest.mark.parametrize("form", FORMS)
def test_several_hosts_are_read_in_each_form_and_written_as_libpq_reads_them(form: str) -> None:
    address = to_address(form)

    assert address.servers.hosts == (("a", 5432), ("b", 5433))
    assert address.to_text() == "postgresql://u:***@a:5432,b:5433/db?sslmode=require&target_session_attrs=read-write"
    url = make_url(address.libpq(as_owner=True))
    assert (url.host, url.username, url.password, url.database) == (None, "u", "p@w", "db")
    parameters = {"host": "a,b", "port": "5432,5433", "target_session_attrs": "read-write", "sslmode": "require"}
    assert parameters.items() <= url.query.items()


def test_an_address_of_ipv6_is_one_host() -> None:
    assert to_address("postgresql://u@[::1]:5433,[fe80::1]/db").servers.hosts == (("::1", 5433), ("fe80::1", 5432))
    assert to_address("postgresql://u@[::1]:5433/db").servers.hosts == ()


TEXTS = strategies.text("aé@:/?#%+ ,[]&=0", max_size=6).map(lambda text: text or None)


@examples(
    TEXTS, TEXTS, strategies.sampled_from([None, "a", "::1", "fe80::1%eth0", "/run/a b"]), TEXTS, TEXTS.filter(bool)
)
def test_an_address_survives_its_text_and_shows_no_password(
    user: str | None, password: str | None, host: str | None, database: str | None, options: str
) -> None:
    url = URL("postgresql", user, password, host, 5433, database, {"options": options})

    assert make_url(url.to_text(hide_password=False)) == url
    hidden = url.set(password=f"s3cret{password}")
    assert "s3cret" not in repr(hidden) + hidden.to_text()


def test_what_libpq_reads_from_parameters_is_read_from_there() -> None:
    url = to_address("postgresql://a/?user=u&password=p%40w&dbname=db&port=5433&sslpassword=p%40w").url

    assert (url.username, url.password, url.database, url.port) == ("u", "p@w", "db", 5433)
    assert url.to_text() == "postgresql://u:***@a:5433/db?sslpassword=%2A%2A%2A"
    assert "p@w" not in repr(url)
    assert to_address("postgresql://%2Frun%2Fa/db").asyncpg_arguments()["host"] == "/run/a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://u@a:1,:2/db", "is not a database address"),
        ("postgresql://u@a:x,b/db", "is not a database address"),
        ("postgresql://u@a:70000,b/db", "is not a database address"),
        ("postgresql://u@a:70000/db", "is not a database address"),
        ("postgresql://u@a/db?port=x", "is not a database address"),
        ("postgresql://u:p@w@a/db", "is not a database address"),
        ("postgresql://u:p@[::1]w/db", "is not a database address"),
        ("postgresql://u:p%00@a/db", "is not a database address"),
        ("postgresql://u@/db?host=a,b,c&port=1,2", "is not a database address"),
        ("postgresql://u@a,b/db?target_session_attrs=any", "target_session_attrs=any may lead to a standby"),
        ("postgresql://u@a/db?target_session_attrs=standby", "target_session_attrs=standby may lead to a standby"),
    ],
)
def test_hosts_that_can_not_be_used_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        to_address(text)


@pytest.fixture
async def server(given: GivenTables) -> AsyncIterator[Address]:
    """A database over TCP, with all tables."""
    async with given.one() as address:
        yield address


def name_both(first: Address, second: Address) -> Address:
    """Return an address with the hosts of both."""
    ports = f"{first.url.port},{second.url.port}"
    url = second.url.set(host=None, port=None).with_parameters({"host": "127.0.0.1,127.0.0.1", "port": ports})
    return Address(url, is_embedded=False)


async def test_a_host_that_is_silent_keeps_nobody_from_the_next_one(server: Address) -> None:
    async with networked(server) as (network, silent):
        address = name_both(silent, server)
        await check(address)
        network.fall_silent()
        await check(address)
        assert address.servers.last == ("127.0.0.1", server.url.port)


async def test_a_server_of_another_cluster_is_no_standby(server: Address) -> None:
    address = name_both(server, server)
    await check(address)
    ours = address.servers.witness.history
    assert ours is not None
    address.servers.witness.history = replace(ours, system="another")

    with pytest.raises(ReadOnlyDatabase, match="it is of another cluster"):
        await check(address)
