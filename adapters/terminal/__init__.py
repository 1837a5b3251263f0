"""The terminal: a conversation with the agent, typed by a person or piped in by a program."""

from adapters.terminal.chat import Chat, terminal_place, terminal_sender
from adapters.terminal.reading import PersonAtKeyboard, PipedLines, Reader
from adapters.terminal.voice import LiveVoice, PlainVoice, Voice

__all__ = [
    "Chat",
    "LiveVoice",
    "PersonAtKeyboard",
    "PipedLines",
    "PlainVoice",
    "Reader",
    "Voice",
    "terminal_place",
    "terminal_sender",
]
