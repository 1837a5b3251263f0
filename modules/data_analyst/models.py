"""The table of data sources, which admins fill in SQL."""

from typing import Any

from sqlalchemy import CheckConstraint, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Source(Row, Base):
    """A table, a view or a file that people may ask about."""

    __tablename__ = "data_sources"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*$'", name="name_is_lower_case_words_joined_by_underscores"
        ),
        CheckConstraint("char_length(name) <= 40", name="name_has_at_most_40_characters"),
        CheckConstraint("char_length(description) <= 500", name="description_has_at_most_500_characters"),
        CheckConstraint("kind IN ('postgres', 'file')", name="kind_is_postgres_or_file"),
        CheckConstraint(
            "CASE kind WHEN 'postgres' THEN num_nulls(url, relation) = 0 AND path IS NULL"
            " ELSE path IS NOT NULL AND num_nonnulls(url, password, relation) = 0 END",
            name="postgres_has_url_and_relation_file_has_path",
        ),
        CheckConstraint(
            "url ~ '^postgres(ql)?://[^/:@?#\\s]+@\\S*$' AND url !~* '[?&]password='",
            name="url_is_postgresql_with_a_user_and_no_password",
        ),
        CheckConstraint("password ~ '^\\$\\{DATA_ANALYST_[A-Z0-9_]+\\}$'", name="password_names_a_variable"),
        CheckConstraint("btrim(relation) <> ''", name="relation_is_not_empty"),
        CheckConstraint("path ~* '^/.*\\.(csv|tsv|parquet)$'", name="path_is_absolute_and_of_a_csv_tsv_or_parquet"),
        CheckConstraint(
            "jsonb_typeof(allowed_roles) = 'array' AND allowed_roles <> '[]'"
            ' AND allowed_roles <@ \'["guest", "user", "admin", "owner"]\'',
            name="allowed_roles_are_guest_user_admin_or_owner",
        ),
        {"comment": "Named sources of the module data_analyst. Changes count from the next call."},
    )

    name: Mapped[str] = mapped_column(Text, comment="What people and models call it: lower case, e.g. web_orders.")
    description: Mapped[str] = mapped_column(
        Text, server_default="", comment="What is in it: the model chooses by this."
    )
    kind: Mapped[str] = mapped_column(Text, comment="postgres: a table or view; file: CSV, TSV or Parquet.")
    url: Mapped[str | None] = mapped_column(
        Text, comment="postgres: postgresql://login@host:5432/database; the login may only read."
    )
    password: Mapped[str | None] = mapped_column(
        Text, comment="postgres: ${DATA_ANALYST_NAME}, a variable of Parley's that holds the login's password."
    )
    relation: Mapped[str | None] = mapped_column(Text, comment="postgres: the table or view, e.g. public.orders.")
    path: Mapped[str | None] = mapped_column(Text, comment="file: its whole path, on the disk of every worker.")
    allowed_roles: Mapped[list[Any]] = mapped_column(
        JSONB,
        server_default=text("'[\"admin\"]'"),
        comment='Who may use it: guest, user, admin, owner; ["user"] lets in users and all above them.',
    )
    allow_sql: Mapped[bool] = mapped_column(
        server_default=text("true"),
        comment="May people write SQL? It reads all that the login may read. Off: measures and dimensions only.",
    )
    is_enabled: Mapped[bool] = mapped_column(server_default=text("true"), comment="Off: it is as if it were not there.")
