"""What the models' library loads late is loaded before the first call, outside the event loop."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE

from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.source_tree import ROOT

# A process of its own, because in this one the library is loaded already.
FIRST_CALL = """
import asyncio, json, sys
from agent.llm.completions import AttemptState, ModelRequest
from agent.llm.providers.client import Providers
from shared.clock import SystemClock
from shared.settings import Settings

async def main():
    providers = Providers(Settings(openai_base_url=sys.argv[1], openai_api_key="x"), SystemClock())
    await providers.prepare("openai/stub")
    before = set(sys.modules)
    tool = {"type": "function", "function": {"name": "x", "parameters": {"type": "object", "properties": {}}}}
    request = ModelRequest(({"role": "user", "content": "hello"},), (tool,), 10)
    await providers.complete("openai/stub", request, AttemptState(30.0))
    print(json.dumps(sorted(set(sys.modules) - before)))
    await providers.aclose()

asyncio.run(main())
"""


# The library is missing at first, as on a disk that was full while it was installed.
AFTER_A_FAILED_IMPORT = """
import asyncio, sys
sys.modules["litellm"] = None
from agent.llm.completions import AttemptState, ModelRequest
from agent.llm.providers.client import Providers
from shared.clock import SystemClock
from shared.memory.embeddings import COOLDOWN_SECONDS, EmbeddingUnavailable, LiteLLMEmbedder
from shared.settings import Settings

class Later(SystemClock):
    ahead = 0.0

    def monotonic(self):
        return super().monotonic() + self.ahead

async def tried(call):
    try:
        return await call()
    except (ImportError, EmbeddingUnavailable) as error:
        return type(error).__name__

async def main():
    settings = Settings(openai_base_url=sys.argv[1], openai_api_key="x", embedding_model="openai/stub")
    providers, embedder = Providers(settings, SystemClock()), LiteLLMEmbedder(settings, clock := Later())
    request = ModelRequest(({"role": "user", "content": "hello"},), (), 10)
    complete = lambda: providers.complete("hosted_vllm/stub", request, AttemptState(30.0))
    embed = lambda: embedder.embed(["hello"], deadline_seconds=60)
    print(await tried(complete), await tried(embed))
    del sys.modules["litellm"]
    clock.ahead = COOLDOWN_SECONDS
    print((await tried(complete)).text, len((await tried(embed)).vectors))
    await providers.aclose()
    await embedder.aclose()

asyncio.run(main())
"""


async def test_an_import_that_failed_is_tried_again_by_the_next_call(model: OpenAIStub) -> None:
    model.play([Answer("Hi.")])
    command = (sys.executable, "-c", AFTER_A_FAILED_IMPORT, model.base_url)
    environment = {**os.environ, "HOSTED_VLLM_API_BASE": model.base_url}
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment, stdout=PIPE, stderr=PIPE)
    output, complaints = await process.communicate()

    assert output.decode().splitlines()[-2:] == ["ModuleNotFoundError EmbeddingUnavailable", "Hi. 1"], complaints


async def test_the_first_call_of_a_process_imports_next_to_nothing(model: OpenAIStub) -> None:
    model.play([Answer("Hi.")])
    command = (sys.executable, "-c", FIRST_CALL, model.base_url)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
    output, complaints = await process.communicate()

    assert output, complaints.decode()
    imported = json.loads(output)
    assert len(imported) < 20, imported
    assert not [module for module in imported if module.startswith(("litellm", "mcp", "openai", "tiktoken"))]
