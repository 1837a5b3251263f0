"""Sources of input: a person at the keyboard, or a pipe."""

import asyncio
import codecs
import os
import sys
from collections.abc import Callable, Iterable
from getpass import getpass
from pathlib import Path
from threading import Thread
from typing import Protocol

from shared.text import without_credential

CHUNK_BYTES = 64 * 1024


class Reader(Protocol):
    """Reads the input message by message."""

    async def read(self) -> str | None:
        """Return the next message, None at the end."""
        ...

    async def read_secret(self, prompt: str) -> str | None:
        """Return what is typed behind the prompt, which is neither shown nor kept; None when it is left."""
        ...


class PipedLines:
    """One message per line of stdin."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        # A daemon thread and the raw descriptor, so that the program can exit while a read blocks.
        Thread(target=self._feed, args=(asyncio.get_running_loop(),), daemon=True).start()

    async def read(self) -> str | None:
        """Return the next line, None at the end of the input."""
        return await self._lines.get()

    async def read_secret(self, prompt: str) -> str | None:
        """Return the next line."""
        return await self._lines.get()

    def _feed(self, loop: asyncio.AbstractEventLoop) -> None:
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        rest = ""
        while chunk := os.read(sys.stdin.fileno(), CHUNK_BYTES):
            *lines, rest = (rest + decode(chunk)).split("\n")
            self._put(loop, lines)
        rest += decode(b"", final=True)
        self._put(loop, [rest, None] if rest else [None])

    def _put(self, loop: asyncio.AbstractEventLoop, lines: Iterable[str | None]) -> None:
        for line in lines:
            try:
                loop.call_soon_threadsafe(self._lines.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed: nobody reads any more


async def ask_for_yes() -> bool:
    """Ask a person at the keyboard whether to do it; anything but a yes is a no."""
    # Imported here because few answers need it.
    from prompt_toolkit import PromptSession

    session: PromptSession[str] = PromptSession()
    try:
        answer = await session.prompt_async("Do it? (y/N) ", handle_sigint=False)
    except (KeyboardInterrupt, EOFError):
        return False
    return answer.strip().lower() in {"y", "yes"}


class PersonAtKeyboard:
    """A prompt with history and completion; Alt+Enter inserts a line break."""

    def __init__(self, history: Path, list_commands: Callable[[], list[str]]) -> None:
        # Imported here because a pipe does not need it.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        # The history is readable by its owner only.
        history.touch(mode=0o600)
        keys = KeyBindings()

        class Kept(FileHistory):
            def store_string(self, string: str) -> None:
                super().store_string(without_credential(string))

        @keys.add("escape", "enter")
        def _new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        self._session: PromptSession[str] = PromptSession(
            history=Kept(history),
            key_bindings=keys,
            completer=WordCompleter(list_commands, sentence=True),
            complete_while_typing=False,
            enable_open_in_editor=True,
        )

    async def read(self) -> str | None:
        """Return the input, None after Ctrl+D; Ctrl+C only clears the line."""
        while True:
            try:
                return await self._session.prompt_async("> ", prompt_continuation="  ", handle_sigint=False)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    async def read_secret(self, prompt: str) -> str | None:
        """Return what is typed, shown as asterisks or not at all; None after Ctrl+C or Ctrl+D."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.utils import is_dumb_terminal

        if is_dumb_terminal():
            # There prompt-toolkit shows what is typed.
            return await asyncio.to_thread(getpass, prompt)
        # Without the history of the other one.
        session: PromptSession[str] = PromptSession()
        try:
            return await session.prompt_async(prompt, is_password=True, handle_sigint=False)
        except (KeyboardInterrupt, EOFError):
            return None
