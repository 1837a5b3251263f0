"""What the OpenAI-compatible API answers with."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class PromptDetails(TypedDict):
    """How much of the prompt the model's provider had in its cache."""

    cached_tokens: int


class ChatUsage(TypedDict):
    """The tokens of all model calls of the turn together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class ChatAnswer(TypedDict):
    """The agent's message."""

    role: Literal["assistant"]
    content: str
    refusal: None


FinishReason = Literal["stop", "length"]


class ChatChoice(TypedDict):
    """The one answer."""

    index: int
    message: ChatAnswer
    logprobs: None
    finish_reason: FinishReason


class ChatCompletion(TypedDict):
    """The answer to `POST /v1/chat/completions`."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage


class ChatDelta(TypedDict, total=False):
    """What a chunk adds."""

    role: Literal["assistant"]
    content: str


class ChatChunkChoice(TypedDict):
    """The one answer, as far as this chunk has it."""

    index: int
    delta: ChatDelta
    logprobs: None
    finish_reason: FinishReason | None


class ChatChunk(TypedDict):
    """A chunk of a streamed answer; the one with the usage has no choices."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: NotRequired[ChatUsage | None]


class Model(TypedDict):
    """The agent, which looks like a model here."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    """All models: the agent alone."""

    object: Literal["list"]
    data: list[Model]
