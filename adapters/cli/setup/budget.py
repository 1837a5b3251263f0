"""What strangers may spend, in answers."""

import asyncio
from contextlib import aclosing

from adapters.cli.console import complain, progress
from adapters.cli.setup.interview import Interview, Values
from shared.clock import SystemClock
from shared.errors import Refusal
from shared.messages import Usage
from shared.settings import Settings

BUDGET = "DEFAULT_GUEST_TOKEN_BUDGET"
# An ordinary answer to a guest, with its prompt, the tools, and some earlier turns of the chat; measured with the
# default modules.
PROMPT_TOKENS, OUTPUT_TOKENS = 2200, 300
ANSWER_TOKENS = PROMPT_TOKENS + OUTPUT_TOKENS
MOST_ANSWERS = 1_000_000


def ask_for_budget(interview: Interview, settings: Settings, answers: int | None) -> Values:
    """Return the budget of a new guest; nothing if it stays as it is."""
    before = settings.default_guest_token_budget
    price = _find_price(settings) if interview.is_at_keyboard or answers is not None else None
    default = str(round(before / ANSWER_TOKENS))
    while True:
        about = f"\nHow many answers a month may each stranger get? {_describe(int(default), settings, price)}"
        text = str(answers) if answers is not None else interview.ask("Answers", default, about=about)
        if text.isdecimal() and int(text) <= MOST_ANSWERS:
            break
        complain(f"{text!r} is no number of answers; 0 means none")
        if not interview.is_at_keyboard:
            raise Refusal("This does not work, and nothing was written.")
    if text == default:
        return {}
    interview.tell(f"  ok    {_describe(int(text), settings, price)}", "        ")
    return {BUDGET: str(int(text) * ANSWER_TOKENS)}


def _describe(answers: int, settings: Settings, price: float | None) -> str:
    """Return what so many answers are in tokens and, where the price is known, in dollars."""
    tokens = f"About {answers:,} answers are {answers * ANSWER_TOKENS:,} tokens"
    if price is None:
        return f"{tokens}."
    return f"{tokens}, about ${price * answers:.2f} with {settings.llm_models[0]}."


def _find_price(settings: Settings) -> float | None:
    """Return what one answer of the first model costs, in US dollars; None if its price is unknown."""
    if not settings.llm_models:
        return None

    # Imported here, as in models.py.
    from agent.llm.router import Router

    async def work() -> float | None:
        async with aclosing(Router(settings, SystemClock())) as router:
            await router.warm()
            usage = Usage(input_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)
            return router.priced(settings.llm_models[0], usage).cost

    with progress("looking up its price"):
        return asyncio.run(work())
