"""The redactor: takes secrets out of everything that operators read, before it is written.

Log lines of every format, tracebacks, spans and the messages of the command line pass through `redact_text` and
`redact_value`; `parley_without_secrets` does the same to entries of the audit log. A secret is known by its value
(a setting's, a person's credential), by its form (a provider's key, a token, a password in an address), or by the
name before it (`password=…`, `"api_key": "…"`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

MARK = "***"
# Shorter values would be found in ordinary words.
LEAST_CHARS = 6
# No pattern matches letters alone of fewer.
WORD_CHARS = 20
# The credentials of people that were read last.
MAX_CREDENTIALS = 1000
MAX_DEPTH = 32

# Names of fields whose values are secrets, at the end of whatever stands before: OPENAI_API_KEY, x-auth-token.
NAMES = (
    r"(?:password|passwd|passphrase|pwd|secret|token|authorization|cookie|credentials?|signature"
    r"|(?:api|access|account|secret|private|signing|encryption|shared)[_-]?key)"
)
SECRET_NAME = re.compile(rf"{NAMES}$", re.IGNORECASE)
# Every repetition has a limit and begins behind a character that it can't hold, so that time grows with the length.
PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]{0,16000}"),
    # Keys of providers, by the prefixes that they give them.
    re.compile(
        r"(?<![A-Za-z0-9])(?:sk-|xox[a-z]{1,2}-|xoxe\.|xapp-)[A-Za-z0-9._-]{8,1000}"
        r"|(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_|whsec_|github_pat_|glpat-|xai-|pplx-|nvapi-|tvly-|AIza|ya29\.|SG\.|pypi-|dop_v1_)"
        r"[A-Za-z0-9._-]{16,1000}"
        r"|(?<![A-Za-z0-9])(?:gsk_|hf_|r8_|npm_|gh[opsur]_|AKIA|ASIA)[A-Za-z0-9]{16,255}"
    ),
    # A password in an address, which may hold a raw @; a name alone that is as long as a token.
    re.compile(r"(?<=://)(?:[^\s/:@\"']{0,256}:[^\s/\"']{1,256}|[^\s/:@\"']{20,256})(?=@)"),
    re.compile(r"(?<=hooks\.slack\.com/)[\w/-]{8,200}|(?<=/webhooks/)\d{15,22}/[\w-]{20,100}"),
    # Bot tokens of Telegram; signed tokens; bot tokens of Discord.
    re.compile(r"(?<!\d)\d{8,12}:AA[\w-]{30,40}"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,4000}\.[\w-]{8,8000}(?:\.[\w-]{1,2000})?"),
    re.compile(r"(?<![\w-])[\w-]{23,30}\.[\w-]{6,7}\.[\w-]{27,64}(?![\w-])"),
)
SCHEMES = re.compile(
    r"\b(bearer\s{1,8})[^\s\"',;]{1,8000}|\b(basic\s{1,8})(?=[a-z+/]{0,60}[0-9=])[a-z0-9+/_-]{6,2000}={0,2}",
    re.IGNORECASE,
)
NAMED_VALUES = re.compile(
    rf"({NAMES}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}})"
    r"(?!None\b|True\b|False\b|null\b)"
    r"(?:b?\"[^\"\n]{1,4000}(?:\"|$)|b?'[^'\n]{1,4000}(?:'|$)|b?\\[\"'][^\"'\\\n]{1,4000}"
    r"|(?:basic|bearer|bot|token|digest)\s{1,8}[^\s\"',;]{1,8000}|[^\s\"',;&)}\]\\]{1,4000})",
    re.IGNORECASE,
)
# No pattern matches a text with none of these in it, in lower case, and fewer than two dots.
CLUES = (
    *("://", "key", "token", "secret", "passw", "passphrase", "pwd", "auth", "cookie", "credential", "signature"),
    *("bearer", "basic", "sk-", "k_live_", "k_test_", "xox", "xapp-", "whsec_", "_pat_", "glpat-", "xai-", "pplx-"),
    *("nvapi-", "tvly-", "aiza", "ya29", "sg.", "pypi-", "dop_v1_", "gsk_", "hf_", "r8_", "npm_", "akia", "asia"),
    *("gho_", "ghp_", "ghs_", "ghu_", "ghr_", "hooks.slack", "webhooks/", ":aa", "eyj"),
)
CLUE = re.compile("|".join(map(re.escape, CLUES)))

_settings: dict[str, None] = {}
_credentials: dict[str, None] = {}


def hide_settings(values: Iterable[str]) -> None:
    """Keep the secrets of this installation's settings out of all that is written from now on."""
    for value in values:
        _settings.update(dict.fromkeys(_to_forms(value)))


def hide_credential(value: str) -> None:
    """Keep a person's credential out of all that is written from now on; of many, those that were read last."""
    for form in _to_forms(value):
        _credentials.pop(form, None)
        _credentials[form] = None
    while len(_credentials) > MAX_CREDENTIALS:
        del _credentials[next(iter(_credentials))]


def _to_forms(value: str) -> list[str]:
    # As Python and JSON write it within quotes, and as it stands in an address.
    forms = {value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe="")}
    return sorted((form for form in forms if len(form) >= LEAST_CHARS), key=len, reverse=True)


def redact_text(text: str) -> str:
    """Return the text with `***` in the place of each secret."""
    for values in (_settings, _credentials):
        # A copy, because threads write logs, too.
        for value in tuple(values):
            if value in text:
                text = text.replace(value, MARK)
    # One word, as most fields of a log have.
    if len(text) < (WORD_CHARS if text.isalpha() else LEAST_CHARS):
        return text
    lower = text.lower()
    if text.count(".") < 2 and CLUE.search(lower) is None:
        return text
    for pattern in PATTERNS:
        text = pattern.sub(MARK, text)
    text = SCHEMES.sub(lambda match: f"{match[1] or match[2]}{MARK}", text)
    return NAMED_VALUES.sub(rf"\1{MARK}", text)


def redact_value(value: Any, depth: int = 0) -> Any:
    """Return a value for a log without secrets: within mappings and sequences, too, and in how objects are written."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redact_text(value)
    if depth >= MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        names = (key.decode(errors="replace") if isinstance(key, bytes) else key for key in value)
        return {
            redact_text(name if isinstance(name, str) else repr(name)): redact_field(name, child, depth + 1)
            for name, child in zip(names, value.values(), strict=True)
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact_value(child, depth + 1) for child in value]
    text = repr(value)
    redacted = redact_text(text)
    # An object without secrets stays one, for renderers that write it in a way of their own.
    return value if redacted == text else redacted


def redact_field(name: Any, value: Any, depth: int = 0) -> Any:
    """Return the value of a field without secrets: nothing of it where the name says that it is one."""
    if value is None or isinstance(value, bool) or not isinstance(name, str) or not _is_secret(name):
        return redact_value(value, depth)
    return MARK


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    return SECRET_NAME.search(name) is not None
