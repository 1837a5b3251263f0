"""Requests as the chat pages that others have written send them: Open WebUI, and LibreChat by LangChain."""

import base64
import json
from typing import Any

import httpx
import pytest

from tests.adapters.web.conftest import Site
from tests.support.pictures import picture
from tests.support.summaries import remembered

WEBUI = {
    "X-OpenWebUI-User-Name": "Ann %C3%96z",
    "X-OpenWebUI-User-Id": "8e0cfb4a-3f0e-4a0d-9b57-0c2d5b3a7f11",
    "X-OpenWebUI-User-Email": "ann@example.org",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "0b2f1f6e-9a43-4a8c-8f0a-6f0d4f2d9c55",
}
LIBRECHAT = {
    "User-Agent": "LangChain/OpenAI",
    "X-Stainless-Lang": "js",
    "X-Stainless-Retry-Count": "0",
    "X-Stainless-Helper-Method": "chat.completions.stream",
    "X-LibreChat-User-Id": "66f2c1d09b7e",
}
PIXEL = f"data:image/png;base64,{base64.b64encode(picture()).decode()}"
# By the front end: its headers, and what it sends for a question in a chat, with all that it adds.
QUESTIONS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "Open WebUI": (
        WEBUI,
        {
            "stream": True,
            "model": "parley",
            "messages": [
                {"role": "system", "content": "Answer in one line."},
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "You said: one"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}},
                        {"type": "image_url", "image_url": {"url": PIXEL}},
                    ],
                },
            ],
            "reasoning": {"effort": "low"},
            "stream_options": {"include_usage": True},
            "frequency_penalty": 0.1,
        },
    ),
    "LibreChat": (
        LIBRECHAT,
        {
            "model": "parley",
            "temperature": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "user": "66f2c1d09b7e",
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "system", "content": "Answer in one line."},
                {"role": "user", "content": [{"type": "text", "text": "one"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "You said: one"}]},
                {"role": "user", "content": "two"},
            ],
        },
    ),
}
# A request that no person has written: for the title of the chat.
TITLE = {
    "model": "parley",
    "messages": [{"role": "user", "content": "### Task:\nName this chat in a few words.\nUSER: My bank code is 9922."}],
    "stream": False,
    "max_completion_tokens": 1000,
}


def read_stream(response: httpx.Response) -> tuple[str, dict[str, Any]]:
    """Return the text and the usage of a stream, read line by line as these front ends do."""
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [json.loads(line) for line in lines]
    text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
    return text, chunks[-1]["usage"]


@pytest.mark.parametrize("front_end", QUESTIONS)
async def test_a_front_end_lists_the_model_and_streams_an_answer(site: Site, front_end: str) -> None:
    headers, body = QUESTIONS[front_end]

    models = (await site.client.get("/v1/models", headers=headers)).json()
    text, usage = read_stream(await site.client.post("/v1/chat/completions", json=body, headers=headers))

    assert [model["id"] for model in models["data"]] == ["parley"]
    assert text.startswith("You said: two")
    assert usage["total_tokens"] > 0
    roles = [message["role"] for message in site.parley.model.requests[-1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    person = next(value for name, value in headers.items() if name.endswith("User-Id"))
    rows = await site.parley.sql("SELECT platform, platform_user_id, platform_username FROM user_platform_links")
    assert [tuple(row) for row in rows] == [("openai", person, "Ann Öz" if front_end == "Open WebUI" else None)]


@pytest.mark.parametrize("front_end", QUESTIONS)
async def test_what_a_front_end_asks_for_itself_is_not_remembered(site: Site, front_end: str) -> None:
    headers, body = QUESTIONS[front_end]

    title = await site.client.post("/v1/chat/completions", json=TITLE, headers=headers)
    await remembered(site.parley)
    await site.client.post("/v1/chat/completions", json=body, headers=headers)

    assert title.json()["choices"][0]["message"]["content"].startswith("You said: ### Task:")
    assert "9922" not in str(site.parley.model.requests[-1].body)


@pytest.mark.parametrize("front_end", QUESTIONS)
async def test_a_front_end_can_show_why_there_is_no_answer(site: Site, front_end: str) -> None:
    headers, body = QUESTIONS[front_end]
    await site.client.post("/v1/chat/completions", json=body, headers=headers)
    await site.parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")

    refusal = await site.client.post("/v1/chat/completions", json=body, headers=headers)

    # Not a stream: these front ends read the error of a status as JSON.
    assert (refusal.status_code, refusal.headers["content-type"]) == (429, "application/json")
    assert "used this month's budget" in refusal.json()["error"]["message"]
