"""A program that reads a web page from standard input and writes its text, title, date and links as JSON.

It runs in the sandbox. The first argument is the page's URL.
"""

import json
import logging
import sys
from typing import Any
from urllib.parse import urljoin

MAX_CHARS = 1_000_000
MAX_LINKS = 60
MAX_URL_CHARS = 500
MAX_LABEL_CHARS = 100


def main() -> None:
    """Convert one page."""
    logging.disable()
    page = json.dumps(read(sys.stdin.buffer.read(), sys.argv[1]), ensure_ascii=False)
    sys.stdout.buffer.write(page.encode("utf-8", "replace"))


def read(content: bytes, url: str) -> dict[str, Any]:
    """Return the main text of the page; without a main text, all of its text."""
    from trafilatura import bare_extraction, html2txt

    page: Any = bare_extraction(content, url=url, with_metadata=True, include_links=True, favor_recall=True)
    if page is None or not (page.text or "").strip():
        return {"text": html2txt(content)[:MAX_CHARS], "links": []}
    links = list_links(page.body, url)
    return {
        "title": page.title or "",
        "author": page.author or "",
        "date": page.date or "",
        "text": without_targets(page.text[:MAX_CHARS], page.body),
        "links": links,
    }


def list_links(body: Any, url: str) -> list[dict[str, str]]:
    """Return the links within the main text, each URL once."""
    labels: dict[str, str] = {}
    for ref in body.iter("ref"):
        target = urljoin(url, ref.get("target") or "").partition("#")[0]
        is_new = target not in labels and target != url.partition("#")[0]
        if is_new and target.startswith(("http://", "https://")) and len(target) <= MAX_URL_CHARS:
            labels[target] = " ".join("".join(ref.itertext()).split())[:MAX_LABEL_CHARS]
        if len(labels) == MAX_LINKS:
            break
    return [{"text": label, "url": target} for target, label in labels.items()]


def without_targets(text: str, body: Any) -> str:
    """Return the text with its links as plain words: the targets are listed once, beside it."""
    links = {("".join(ref.itertext()), ref.get("target")) for ref in body.iter("ref")}
    for label, target in sorted(links, key=lambda link: -len(link[0])):
        text = text.replace(f"[{label}]({target})", label)
    return text


if __name__ == "__main__":
    main()
