"""Images in a request: inserted for models that accept images, replaced by text for others."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from agent.llm.completions import ModelRequest
from agent.prompts import prompts
from shared.clock import Clock

SCHEME = "parley-file:"
# After this time images are tried again, because the provider may have changed the model.
BLIND_SECONDS = 600.0


def fill(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the messages of a request, with the placeholders replaced by the images."""
    messages = []
    for message in request.messages:
        content = message["content"]
        if isinstance(content, list):
            content = [
                {"type": "image_url", "image_url": {"url": request.images[_file_id(part)]}} if _is_image(part) else part
                for part in content
            ]
        messages.append({**message, "content": content})
    return messages


def without_images(request: ModelRequest) -> ModelRequest:
    """Return the request without images: each one is replaced by a sentence that the model can't see it."""
    messages = list(request.messages)
    for place, message in enumerate(messages):
        content = message.get("content")
        if isinstance(content, list):
            notes = [prompts().turn.image_unseen.format(file_id=_file_id(part)) for part in content if _is_image(part)]
            texts = [part["text"] for part in content if not _is_image(part)]
            messages[place] = {**message, "content": "\n\n".join([*texts, *notes])}
    return replace(request, messages=tuple(messages), images={})


def _is_image(part: Mapping[str, Any]) -> bool:
    return bool(part["type"] == "image_url")


def _file_id(part: Mapping[str, Any]) -> int:
    return int(part["image_url"]["url"].removeprefix(SCHEME))


class VisionSupport:
    """Which models accept images: as litellm says; unknown models until they refuse one."""

    def __init__(self, lookup: Callable[[str], bool | None], clock: Clock) -> None:
        self._known = lookup
        self._clock = clock
        self._blind: dict[str, float] = {}

    def fit(self, name: str, request: ModelRequest) -> ModelRequest:
        """Return the request, without images if this route's model does not accept them."""
        has_vision = self._known(name)
        is_blind = self._blind.get(name, 0.0) > self._clock.monotonic() if has_vision is None else not has_vision
        return without_images(request) if is_blind else request

    def learn(self, name: str) -> None:
        """Remember for `BLIND_SECONDS` that the model refuses images."""
        self._blind[name] = self._clock.monotonic() + BLIND_SECONDS
