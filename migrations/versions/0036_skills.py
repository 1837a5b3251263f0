"""Skills, which personas list and models load; the release before does not know them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

SKILLS_OF_PERSONA = "personas_skills_is_an_array_of_at_most_50_names"


def upgrade() -> None:
    """Make the table, and the column of the personas that list its rows."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "skills",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("name", sa.Text(), nullable=False, comment="What personas and models call it, e.g. meeting-notes."),
        sa.Column(
            "description",
            sa.Text(),
            nullable=False,
            comment="What it does and when to use it: the model chooses by this, and sees it in each prompt.",
        ),
        sa.Column(
            "body", sa.Text(), nullable=False, comment="The instructions, which the model loads when it needs them."
        ),
        sa.Column(
            "files",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment='Texts that the instructions refer to: {"references/form.md": "…"}.',
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
            "name ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND char_length(name) <= 64",
            name=op.f("skills_name_is_at_most_64_of_a_to_z_digits_and_single_hyphens"),
        ),
        sa.CheckConstraint(
            "btrim(description) <> '' AND char_length(description) <= 1024",
            name=op.f("skills_description_has_1_to_1024_characters"),
        ),
        sa.CheckConstraint(
            "btrim(body) <> '' AND char_length(body) <= 200000", name=op.f("skills_body_has_1_to_200000_characters")
        ),
        sa.CheckConstraint(
            "CASE WHEN jsonb_typeof(files) = 'object' THEN NOT jsonb_path_exists(files, '$.* ? (@.type() != \"string\")') ELSE false END",
            name=op.f("skills_files_is_an_object_of_texts_by_path"),
        ),
        sa.CheckConstraint(
            "octet_length(CAST(files AS text)) <= 2000000", name=op.f("skills_files_have_at_most_2_million_bytes")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_skills")),
        sa.UniqueConstraint("name", name=op.f("uq_skills_name")),
        comment="Instructions for particular tasks. A persona lists those that its model may load.",
    )
    op.add_column(
        "personas",
        sa.Column(
            "skills",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment='Skills that the model may load here, e.g. ["meeting-notes"]; NULL: none.',
        ),
    )
    op.create_check_constraint(
        op.f(SKILLS_OF_PERSONA),
        "personas",
        "CASE WHEN jsonb_typeof(skills) = 'array' THEN jsonb_array_length(skills) <= 50"
        " AND NOT jsonb_path_exists(skills, '$[*] ? (@.type() != \"string\")') ELSE skills IS NULL END",
    )
    op.execute(
        "CREATE TRIGGER parley_audit AFTER INSERT OR UPDATE OR DELETE ON skills FOR EACH ROW"
        " EXECUTE FUNCTION parley_audit_v1('without')"
    )


def downgrade() -> None:
    """Drop both."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_constraint(op.f(SKILLS_OF_PERSONA), "personas", type_="check")
    op.drop_column("personas", "skills")
    op.drop_table("skills")
