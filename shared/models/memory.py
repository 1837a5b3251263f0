"""Memories about users, and their index: words (postings) and vectors."""

from datetime import datetime
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Memory(Row, Base):
    """A memory about a user."""

    __tablename__ = "memories"
    __table_args__ = (
        CheckConstraint("scope IN ('private', 'server')", name="scope_is_private_or_server"),
        CheckConstraint("scope = 'private' OR platform_server_id IS NOT NULL", name="server_scope_names_its_server"),
        CheckConstraint("btrim(content) <> ''", name="content_is_not_empty"),
        CheckConstraint("char_length(content) <= 2000", name="content_is_at_most_2000_characters"),
        CheckConstraint("source <> ''", name="source_is_not_empty"),
        CheckConstraint("turn_length >= 0 AND window_length >= 0", name="lengths_are_not_negative"),
        # Covers the columns that recall filters and ranks by, so that it needs no access to the table.
        Index(
            "ix_memories_visible",
            "user_id",
            "scope",
            "platform",
            "platform_server_id",
            postgresql_include=["id", "said_at", "speaker", "turn_length", "window_length", "vector_model"],
        ),
        Index("ix_memories_conversation", "conversation_id", "id"),
        Index("ix_memories_vector_model", "vector_model", "vectors_due_at"),
        Index(
            "uq_memories_private_content",
            "user_id",
            "content_key",
            unique=True,
            postgresql_where=text("scope = 'private'"),
        ),
        Index(
            "uq_memories_server_content",
            "user_id",
            "platform",
            "platform_server_id",
            "content_key",
            unique=True,
            postgresql_where=text("scope = 'server'"),
        ),
        {"comment": "What is remembered about people. Private ones never leave direct messages."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory.")
    scope: Mapped[str] = mapped_column(
        Text, server_default="private", comment="private: direct messages only; server: also on that server."
    )
    platform: Mapped[str] = mapped_column(Text, comment="The platform where it was said.")
    platform_server_id: Mapped[str | None] = mapped_column(
        Text, comment="Server or workspace; where there is none, the channel. NULL in direct messages."
    )
    conversation_id: Mapped[int | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="SET NULL"), comment="The conversation it was said in."
    )
    said_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When it was said."
    )
    speaker: Mapped[str | None] = mapped_column(Text, comment="Who said it, by name.")
    content: Mapped[str] = mapped_column(Text, comment="The text, at most 2,000 characters.")
    content_key: Mapped[str | None] = mapped_column(
        Text, comment="Hash of the text whatever its case and spaces: the same thing is kept once."
    )
    source: Mapped[str] = mapped_column(
        Text,
        server_default="fact",
        comment="fact: remembered on its own; turn: part of a conversation, with neighbours.",
    )
    turn_length: Mapped[int] = mapped_column(Integer, server_default="0", comment="Number of words of the text.")
    window_length: Mapped[int | None] = mapped_column(
        Integer, comment="Number of words of the text with its two neighbours; NULL: it has none."
    )
    vector_model: Mapped[str | None] = mapped_column(
        Text, comment="The embedding model whose vectors are complete; NULL: none yet."
    )
    vectors_due_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now() + interval '10 seconds'"),
        comment="When a worker makes the vectors that are missing; who is at it moves this on.",
    )


class MemoryPosting(Base):
    """A word of a memory, with its frequency."""

    __tablename__ = "memory_postings"
    __table_args__ = (
        PrimaryKeyConstraint("user_id", "term", "kind", "memory_id", postgresql_include=["tf"]),
        CheckConstraint("kind IN ('turn', 'window')", name="kind_is_turn_or_window"),
        CheckConstraint("tf > 0", name="tf_is_positive"),
        CheckConstraint("char_length(term) BETWEEN 1 AND 64", name="term_has_1_to_64_characters"),
        Index(None, "memory_id"),
        {"comment": "Which word occurs in which memory: recall by words reads a few ranges of the primary key."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory.")
    term: Mapped[str] = mapped_column(Text, comment="The word, folded and stemmed; a pair of characters in Chinese.")
    kind: Mapped[str] = mapped_column(Text, comment="turn: in the text; window: in the text or its neighbours.")
    memory_id: Mapped[int] = mapped_column(ForeignKey("memories.id", ondelete="CASCADE"), comment="The memory.")
    tf: Mapped[int] = mapped_column(Integer, comment="How often the word occurs.")
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )


class MemoryVector(Base):
    """An embedding of a memory. Vectors of different models can't be compared."""

    __tablename__ = "memory_vectors"
    __table_args__ = (
        PrimaryKeyConstraint("memory_id", "model", "kind"),
        CheckConstraint("kind IN ('turn', 'window')", name="kind_is_turn_or_window"),
        CheckConstraint("model <> ''", name="model_is_not_empty"),
        # An index row has at most 2,704 bytes, enough for a halfvec of 1,280 dimensions.
        CheckConstraint("vector_dims(embedding) <= 1280", name="embedding_has_at_most_1280_dimensions"),
        # In our measurements, scanning one user's range is faster than a vector index up to 50,000 rows.
        Index(
            "ix_memory_vectors_of_user",
            "user_id",
            "model",
            "kind",
            postgresql_include=["memory_id", "embedding"],
        ),
        {"comment": "Embeddings of memories, beside each other for as many models as are in use."},
    )

    memory_id: Mapped[int] = mapped_column(ForeignKey("memories.id", ondelete="CASCADE"), comment="The memory.")
    model: Mapped[str] = mapped_column(Text, comment="litellm name of the embedding model.")
    kind: Mapped[str] = mapped_column(Text, comment="turn: of the text; window: of the text with its neighbours.")
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory.")
    embedding: Mapped[Any] = mapped_column(HALFVEC(), comment="The vector.")
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )
