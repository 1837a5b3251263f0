"""The checks of `parley doctor` for models: keys, and with `--call` one tiny call of each."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from adapters.cli.findings import Finding
from adapters.cli.models import describe_models, describe_recall, is_offline
from agent.llm.completions import ModelRequest
from agent.llm.cooldowns import to_cause_lines
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.errors import ParleyError
from shared.memory.embedders import Embedders
from shared.settings import LOCAL_EMBEDDING_MODELS, Settings

CALL_SECONDS = 60.0
QUESTION = {"role": "user", "content": "Answer with the one word: ready"}


async def check_models(settings: Settings, others: Sequence[tuple[str, str]], *, call: bool) -> AsyncIterator[Finding]:
    """Yield the findings about every model: those of the settings, and `others` with the name of who uses them."""
    clock = SystemClock()
    if is_offline(settings):
        text = f"{describe_models(settings)}; set LLM_MODELS and the provider's key for a real one"
        yield Finding("warn", "models", text)
    elif settings.debug_mock_responses is not None:
        yield Finding("ok", "models", describe_models(settings))
    model_uses = [("LLM_MODELS", name) for name in settings.llm_models]
    model_uses += [("SUMMARY_MODEL", settings.summary_model)] if settings.summary_model else []
    async with aclosing(Router(settings, clock)) as router:
        for user, name in (*model_uses, *others):
            yield await check_key(router, user, name)
        if settings.voice_transcription_model:
            yield await check_key(
                router, "VOICE_TRANSCRIPTION_MODEL", settings.voice_transcription_model, subject="voice"
            )
        else:
            yield Finding("off", "voice", "recordings are not transcribed; VOICE_TRANSCRIPTION_MODEL names a model")
    is_complete, text = describe_recall(settings)
    yield Finding("ok" if is_complete else "warn", "recall", text)
    if call:
        for llm_model in settings.llm_models or (None,):
            yield await call_model(settings, llm_model)
        if settings.embedding_model is not None and is_complete:
            yield await _call_embedder(settings, settings.embedding_model)


async def check_key(router: Router, user: str, name: str, *, subject: str = "model") -> Finding:
    """Return whether a model that `user` names has a provider, its variables, and a name that this provider knows."""
    variables = await router.find_missing(name)
    if variables is None:
        similar = to_question(router.find_similar(name))
        return Finding("fail", subject, f"{user}: litellm knows no provider of {name}; write provider/model{similar}")
    if variables:
        return Finding("fail", subject, f"{user}: {name} needs {' and '.join(variables)}, which is not set")
    unknown = await router.find_unknown(name)
    if unknown is None:
        return Finding("ok", subject, f"{user}: {name} has all variables that its provider needs")
    question = to_question(unknown.nearest)
    if unknown.is_certain:
        return Finding("fail", subject, f"{user}: the server does not offer {name}{question}")
    return Finding("warn", subject, f"{user}: litellm does not list {name}; --call tries it{question}")


def to_question(nearest: Sequence[str]) -> str:
    """Return the question whether one of these models was meant; nothing if there are none."""
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""


async def call_model(settings: Settings, name: str | None) -> Finding:
    """Ask one model, or without a name the built-in one, a tiny question."""
    alone = settings if name is None else settings.model_copy(update={"llm_models": (name,)})
    clock = SystemClock()
    request = ModelRequest(messages=(QUESTION,), tools=(), max_tokens=16)
    try:
        async with aclosing(Router(alone, clock)) as router:
            completion = await router.complete(request, deadline=clock.monotonic() + CALL_SECONDS)
    except ParleyError as error:
        causes = to_cause_lines(error.fields.get("causes", {}))
        return Finding("fail", "call", causes or f"{name or 'model'}: {error}")
    return Finding("ok", "call", f"{completion.model} answered with {completion.usage.total} tokens")


async def _call_embedder(settings: Settings, model: str) -> Finding:
    embedders = Embedders(settings, SystemClock())
    if embedders.current is None:
        return Finding("fail", "call", f"{model}: there is no such embedder")
    try:
        async with aclosing(embedders):
            await embedders.current.load()
            embedded = await embedders.current.embed(["ready"], deadline_seconds=CALL_SECONDS)
    except ParleyError as error:
        return Finding("fail", "call", f"{model}: {error}")
    place = "on this machine" if model in LOCAL_EMBEDDING_MODELS else "by its provider"
    return Finding("ok", "call", f"{model} made a vector of {len(embedded.vectors[0])} numbers, {place}")
