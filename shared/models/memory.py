"""Memories about users, and their index: words (postings) and vectors."""

from datetime import datetime
from typing import Any

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class MemoryScope(Row, Base):
    """Who may see a group of memories: one person, in one place or everywhere, or everybody in one channel."""

    __tablename__ = "memory_scopes"
    __table_args__ = (
        CheckConstraint("scope IN ('private', 'conversation', 'server', 'everywhere')", name="scope_is_known"),
        CheckConstraint("(scope = 'conversation') = (user_id IS NULL)", name="what_belongs_to_a_person_names_them"),
        CheckConstraint(
            "(scope IN ('private', 'everywhere')) = (platform IS NULL)", name="what_belongs_to_a_place_names_it"
        ),
        CheckConstraint("(platform IS NULL) = (platform_server_id IS NULL)", name="a_platform_comes_with_a_server"),
        CheckConstraint(
            "(scope = 'conversation') = (platform_channel_id IS NOT NULL)", name="a_conversation_has_a_channel"
        ),
        CheckConstraint("platform_thread_id IS NULL OR scope = 'conversation'", name="a_thread_is_of_a_conversation"),
        CheckConstraint("memories >= 0 AND words >= 0", name="totals_are_not_negative"),
        # Begins with what row-level security compares.
        Index(
            "uq_memory_scopes_place",
            "user_id",
            "scope",
            "platform",
            "platform_channel_id",
            "platform_server_id",
            "platform_thread_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        {"comment": "Who may see memories: each belongs to one of these rows, and a turn sees the rows of its place."},
    )

    scope: Mapped[str] = mapped_column(
        Text,
        comment="private: the person, in direct messages; server: the person, on that server; everywhere: the person,"
        " in all places; conversation: everybody in that channel.",
    )
    user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memories; NULL: those of a channel."
    )
    platform: Mapped[str | None] = mapped_column(Text, comment="The platform; NULL: all of them.")
    platform_server_id: Mapped[str | None] = mapped_column(
        Text, comment="Server or workspace; where there is none, the channel. NULL: all of them."
    )
    platform_channel_id: Mapped[str | None] = mapped_column(Text, comment="The channel; NULL: all of them.")
    platform_thread_id: Mapped[str | None] = mapped_column(
        Text, comment="A thread that fewer people read than its channel; NULL: the channel with its other threads."
    )
    memories: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Number of indexed memories; kept by the database."
    )
    words: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Number of words of these memories; kept by the database."
    )
    vector_model: Mapped[str | None] = mapped_column(
        Text,
        comment="The embedding model whose vectors answer questions here; NULL: none yet. Kept by the database.",
    )


