"""Questions to a person at any terminal, or to a pipe: a menu is a list of numbers, and an answer is one line."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from getpass import getpass

import typer

from adapters.cli.console import complain, say
from shared.errors import Refusal

Values = dict[str, str]
MOST_COLUMNS = 100
YES, NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


class Interview:
    """Asks one question after another; with `takes_defaults` nothing is asked, and each answer is the default."""

    def __init__(self, *, takes_defaults: bool = False) -> None:
        self.takes_defaults = takes_defaults
        self.is_at_keyboard = sys.stdin.isatty() and not takes_defaults

    def tell(self, text: str, indent: str = "") -> None:
        """Write a text, at a terminal in lines that fit."""
        if not self.is_at_keyboard:
            say(text)
            return
        width = min(shutil.get_terminal_size().columns, MOST_COLUMNS) - 1
        for line in text.split("\n"):
            say(textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))

    def ask(self, question: str, default: str = "", *, about: str = "", is_secret: bool = False) -> str:
        """Return one line, or the default when it is empty; a pipe that has ended says nothing more.

        `about` is said above the question.
        """
        if about and not self.takes_defaults:
            self.tell(about)
        text = f"{question} [{default}]: " if default else f"{question}: "
        if self.takes_defaults:
            return default
        if not self.is_at_keyboard:
            say(text)
            return sys.stdin.readline().strip() or default
        # Imported here: a pipe does not need it.
        from prompt_toolkit import prompt
        from prompt_toolkit.utils import is_dumb_terminal

        try:
            if is_secret and is_dumb_terminal():
                # There prompt-toolkit shows what is typed.
                return getpass(text).strip() or default
            return prompt(text, is_password=is_secret).strip() or default
        except EOFError:
            raise typer.Abort from None

    def choose(self, question: str, options: Sequence[str], default: int) -> int:
        """Return the place of one option in the list."""
        self._list(question, options)
        while True:
            answer = self.ask("Number", str(default + 1))
            places = _find(answer, options)
            if len(places) == 1:
                return places[0]
            self._refuse(answer, options)

    def choose_several(self, question: str, options: Sequence[str]) -> list[int]:
        """Return the places of some options in the list, or of none."""
        self._list(question, options)
        while True:
            answer = self.ask("Numbers (1,2; Enter for none)")
            parts = [part for part in answer.replace(",", " ").split() if part]
            places = [_find(part, options) for part in parts]
            if all(len(place) == 1 for place in places):
                return sorted({place[0] for place in places})
            self._refuse(answer, options)

    def confirm(self, question: str, *, default: bool) -> bool:
        """Return whether the answer is a yes."""
        while True:
            answer = self.ask(f"{question} ({'Y/n' if default else 'y/N'})").lower()
            if not answer:
                return default
            if answer in YES | NO:
                return answer in YES
            complain("please answer y or n")
            self._end_pipe()

    def _list(self, question: str, options: Sequence[str]) -> None:
        if not self.takes_defaults:
            self.tell(f"\n{question}")
            for number, option in enumerate(options, 1):
                self.tell(f"  {number}  {option}", "     ")

    def _refuse(self, answer: str, options: Sequence[str]) -> None:
        complain(f"{answer!r} is none of them; write a number from 1 to {len(options)}")
        self._end_pipe()

    def _end_pipe(self) -> None:
        if not self.is_at_keyboard:
            raise Refusal("This answer does not fit, and nothing was written.")


def _find(answer: str, options: Sequence[str]) -> list[int]:
    """Return the places that a number or the beginning of an option means."""
    if answer.isdecimal():
        return [int(answer) - 1] if 1 <= int(answer) <= len(options) else []
    return [place for place, option in enumerate(options) if option.lower().startswith(answer.lower())]
