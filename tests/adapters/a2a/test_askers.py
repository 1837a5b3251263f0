"""Who asks by a peer, and by which way the question came."""

import json
from typing import Any

import pytest
from a2a.utils.errors import A2AError

from agent.people.hops import installation_id
from tests.adapters.a2a.callers import ANN, Peer, connected
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer


async def test_the_person_whom_a_peer_names_is_the_one_who_asks(peer: Peer, site: Site) -> None:
    await site.posts("hello")
    await peer.says("hello", metadata={"parley/person": ANN})
    await peer.says("hello")

    users = await site.parley.sql("SELECT platform, platform_user_id FROM user_platform_links ORDER BY user_id")
    assert [tuple(user) for user in users] == [("test", "ann"), ("a2a", "anonymous")]


async def test_headers_may_name_the_person_too(site: Site) -> None:
    site.client.headers.update({"Parley-Platform": "test", "Parley-User": "ann"})
    async with connected(site, "1.0") as peer:
        await peer.says("hello")

    assert await site.parley.value("SELECT platform_user_id FROM user_platform_links") == "ann"


async def test_what_a_person_keeps_private_is_not_told_to_a_peer_unless_it_speaks_to_that_person_alone(
    peer: Peer, site: Site
) -> None:
    site.parley.model.play([
        Answer(tool_calls=[("knowledge__remember", {"content": "The safe's code is 4711."})]),
        Answer("Noted."),
        Answer(tool_calls=[("knowledge__list_memories", {})]),
        Answer("That's all."),
        Answer(tool_calls=[("knowledge__list_memories", {})]),
        Answer("That's all."),
    ])  # fmt: skip
    await site.posts("The safe's code is 4711.")

    await peer.says("What do you know of the safe?", metadata={"parley/person": ANN})
    result = json.dumps([request.body["messages"] for request in list(site.parley.model.requests)[2:]])
    assert "4711" not in result

    await peer.says("What do you know of the safe?", metadata={"parley/person": {**ANN, "is_direct": True}})
    assert "4711" in json.dumps(site.parley.model.requests[-1].body["messages"])


UNREADABLE: list[tuple[dict[str, Any], str]] = [
    ({"parley/person": {"platform": "test"}}, "platform_user_id"),
    ({"parley/person": {**ANN, "permission": "owner"}}, "permission"),
    ({"parley/person": {**ANN, "platform_user_id": 7}}, "platform_user_id"),
    ({"parley/person": "ann"}, "parley/person"),
    ({"parley/trail": "a"}, "parley/trail"),
    ({"parley/trail": ["a > b"]}, "parley/trail"),
    ({"parley/trail": [["a"]]}, "parley/trail"),
    ({"parley/trail": ["a"] * 21}, "parley/trail"),
]


async def test_metadata_that_can_not_be_read_is_refused_with_the_reason(site: Site, subtests: pytest.Subtests) -> None:
    async with connected(site, "1.0") as peer:
        for metadata, reason in UNREADABLE:
            with subtests.test(str(metadata)), pytest.raises(A2AError, match=reason):
                await peer.says("hello", metadata=metadata)

    assert await site.parley.value("SELECT count(*) FROM inbox") == 0


async def test_unknown_metadata_is_ignored(peer: Peer) -> None:
    heard = await peer.says("hello", metadata={"https://example.org/ext": {"deep": [1, None, "x"]}})

    assert heard.answer == "You said: hello"


async def test_a_message_that_returns_to_this_installation_is_refused(peer: Peer, site: Site) -> None:
    hops = ["elsewhere", installation_id(site.parley.app.secrets)]

    with pytest.raises(A2AError, match="has been here before"):
        await peer.says("hello", metadata={"parley/trail": hops})
    assert await site.parley.value("SELECT count(*) FROM inbox") == 0


async def test_a_question_may_be_passed_on_three_times_and_no_more(peer: Peer) -> None:
    heard = await peer.says("hello", metadata={"parley/trail": ["a", "b", "c"]})
    assert heard.states[-1] == "completed"

    with pytest.raises(A2AError, match="passed on 4 times"):
        await peer.says("hello", metadata={"parley/trail": ["a", "b", "c", "d"]})


async def test_a_peer_that_names_no_person_asks_for_itself(peer: Peer, site: Site) -> None:
    await peer.says("hello", metadata={"parley/trail": ["first", "second"]})

    assert await site.parley.value("SELECT platform_user_id FROM user_platform_links") == "second"
    assert await site.parley.value("SELECT platform_thread_id FROM inbox") == "first>second"


async def test_what_a_peer_writes_is_never_a_command(peer: Peer, site: Site) -> None:
    heard = await peer.says("/reset", metadata={"parley/person": ANN})

    assert heard.answer == "You said: /reset"
    assert await site.parley.value("SELECT count(*) FROM turns") == 1
