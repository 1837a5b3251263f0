"""The body of an OpenAI-compatible request, as far as it is read."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, WithJsonSchema

from adapters.web.api.bodies import Flag, LooseName, Name, Text
from shared.messages import Sampling
from shared.text import clean


class Open(BaseModel):
    """A schema of OpenAI's API: unknown fields are ignored, because clients keep adding them."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class TextPart(Open):
    """A text part of a message."""

    type: Literal["text"]
    text: Text


class ImageAddress(Open):
    """The URL of an image, or a `data:` URL."""

    url: Annotated[str, Field(strict=True)]


class ImagePart(Open):
    """An image part of a message."""

    type: Literal["image_url"]
    image_url: ImageAddress


class FileContent(Open):
    """A file's name, and its content as a `data:` URL."""

    filename: Name = "file"
    file_data: Annotated[str, Field(strict=True)]


class FilePart(Open):
    """A file part of a message."""

    type: Literal["file"]
    file: FileContent


NOT_AGAIN = {"image_url": "(an image, not shown again)", "file": "(a file, not shown again)"}
Part = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]


class ChatMessage(Open):
    """A message of the client's history; the user's last one is answered."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: (
        Annotated[
            Annotated[Text, Tag("text")] | Annotated[list[Part], Field(max_length=100), Tag("parts")],
            Discriminator(lambda content: "parts" if isinstance(content, list) else "text"),
        ]
        | None
    ) = None
    tool_calls: Any = None
    function_call: Any = None

    @property
    def text(self) -> str:
        """Return the text, with parts joined by line breaks."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if isinstance(part, TextPart))

    @property
    def files(self) -> "list[ImagePart | FilePart]":
        """Return the parts that are images and files."""
        parts = self.content if isinstance(self.content, list) else []
        return [part for part in parts if not isinstance(part, TextPart)]

    @property
    def text_with_marks(self) -> str:
        """Return the text as a part of the history, with a mark for each image and file: these are not sent again."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(
            part.text if isinstance(part, TextPart) else NOT_AGAIN[part.type] for part in self.content or []
        )


class StreamOptions(Open):
    """Options of a streamed answer."""

    include_usage: Flag = False


def _one(value: int) -> int:
    if value > 1:
        raise ValueError("this agent gives one answer; ask again for another, and leave the field out")
    return value


def _text_alone(value: str) -> str:
    if value != "text":
        raise ValueError("this agent answers with text; say in the message how it shall look, and leave the field out")
    return value


One = Annotated[int, Field(strict=True, ge=1), AfterValidator(_one), WithJsonSchema({"const": 1})]
TextAlone = Annotated[str, Field(strict=True), AfterValidator(_text_alone), WithJsonSchema({"const": "text"})]


class ResponseFormat(Open):
    """The format of the answer; only text is supported."""

    type: TextAlone


StopText = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200), AfterValidator(clean)]


class AgentRequest(Open):
    """What completions and responses are asked with alike."""

    model: Name = "parley"
    user: LooseName | None = None
    safety_identifier: LooseName | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    stream: Flag | None = None
    tools: Any = None
    top_logprobs: Any = None


class ChatRequest(AgentRequest):
    """The body of `POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000)]
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] | None = None
    stop: (
        Annotated[StopText | Annotated[list[StopText], Field(max_length=4)], Field(union_mode="left_to_right")] | None
    ) = None
    max_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    metadata: dict[str, LooseName] | None = None
    stream_options: StreamOptions | None = None
    n: One | None = None
    response_format: ResponseFormat | None = None
    modalities: list[TextAlone] | None = None
    functions: Any = None
    # What can't be passed on to every model, or has no place in an agent's answer.
    logit_bias: Any = None
    logprobs: Any = None
    top_k: Any = None
    min_p: Any = None
    repetition_penalty: Any = None
    best_of: Any = None
    audio: Any = None
    web_search_options: Any = None

    @property
    def sampling(self) -> Sampling:
        """Return how the model shall choose its words."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            seed=self.seed,
            stop=stop,
        )
