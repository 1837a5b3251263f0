"""Retries of database work whose input is expensive to get again, such as a model's answer."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, cast

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_delay,
    wait_exponential,
)

from shared.db.database import DatabaseLost
from shared.db.errors import REFUSED, is_duplicate

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])

FIRST_WAIT_SECONDS = 0.1


class AlreadyWritten(DatabaseLost):
    """I lost my database for a moment; please try again."""


async def retry_on_lost_db(work: Callable[[], Awaitable[Result]], seconds: float) -> Result:
    """Run database work, and retry it for up to `seconds` while the connection is lost.

    So a model answer that was paid for survives a lost connection. When an earlier try was committed but its
    acknowledgement was lost, the retry violates a unique constraint: it raises `AlreadyWritten`, a `DatabaseLost` that
    is not retried here, so that the turn resumes from its journal at once.
    """
    try:
        # The first try nearly always succeeds, and every turn makes some: it avoids the overhead of tenacity.
        return await work()
    except DatabaseLost:
        await asyncio.sleep(FIRST_WAIT_SECONDS)

    async def again() -> Result:
        try:
            return await work()
        except REFUSED as error:
            if not is_duplicate(error):
                raise
            raise AlreadyWritten from error

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(DatabaseLost) & retry_if_not_exception_type(AlreadyWritten),
        wait=wait_exponential(multiplier=2 * FIRST_WAIT_SECONDS, max=2),
        stop=stop_after_delay(max(0.0, seconds)),
        reraise=True,
    )
    return await retrying(again)


def retried(
    is_lost: Callable[[Exception], bool], kind: type[Exception], policy: AsyncRetrying
) -> Callable[[Method], Method]:
    """Let tenacity retry a coroutine function once a try of it has raised an error of this kind that `is_lost`."""

    def decorate(method: Method) -> Method:
        again = policy.wraps(method)

        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return await method(*args, **kwargs)
            except kind as error:
                if not is_lost(error):
                    raise
            return await again(*args, **kwargs)

        return cast(Method, call)

    return decorate


def limited(seconds: float, to_error: Callable[[], Exception]) -> Callable[[Method], Method]:
    """Let a coroutine function raise this error when it has not ended after so many seconds."""

    def decorate(method: Method) -> Method:
        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                async with asyncio.timeout(seconds):
                    return await method(*args, **kwargs)
            except TimeoutError:
                raise to_error()  # noqa: B904  # it names its cause

        return cast(Method, call)

    return decorate
