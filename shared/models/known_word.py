"""Words that the database's triggers know."""

from sqlalchemy import CheckConstraint, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class KnownWord(Row, Base):
    """The name of a module, a platform, a model or a provider of models."""

    __tablename__ = "known_words"
    __table_args__ = (
        UniqueConstraint("kind", "word"),
        CheckConstraint("kind IN ('module', 'platform', 'model', 'provider')", name="kind_is_known"),
        CheckConstraint("word <> ''", name="word_is_not_empty"),
        {"comment": "Words that the triggers know; the program adds them at its start."},
    )

    kind: Mapped[str] = mapped_column(
        Text,
        comment="module, platform, model as litellm writes it, or provider: of models; * is a server of one's own.",
    )
    word: Mapped[str] = mapped_column(Text, comment="The word.")
