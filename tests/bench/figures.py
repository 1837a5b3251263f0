"""The figures: value, the floor's value, and the goal."""

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. The goal refers to the ratio if there is a floor, else to the value."""

    name: str
    value: float
    unit: str = ""
    floor: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    aim: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return the value as a multiple of the floor's."""
        return None if self.floor is None else self.value / self.floor

    @property
    def judged(self) -> float:
        """Return the number that the goal refers to."""
        return self.value if self.ratio is None else self.ratio

    @property
    def is_reached(self) -> bool | None:
        """Return whether the goal is reached, None where there is none."""
        if self.at_most is not None:
            return self.judged <= self.at_most
        return None if self.at_least is None else self.judged >= self.at_least

    @property
    def goal(self) -> str:
        """Return the goal in words."""
        if self.at_most is None and self.at_least is None:
            return ""
        limit = f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"
        return limit + (" x" if self.floor is not None else "") + (f" (aim {self.aim:g})" if self.aim else "")


def missed(figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures whose goal is not reached."""
    return [figure for figure in figures if figure.is_reached is False]


def report(figures: Iterable[Figure]) -> None:
    """Print one line per figure, and the names of those whose goal is not reached."""
    rows = list(figures)
    for figure in rows:
        sys.stdout.write(f"{figure.name:36} {figure.value:8.1f} {figure.unit:3} {figure.goal}\n")
    names = [miss.name for miss in missed(rows)]
    sys.stdout.write(f"not reached: {json.dumps(names)}\n" if names else "every goal is reached\n")
