"""The terminal: a conversation with the agent, typed by a person or piped from a program."""

from adapters.terminal.chat import Chat, terminal_place, terminal_sender
from adapters.terminal.output import LiveOutput, Output, PlainOutput
from adapters.terminal.reading import PersonAtKeyboard, PipedLines, Reader

__all__ = [
    "Chat",
    "LiveOutput",
    "Output",
    "PersonAtKeyboard",
    "PipedLines",
    "PlainOutput",
    "Reader",
    "terminal_place",
    "terminal_sender",
]
