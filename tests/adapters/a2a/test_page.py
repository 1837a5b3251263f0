"""The examples of docs/a2a.md do what the page says."""

import shlex
from itertools import pairwise

import httpx

from tests.adapters.web.conftest import TOKEN, Site
from tests.support.documents import document

PAGE = document("docs/a2a.md")


async def test_the_call_on_the_page_is_answered(site: Site) -> None:
    words = shlex.split(PAGE.blocks("sh")[0].text.replace("\\\n", " ").replace("$(cat .parley/api_token)", TOKEN))
    headers = [word for before, word in pairwise(words) if before == "-H"]
    async with httpx.AsyncClient(headers=dict(header.split(": ", 1) for header in headers), timeout=30) as client:
        answer = await client.post(site.url + "/a2a", content=words[words.index("-d") + 1])

    assert words[:3] == ["curl", "-s", "http://127.0.0.1:8080/a2a"]
    task = answer.json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "You said: What is 12*(3+4)?"
    assert await site.parley.value("SELECT platform FROM user_platform_links") == "intranet"


async def test_the_sql_on_the_page_adds_an_agent_and_shows_it(site: Site) -> None:
    insert, select = PAGE.blocks("sql")[0].text.split(";\n\n")

    await site.parley.sql(insert)
    rows = await site.parley.sql(select.rstrip().rstrip(";"))

    assert [tuple(row) for row in rows] == [("weather", None, None, None)]
