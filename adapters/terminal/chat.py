"""The conversation: lines become messages or commands, events become an answer."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from adapters.terminal.client import Client
from adapters.terminal.exchange import Exchange
from adapters.terminal.files import find_dragged, find_file, to_size
from adapters.terminal.output import Output, describe_file
from adapters.terminal.person import terminal_place, terminal_sender
from adapters.terminal.reading import Reader
from shared.errors import ParleyError, Refusal, ToolError
from shared.messages import ProgramRequest, to_fields
from shared.text import as_read, to_command_line

ATTACH = "/attach"
ATTACH_HELP = f"{ATTACH} PATH - Send a file with your next message; a file dropped on the window does the same."


class Chat:
    """One person's conversation. `before_sending` makes sure that a worker runs; `request` goes with each message."""

    def __init__(
        self,
        client: Client,
        reader: Reader,
        output: Output,
        *,
        before_sending: Callable[[], Awaitable[None]],
        request: ProgramRequest | None = None,
    ) -> None:
        self._client = client
        self._reader = reader
        self._output = output
        self._request = request
        self._sender = terminal_sender()
        self._place = terminal_place(self._sender)
        self._files: list[Path] = []
        self._exchange = Exchange(client, output, before_sending, sender=self._sender, place=self._place)

    @property
    def has_failed(self) -> bool:
        """Return whether a turn has ended with an error."""
        return self._exchange.has_failed

    async def run(self) -> None:
        """Run the conversation until it ends; at a keyboard, Ctrl+C stops the answer and not the program."""
        loop = asyncio.get_running_loop()
        if self._output.wants_stream:
            loop.add_signal_handler(signal.SIGINT, self._exchange.interrupt)
        try:
            while (text := await self._reader.read()) is not None:
                try:
                    goes_on = await self._on_input(text)
                except ParleyError as error:
                    self._output.note(str(error))
                    continue
                if not goes_on:
                    return
        finally:
            if self._output.wants_stream:
                loop.remove_signal_handler(signal.SIGINT)

    async def _on_input(self, text: str) -> bool:
        """Handle one input; return False if it ends the conversation."""
        line = text.strip()
        word, _, path = line.partition(" ")
        if as_read(word) == ATTACH:
            self._attach(find_file(path, self._client.settings.max_body_mb))
            return True
        dragged = find_dragged(line)
        if dragged is not None:
            self._attach(find_file(str(dragged), self._client.settings.max_body_mb))
            return True
        if not line and not self._files:
            return True
        command_line = to_command_line(text)
        if command_line is not None and (goes_on := await self._on_command(command_line.strip())) is not None:
            return goes_on
        try:
            await self._exchange.send(text, self._files, request=self._request)
        except (Refusal, ToolError):
            # A file that is gone, or has grown, would keep back every message that follows.
            self._files.clear()
            raise
        self._files.clear()
        return True

    async def _on_command(self, line: str) -> bool | None:
        """Run the command in the line; return whether the conversation goes on, None if it is no command."""
        # Imported here, as the app is opened here: most conversations have none.
        from agent import commands

        app = await self._client.open_app()
        if (name := commands.find_credential_form(line)) is not None:
            value = await self._reader.read_secret(f"{name}: ")
            if value is None:
                self._output.note("Nothing was kept.")
            else:
                self._output.write(await commands.keep_credential(app, self._sender, name, value=value))
            return True
        reply = await commands.answer(app, self._sender, self._place, text=line)
        if reply is None:
            return None
        hints = [ATTACH_HELP] if line.lower() == "/help" else []
        self._output.write("\n".join([reply.text, *hints, *(describe_file(to_fields(file)) for file in reply.files)]))
        return not reply.quit

    def _attach(self, path: Path) -> None:
        self._files.append(path)
        self._output.note(f"{path.name} ({to_size(path.stat().st_size)}) goes with your next message.")
