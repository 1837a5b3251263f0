"""Which errors of the database pass by themselves, and which make a connection useless."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from shared.errors import Refusal

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

UNIQUE_VIOLATION = "23505"
# Their detail is the whole row, with the secrets in it.
WHOLE_ROW_STATES = frozenset({"23502", "23514"})  # not null, check
CHECK_VIOLATION = "23514"
# A value that does not fit its type, or breaks a constraint.
UNFIT_STATES = ("22", "23")
# The state of an error that a function of ours raises: its message is a sentence for people.
RAISED = "P0001"
# SQLSTATEs, or their prefixes, that pass by themselves: connection lost, transaction idle for too long, serialization
# failure, deadlock, no room on the disk or for another connection, statement over its time, server starting or
# stopping, I/O error.
TRANSIENT_STATES = ("08", "25P03", "40001", "40P01", "53", "57014", "57P", "58030")
# After a restore or a change of the tables, a connection may keep a plan that no longer fits: only a new one helps.
# A statement that the server does not know any more, a plan of other columns, a row of the catalogue that is gone.
UNKNOWN_STATEMENT, UNSUPPORTED, INTERNAL = "26000", "0A000", "XX000"
# The server has become a standby, or is to take no writes any more: another one does.
READ_ONLY = "25006"
STALE_PLANS = ("cached plan", "cached statement plan", "cache lookup failed", "could not open relation with OID")
# A pooler leads to a server that is in another history than this process knows (parley_check_history).
OTHER_HISTORY = "PY003"
# A pooler that still leads to a server which has become a standby.
STANDBY = "during recovery"


def server_errors() -> tuple[type[Exception], ...]:
    """Return the classes of what the server reports, as asyncpg and, once it is imported, SQLAlchemy raise it."""
    # Short commands start without SQLAlchemy: it takes half of their time.
    library = sys.modules.get("sqlalchemy.exc")
    return (asyncpg.PostgresError,) if library is None else (library.DBAPIError, asyncpg.PostgresError)


def find_wrapper(error: BaseException | None) -> "DBAPIError | None":
    """Return an error of the server that SQLAlchemy has wrapped, None if it is another one."""
    library = sys.modules.get("sqlalchemy.exc")
    return error if library is not None and isinstance(error, library.DBAPIError) else None


def is_lost(error: BaseException) -> bool:
    """Tell whether the connection or transaction was lost for a transient reason, so that trying again can help."""
    if (wrapper := find_wrapper(error)) is not None and (
        # SQLAlchemy gives its classes the names of the driver's.
        wrapper.connection_invalidated or type(wrapper).__name__ == "InterfaceError" or is_broken(wrapper)
    ):
        return True
    if isinstance(error, server_errors()):
        return is_stale(error) or str(sqlstate_of(error)).startswith(TRANSIENT_STATES)
    # asyncpg raises a ValueError for a parameter that it can't encode: that is a bug, not a lost connection.
    lost = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return isinstance(error, lost) and not isinstance(error, ValueError)


def is_stale(error: BaseException) -> bool:
    """Tell whether the connection has become useless, although it is open: trying again helps on a new one."""
    state = sqlstate_of(error)
    # SQLAlchemy gives a stale plan no state.
    may_be = state in {UNSUPPORTED, INTERNAL, None}
    texts = (*STALE_PLANS, STANDBY)
    return state in {UNKNOWN_STATEMENT, READ_ONLY, OTHER_HISTORY} or (
        may_be and any(text in str(error) for text in texts)
    )


def is_read_only(error: BaseException) -> bool:
    """Tell whether the server takes no writes, as a standby."""
    return sqlstate_of(error) == READ_ONLY or STANDBY in str(error)


def is_broken(error: BaseException) -> bool:
    """Tell whether the server had ended the connection with an error that asyncpg read too late to report it.

    That happens to a process that was frozen within a transaction, for longer than the server keeps one open.
    """
    return isinstance(getattr(_to_original(error), "__cause__", None), asyncpg.InternalClientError)


def is_duplicate(error: BaseException) -> bool:
    """Tell whether a unique constraint was violated."""
    return sqlstate_of(error) == UNIQUE_VIOLATION


def sqlstate_of(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error, None when the error did not come from the server."""
    return getattr(_to_original(error), "sqlstate", None)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the database refuses into a `Refusal` with its reason."""
    try:
        yield
    except server_errors() as error:
        state = str(sqlstate_of(error))
        if state == RAISED:
            raise Refusal(_reason(error)) from None
        if state.startswith(UNFIT_STATES):
            raise Refusal(f"the database refuses this: {_reason(error)}") from None
        raise


def to_cause(error: BaseException) -> BaseException | None:
    """Return the driver's own error, which has the message and its detail, also of one that SQLAlchemy has wrapped."""
    original = _to_original(error)
    return original if original is None or original.__cause__ is None else original.__cause__


def _to_original(error: BaseException) -> BaseException | None:
    wrapper = find_wrapper(error)
    return error if wrapper is None else wrapper.orig


def _reason(error: BaseException) -> str:
    cause = to_cause(error)
    message, detail = getattr(cause, "message", None) or f"{cause}", getattr(cause, "detail", None)
    state, constraint = getattr(cause, "sqlstate", None), getattr(cause, "constraint_name", None)
    if state == CHECK_VIOLATION and constraint:
        # Its name says what has to hold.
        rule = constraint.removeprefix(f"{getattr(cause, 'table_name', '')}_")
        return f"the rule is that {rule.replace('_', ' ')}"
    if state in WHOLE_ROW_STATES:
        return message
    reason = f"{cause}" if not detail else f"{message}. {detail}"
    # The driver counts the parameters of a statement that nobody has seen.
    return re.sub(r"^invalid input for query argument \$\d+: ", "", reason)
