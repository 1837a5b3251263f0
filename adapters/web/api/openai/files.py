"""The images and files of an OpenAI message."""

import re
from urllib.parse import unquote_to_bytes

from adapters.web.api.bodies import LARGE_BYTES, MAX_ADDRESS
from adapters.web.api.openai.bodies import ChatMessage, FilePart, ImagePart
from adapters.web.api.uploads import all_or_none, decode, store_content
from adapters.web.faults import invalid
from agent.app import App
from shared.messages import Attachment

CONTENT_ADDRESS = re.compile(r"^data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*?(?P<base64>;base64)?,", re.ASCII)


async def store_parts(app: App, message: ChatMessage) -> tuple[Attachment, ...]:
    """Store the images and files of an OpenAI message; an image with a URL is fetched later, during the turn."""
    async with all_or_none(app) as attachments:
        for number, part in enumerate(message.content if isinstance(message.content, list) else (), 1):
            if isinstance(part, ImagePart):
                attachments.append(await _from_address(app, part.image_url.url, f"image-{number}"))
            elif isinstance(part, FilePart):
                attachments.append(await _from_address(app, part.file.file_data, part.file.filename))
    return tuple(attachments)


async def _from_address(app: App, address: str, filename: str) -> Attachment:
    if address.startswith(("http://", "https://")):
        if len(address) > MAX_ADDRESS:
            raise invalid("messages", f"a web address may have {MAX_ADDRESS:,} characters")
        return Attachment(filename, url=address)
    match = CONTENT_ADDRESS.match(address[:1000])
    if match is None:
        raise invalid("messages", "an image or file must be a web address or a data: address")
    mime_type = match["type"] or "text/plain"
    body = address[match.end() :]
    # Each escaped character becomes an object of its own: of 40 MB, gigabytes.
    if not match["base64"] and len(body) > LARGE_BYTES:
        raise invalid("messages", f"content of more than {LARGE_BYTES:,} characters has to be in base64")
    content = await decode(body, "messages") if match["base64"] else unquote_to_bytes(body)
    name = filename if "." in filename else f"{filename}.{mime_type.partition('/')[2].partition('+')[0]}"
    return await store_content(app, name, mime_type, content=content)
