"""The terminal: a conversation with the agent, typed by a person or piped from a program."""

from adapters.terminal.chat import Chat, terminal_place, terminal_sender
from adapters.terminal.exchange import Exchange
from adapters.terminal.files import find_file
from adapters.terminal.output import LiveOutput, OneAnswer, Output, PlainOutput
from adapters.terminal.reading import PersonAtKeyboard, PipedLines, Reader, ask_for_yes

__all__ = [
    "Chat",
    "Exchange",
    "LiveOutput",
    "OneAnswer",
    "Output",
    "PersonAtKeyboard",
    "PipedLines",
    "PlainOutput",
    "Reader",
    "ask_for_yes",
    "find_file",
    "terminal_place",
    "terminal_sender",
]
