"""A strict stand-in for an OpenAI-compatible model API: real HTTP, scripted answers, a journal of requests.

    async with OpenAIStub([Answer(tool_calls=[("dice__roll", {"sides": 6})]), Answer("You rolled a 4.")]) as stub:
        ...  # point OPENAI_BASE_URL to stub.base_url
        assert stub.requests[0].body["model"] == "small"

`python -m tests.standins.openai_api --port 9100` starts one by hand.
"""

from tests.standins.openai_api.script import Answer, Fault, Received, Reply, Script
from tests.standins.openai_api.server import OpenAIStub

__all__ = ["Answer", "Fault", "OpenAIStub", "Received", "Reply", "Script"]
