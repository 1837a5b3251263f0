"""All errors, in families by who is shown them. The docstring of a class is its message, a template for its fields."""

from inspect import getdoc
from typing import Any


class ParleyError(Exception):
    """Something went wrong."""

    code = "error"

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        self.fields = fields
        super().__init__(message if message is not None else (getdoc(type(self)) or "").format(**fields))


class Refusal(ParleyError):
    """That can't be done here."""

    code = "refused"


class ToolError(ParleyError):
    """The tool could not do that."""

    code = "tool_error"


class Unavailable(ParleyError):
    """Something that is needed can't be reached just now."""

    code = "unavailable"

    def __init__(self, message: str | None = None, *, retry_after: float | None = None, **fields: Any) -> None:
        self.retry_after = retry_after
        super().__init__(message, **fields)


class LimitExhausted(Refusal):
    """{who} used {period}'s budget; it renews on {renews_on:%d %B %Y}."""

    code = "budget_exhausted"


class PriceUnknown(Refusal):
    """A limit in dollars holds here, and nobody knows the price of a model that would be asked; an admin can set it."""

    code = "price_unknown"


class BudgetBusy(Refusal):
    """Your other requests are still running and hold the rest of your budget; please try again in a minute."""

    code = "budget_busy"


class ToolKeepsFailing(Refusal):
    """The tool {tool} failed three times in a row; the last time it said: {reason}."""

    code = "circuit_breaker"


class PromptTooLong(Refusal):
    """This is more than my language models can read at once; please send less, or begin afresh with /reset."""

    code = "too_long"


class TemperatureTooHigh(Refusal):
    """The highest temperature that may be asked for here is {highest:g}."""

    code = "temperature_too_high"


class EventIdInUse(Refusal):
    """An event with this id came before, from somebody else or from another place."""

    code = "event_taken"


class ServerMoved(Unavailable):
    """This server lives in another cell of this installation; nothing was stored here."""

    code = "server_moved"


class ServerMoving(Unavailable):
    """This server is being moved to other machines just now; please try again in a minute."""

    code = "server_moving"


class ConfirmationExpired(Refusal):
    """Your answer came too late: my question was open for ten minutes. Nothing was done; ask again if you want it."""

    code = "confirmation_expired"


class ConfirmationClosed(Refusal):
    """That question is not open any more; your answer changed nothing."""

    code = "confirmation_closed"


class ApprovalNeeded(Refusal):
    """A yes to this needs the permission {level}; somebody here who has it can answer in your place."""

    code = "approval_needed"


class Stopped(Refusal):
    """Stopped."""

    code = "stopped"


class Undeliverable(ParleyError):
    """This can't be said there, however often it is tried."""

    code = "undeliverable"


class ModelsUnavailable(Unavailable):
    """I can't reach any language model just now; please try again in a few minutes."""

    code = "models_unavailable"


class AnswerFiltered(ModelsUnavailable):
    """The language model's provider lets no answer to this pass its filter; please put it in other words."""

    code = "answer_filtered"


class Stopping(Unavailable):
    """I am being restarted; please ask again in a moment: with the same event id, the answer to it is the same."""

    code = "stopping"


class PlanUnreadable(Unavailable):
    """The language model did not answer in the form it was asked for; please try again, or put it in other words."""

    code = "plan_unreadable"


class TurnTimedOut(Unavailable):
    """This took longer than I am allowed to work on one message; please try again or ask for less at once."""

    code = "deadline"


class NotFound(ToolError):
    """There is no {what} with that id."""

    code = "not_found"


class FileLost(NotFound):
    """The file {filename} was stored, and its content is gone from the file store; it has to be sent or made again."""

    code = "file_lost"


class FileDamaged(ToolError):
    """The content of {filename} in the file store is not what was stored: changed or cut. It has to be sent again."""

    code = "file_damaged"


class ConfirmationNeeded(ParleyError):
    """This needs a person's yes first."""

    code = "confirmation_needed"


class Superseded(ParleyError):
    """Another worker has taken this turn over."""

    code = "superseded"


class ClaimLost(ParleyError):
    """Another process sends this reply."""

    code = "claim_lost"


class ConfigurationError(ParleyError):
    """A setting is wrong: one line that names the variable and the remedy; it stops the start."""

    code = "configuration"
