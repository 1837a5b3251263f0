"""Skills: instructions for particular tasks, which a model loads when it needs them."""

from typing import Any

from sqlalchemy import CheckConstraint, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Skill(Row, Base):
    """A skill in the Agent Skills format; a row is used instead of a folder of the same name."""

    __tablename__ = "skills"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint(
            "name ~ '^[a-z0-9]+(-[a-z0-9]+)*$' AND char_length(name) <= 64",
            name="name_is_at_most_64_of_a_to_z_digits_and_single_hyphens",
        ),
        CheckConstraint(
            "btrim(description) <> '' AND char_length(description) <= 1024",
            name="description_has_1_to_1024_characters",
        ),
        CheckConstraint("btrim(body) <> '' AND char_length(body) <= 200000", name="body_has_1_to_200000_characters"),
        CheckConstraint(
            "CASE WHEN jsonb_typeof(files) = 'object'"
            " THEN NOT jsonb_path_exists(files, '$.* ? (@.type() != \"string\")') ELSE false END",
            name="files_is_an_object_of_texts_by_path",
        ),
        CheckConstraint("octet_length(CAST(files AS text)) <= 2000000", name="files_have_at_most_2_million_bytes"),
        {"comment": "Instructions for particular tasks. A persona lists those that its model may load."},
    )

    name: Mapped[str] = mapped_column(Text, comment="What personas and models call it, e.g. meeting-notes.")
    description: Mapped[str] = mapped_column(
        Text, comment="What it does and when to use it: the model chooses by this, and sees it in each prompt."
    )
    body: Mapped[str] = mapped_column(Text, comment="The instructions, which the model loads when it needs them.")
    files: Mapped[dict[str, Any]] = mapped_column(
        JSONB, server_default=text("'{}'"), comment='Texts that the instructions refer to: {"references/form.md": "…"}.'
    )
    is_enabled: Mapped[bool] = mapped_column(server_default=text("true"), comment="Off: it is as if it were not there.")