class Memory(Row, Base):
    """A memory about a user."""

    __tablename__ = "memories"
    __table_args__ = (
        CheckConstraint("scope IN ('private', 'conversation', 'server', 'everywhere')", name="scope_is_known"),
        CheckConstraint(
            "scope IN ('private', 'everywhere') OR platform_server_id IS NOT NULL AND platform IS NOT NULL",
            name="server_scope_names_its_server",
        ),
        CheckConstraint("btrim(content) <> ''", name="content_is_not_empty"),
        CheckConstraint("char_length(content) <= 2000", name="content_is_at_most_2000_characters"),
        CheckConstraint("source <> ''", name="source_is_not_empty"),
        CheckConstraint("author IN ('person', 'stranger')", name="author_is_person_or_stranger"),
        CheckConstraint("confidence BETWEEN 0 AND 1", name="confidence_is_between_0_and_1"),
        CheckConstraint("superseded_by <> id", name="superseded_by_another_memory"),
        CheckConstraint("turn_length >= 0 AND window_length >= 0", name="lengths_are_not_negative"),
        CheckConstraint("ordinal IS NOT NULL OR NOT is_indexed", name="an_indexed_memory_has_an_ordinal"),
        # Finds a memory and its neighbours: theirs are the ordinals before and after.
        Index("uq_memories_ordinal", "scope_id", "ordinal", unique=True),
        Index("ix_memories_newest_of_scope", "scope_id", "said_at", "id"),
        Index("ix_memories_newest_of_user", "user_id", "said_at", "id"),
        Index("ix_memories_facts", "user_id", "said_at", "id", postgresql_where=text("source <> 'turn'")),
        Index("ix_memories_conversation", "conversation_id", "id"),
        Index("ix_memories_turn", "turn_id", postgresql_where=text("turn_id IS NOT NULL")),
        Index(
            "ix_memories_message",
            "platform_message_id",
            "platform",
            postgresql_where=text("platform_message_id IS NOT NULL"),
        ),
        Index("ix_memories_superseded_by", "superseded_by", postgresql_where=text("superseded_by IS NOT NULL")),
        Index("ix_memories_unindexed", "id", postgresql_where=text("NOT is_indexed")),
        Index("ix_memories_vector_model", "vector_model", "vectors_due_at"),
        Index(
            "uq_memories_content",
            "scope_id",
            "user_id",
            "content_key",
            unique=True,
            postgresql_where=text("content_key IS NOT NULL AND superseded_by IS NULL"),
        ),
        {"comment": "What is remembered about people. Private ones never leave direct messages."},
    )

    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory: who said it, or was answered by it."
    )
    scope: Mapped[str] = mapped_column(
        Text,
        server_default="private",
        comment="private: direct messages only; server: also on that server; everywhere: in all places of the person;"
        " conversation: what was said in a channel, for everybody there.",
    )
    scope_id: Mapped[int] = mapped_column(
        ForeignKey("memory_scopes.id", ondelete="CASCADE"), comment="Who may see it; filled in by the database."
    )
    ordinal: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="Its place in the scope: the message before it in the conversation has the ordinal before. NULL: not"
        " indexed yet.",
    )
    is_indexed: Mapped[bool] = mapped_column(
        Boolean, server_default=text("false"), comment="Can recall find it by its words? A worker indexes new rows."
    )
    platform: Mapped[str | None] = mapped_column(Text, comment="The platform where it was said; NULL: not known.")
    platform_server_id: Mapped[str | None] = mapped_column(
        Text, comment="Server or workspace; where there is none, the channel. NULL in direct messages."
    )
    conversation_id: Mapped[int | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="SET NULL"), comment="The conversation it was said in."
    )
    turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="SET NULL"), comment="The turn it was said in."
    )
    platform_message_id: Mapped[str | None] = mapped_column(
        Text, comment="The message it comes from, by the platform's id: deleted there, it is deleted here."
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
        comment="remembered: as the person asked; fact: stated by the way; turn: a message, with neighbours.",
    )
    author: Mapped[str] = mapped_column(
        Text,
        server_default="person",
        comment="Who may have written it: person, whose it is; stranger, whose text the model had read.",
    )
    is_from_bot: Mapped[bool] = mapped_column(
        Boolean, server_default=text("false"), comment="Is it an answer of Parley's own?"
    )
    confidence: Mapped[float | None] = mapped_column(
        REAL, comment="How sure a fact is, from 0 to 1; NULL: said in these words."
    )
    superseded_by: Mapped[int | None] = mapped_column(
        ForeignKey("memories.id", ondelete="CASCADE"),
        comment="The later fact that replaces it: this one is history, and is not recalled.",
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


class MemoryWord(Base):
    """A word of a memory, with its frequency."""

    __tablename__ = "memory_words"
    __table_args__ = (
        # All that recall reads of a word stands in the key: the newest facts come first, then the newest messages.
        PrimaryKeyConstraint("scope_id", "term", "ordinal", postgresql_include=["tf", "length", "said_at"]),
        CheckConstraint("tf > 0 AND length > 0", name="numbers_are_positive"),
        CheckConstraint("char_length(term) BETWEEN 1 AND 64", name="term_has_1_to_64_characters"),
        Index(None, "memory_id"),
        {"comment": "Which word occurs in which memory: recall reads a few ranges of the primary key."},
    )

    scope_id: Mapped[int] = mapped_column(BigInteger, comment="Who may see the memory.")
    term: Mapped[str] = mapped_column(Text, comment="The word, folded and stemmed; a pair of characters in Chinese.")
    ordinal: Mapped[int] = mapped_column(BigInteger, comment="The memory's place in its scope.")
    memory_id: Mapped[int] = mapped_column(ForeignKey("memories.id", ondelete="CASCADE"), comment="The memory.")
    tf: Mapped[int] = mapped_column(Integer, comment="How often the word occurs.")
    length: Mapped[int] = mapped_column(Integer, comment="Number of words of the memory.")
    said_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="When the memory was said.")


