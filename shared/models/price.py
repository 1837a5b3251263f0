"""Prices of models that the installation sets itself."""

from decimal import Decimal

from sqlalchemy import CheckConstraint, Numeric, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class ModelPrice(Row, Base):
    """The price of one model; it comes before the one that litellm knows."""

    __tablename__ = "model_prices"
    __table_args__ = (
        UniqueConstraint("model"),
        CheckConstraint(
            "input_per_million >= 0 AND cached_per_million >= 0 AND output_per_million >= 0 AND per_image >= 0",
            name="prices_are_not_negative",
        ),
        {"comment": "Prices of your own models, and of those that litellm does not know or knows wrongly."},
    )

    model: Mapped[str] = mapped_column(Text, comment="As in LLM_MODELS, EMBEDDING_MODEL or a persona.")
    input_per_million: Mapped[Decimal] = mapped_column(
        Numeric(14, 6), server_default="0", comment="US dollars for a million tokens of prompts."
    )
    cached_per_million: Mapped[Decimal | None] = mapped_column(
        Numeric(14, 6), comment="The same for tokens read from the provider's cache; NULL: as others."
    )
    output_per_million: Mapped[Decimal] = mapped_column(
        Numeric(14, 6), server_default="0", comment="US dollars for a million tokens of answers."
    )
    per_image: Mapped[Decimal | None] = mapped_column(
        Numeric(14, 6), comment="US dollars for an image that it makes; NULL: images are paid by their tokens."
    )
