"""Data sources, which admins name in SQL for the module data_analyst; the release before does not know them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "data_sources",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "name", sa.Text(), nullable=False, comment="What people and models call it: lower case, e.g. web_orders."
        ),
        sa.Column(
            "description",
            sa.Text(),
            server_default="",
            nullable=False,
            comment="What is in it: the model chooses by this.",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="postgres: a table or view; file: CSV, TSV or Parquet."),
        sa.Column(
            "url",
            sa.Text(),
            nullable=True,
            comment="postgres: postgresql://login@host:5432/database; the login may only read.",
        ),
        sa.Column(
            "password",
            sa.Text(),
            nullable=True,
            comment="postgres: ${DATA_ANALYST_NAME}, a variable of Parley's that holds the login's password.",
        ),
        sa.Column("relation", sa.Text(), nullable=True, comment="postgres: the table or view, e.g. public.orders."),
        sa.Column("path", sa.Text(), nullable=True, comment="file: its whole path, on the disk of every worker."),
        sa.Column(
            "allowed_roles",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[\"admin\"]'"),
            nullable=False,
            comment='Who may use it: guest, user, admin, owner; ["user"] lets in users and all above them.',
        ),
        sa.Column(
            "allow_sql",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="May people write SQL? It reads all that the login may read. Off: measures and dimensions only.",
        ),
        sa.Column(
            "is_enabled",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="Off: it is as if it were not there.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "CASE kind WHEN 'postgres' THEN num_nulls(url, relation) = 0 AND path IS NULL ELSE path IS NOT NULL AND num_nonnulls(url, password, relation) = 0 END",
            name=op.f("data_sources_postgres_has_url_and_relation_file_has_path"),
        ),
        sa.CheckConstraint("btrim(relation) <> ''", name=op.f("data_sources_relation_is_not_empty")),
        sa.CheckConstraint("kind IN ('postgres', 'file')", name=op.f("data_sources_kind_is_postgres_or_file")),
        sa.CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*$'",
            name=op.f("data_sources_name_is_lower_case_words_joined_by_underscores"),
        ),
        sa.CheckConstraint(
            "password ~ '^\\$\\{DATA_ANALYST_[A-Z0-9_]+\\}$'", name=op.f("data_sources_password_names_a_variable")
        ),
        sa.CheckConstraint(
            "path ~* '^/.*\\.(csv|tsv|parquet)$'",
            name=op.f("data_sources_path_is_absolute_and_of_a_csv_tsv_or_parquet"),
        ),
        sa.CheckConstraint(
            "url ~ '^postgres(ql)?://[^/:@?#\\s]+@\\S*$' AND url !~* '[?&]password='",
            name=op.f("data_sources_url_is_postgresql_with_a_user_and_no_password"),
        ),
        sa.CheckConstraint(
            "char_length(description) <= 500", name=op.f("data_sources_description_has_at_most_500_characters")
        ),
        sa.CheckConstraint("char_length(name) <= 40", name=op.f("data_sources_name_has_at_most_40_characters")),
        sa.CheckConstraint(
            'jsonb_typeof(allowed_roles) = \'array\' AND allowed_roles <> \'[]\' AND allowed_roles <@ \'["guest", "user", "admin", "owner"]\'',
            name=op.f("data_sources_allowed_roles_are_guest_user_admin_or_owner"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_data_sources")),
        sa.UniqueConstraint("name", name=op.f("uq_data_sources_name")),
        comment="Named sources of the module data_analyst. Changes count from the next call.",
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("data_sources")