class MemoryPosting(Base):
    """A word of a memory, as the release before looks it up; it goes with the next release."""

    __tablename__ = "memory_postings"
    __table_args__ = (
        PrimaryKeyConstraint("user_id", "term", "kind", "memory_id", postgresql_include=["tf"]),
        CheckConstraint("kind IN ('turn', 'window')", name="kind_is_turn_or_window"),
        CheckConstraint("tf > 0", name="tf_is_positive"),
        CheckConstraint("char_length(term) BETWEEN 1 AND 64", name="term_has_1_to_64_characters"),
        Index(None, "memory_id"),
        {"comment": "Words of memories, for the release before; see memory_words."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory.")
    term: Mapped[str] = mapped_column(Text, comment="The word, folded and stemmed; a pair of characters in Chinese.")
    kind: Mapped[str] = mapped_column(Text, comment="turn: in the text; window: in the text or its neighbours.")
    memory_id: Mapped[int] = mapped_column(ForeignKey("memories.id", ondelete="CASCADE"), comment="The memory.")
    tf: Mapped[int] = mapped_column(Integer, comment="How often the word occurs.")
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )


class EmbeddingModel(Row, Base):
    """An embedding model whose vectors are stored."""

    __tablename__ = "embedding_models"
    __table_args__ = (
        UniqueConstraint("model"),
        CheckConstraint("model <> ''", name="model_is_not_empty"),
        CheckConstraint("dimensions BETWEEN 1 AND 1280", name="dimensions_fit_an_index"),
        {"comment": "Embedding models whose vectors are stored: vectors with other dimensions are refused."},
    )

    model: Mapped[str] = mapped_column(Text, comment="litellm name of the embedding model.")
    dimensions: Mapped[int] = mapped_column(Integer, comment="The dimensions of its first vector.")


class MemoryVector(Base):
    """An embedding of a memory. Vectors of different models can't be compared."""

    __tablename__ = "memory_vectors"
    __table_args__ = (
        PrimaryKeyConstraint("memory_id", "model", "kind"),
        CheckConstraint("kind IN ('turn', 'window')", name="kind_is_turn_or_window"),
        CheckConstraint("model <> ''", name="model_is_not_empty"),
        # An index row has at most 2,704 bytes, enough for a halfvec of 1,280 dimensions.
        CheckConstraint("vector_dims(embedding) <= 1280", name="embedding_has_at_most_1280_dimensions"),
        # Scanned for a scope with few memories; `shared/memory/vector_indexes.py` makes indexes for those with many.
        Index(
            "ix_memory_vectors_of_scope",
            "scope_id",
            "model",
            "kind",
            postgresql_include=["memory_id", "user_id", "embedding"],
        ),
        Index("ix_memory_vectors_of_user", "user_id", "model"),
        {"comment": "Embeddings of memories, beside each other for as many models as are in use."},
    )

    memory_id: Mapped[int] = mapped_column(ForeignKey("memories.id", ondelete="CASCADE"), comment="The memory.")
    model: Mapped[str] = mapped_column(Text, comment="litellm name of the embedding model.")
    kind: Mapped[str] = mapped_column(Text, comment="turn: of the text; window: of the text with its neighbours.")
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose memory.")
    scope_id: Mapped[int] = mapped_column(BigInteger, comment="Who may see the memory; filled in by the database.")
    embedding: Mapped[Any] = mapped_column(HALFVEC(), comment="The vector.")
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )


class MemoryRetention(Row, Base):
    """For how many days memories of one kind are kept, on a server, a platform or everywhere."""

    __tablename__ = "memory_retention"
    __table_args__ = (
        CheckConstraint("kind IN ('turn', 'fact', 'remembered', 'summary')", name="kind_is_known"),
        CheckConstraint("kept_days BETWEEN 1 AND 36500", name="kept_days_is_1_to_36500"),
        CheckConstraint("platform_server_id IS NULL OR platform IS NOT NULL", name="a_server_has_a_platform"),
        Index(
            "uq_memory_retention_place",
            "kind",
            "platform",
            "platform_server_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        {
            "comment": "For how long memories are kept; the most specific row decides, and without one they are kept"
            " for ever."
        },
    )

    platform: Mapped[str | None] = mapped_column(Text, comment="The platform; NULL: all, and direct messages.")
    platform_server_id: Mapped[str | None] = mapped_column(Text, comment="The server; NULL: all of the platform.")
    kind: Mapped[str] = mapped_column(
        Text, comment="turn: messages; fact: stated by the way; remembered: as the person asked; summary."
    )
    kept_days: Mapped[int] = mapped_column(Integer, comment="Days after which they are deleted.")
