"""Prices that the installation sets itself, in `model_prices`; they come before those that litellm knows."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from shared.db.database import Database
from shared.messages import COST_DIGITS, Usage

MILLION = 1_000_000
READ = text("SELECT model, input_per_million, cached_per_million, output_per_million, per_image FROM model_prices")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in US dollars, for a million tokens of each kind and for one image."""

    input: float
    cached: float
    output: float
    image: float | None

    @property
    def highest(self) -> float:
        """Return US dollars for the dearest kind of token."""
        return max(self.input, self.cached, self.output) / MILLION

    def cost_of(self, usage: Usage) -> float:
        """Return what these tokens cost."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        dollars = fresh * self.input + usage.cached_tokens * self.cached + usage.output_tokens * self.output
        return round(dollars / MILLION, COST_DIGITS)


class Prices:
    """The rows of `model_prices` as this process has last read them; one per process."""

    def __init__(self) -> None:
        self._prices: dict[str, Price] = {}

    async def refresh(self, database: Database) -> None:
        """Read the table anew."""
        async with database.statement() as session:
            rows = (await session.execute(READ)).all()
        self._prices = {row.model: _to_price(row) for row in rows}

    def find(self, model: str) -> Price | None:
        """Return the price of a model, by its name in `LLM_MODELS` or in a persona; None if the table has none."""
        return self._prices.get(model)


def _to_price(row: Any) -> Price:
    given = float(row.input_per_million)
    cached = given if row.cached_per_million is None else float(row.cached_per_million)
    image = None if row.per_image is None else float(row.per_image)
    return Price(given, cached, float(row.output_per_million), image=image)
