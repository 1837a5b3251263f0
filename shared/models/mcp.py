"""MCP servers, and their tools in each version that was seen, of which only approved ones are used."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, DateTime, Float, ForeignKey, Text, UniqueConstraint, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row

IS_STRING_ARRAY = "jsonb_typeof({0}) = 'array' AND NOT jsonb_path_exists({0}, '$[*] ? (@.type() != \"string\")')"
IS_STRING_MAP = "jsonb_typeof({0}) = 'object' AND NOT jsonb_path_exists({0}, '$.* ? (@.type() != \"string\")')"


class McpServer(Row, Base):
    """An MCP server: how to connect to it, and who may use its tools."""

    __tablename__ = "mcp_servers"
    __table_args__ = (
        UniqueConstraint("name"),
        CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*$'", name="name_is_lower_case_words_joined_by_underscores"
        ),
        CheckConstraint("char_length(name) <= 32", name="name_has_at_most_32_characters"),
        CheckConstraint("transport IN ('stdio', 'http')", name="transport_is_stdio_or_http"),
        CheckConstraint(
            "CASE transport WHEN 'stdio' THEN coalesce(btrim(command), '') <> '' AND url IS NULL"
            " ELSE command IS NULL AND url IS NOT NULL END",
            name="stdio_has_a_command_and_http_has_a_url",
        ),
        CheckConstraint("url ~ '^https?://[^/@\\s]+(/\\S*)?$'", name="url_begins_with_http_and_holds_no_password"),
        CheckConstraint(IS_STRING_ARRAY.format("args"), name="args_is_an_array_of_strings"),
        CheckConstraint(IS_STRING_MAP.format("env"), name="env_is_an_object_of_strings"),
        CheckConstraint(IS_STRING_MAP.format("headers"), name="headers_is_an_object_of_strings"),
        CheckConstraint(IS_STRING_ARRAY.format("read_only_tools"), name="read_only_tools_is_an_array_of_tool_names"),
        CheckConstraint(
            IS_STRING_ARRAY.format("tells_nobody_tools"), name="tells_nobody_tools_is_an_array_of_tool_names"
        ),
        CheckConstraint(
            "required_permission IN ('guest', 'user', 'admin', 'owner')",
            name="required_permission_is_guest_user_admin_or_owner",
        ),
        CheckConstraint("timeout_seconds BETWEEN 0.1 AND 600", name="timeout_seconds_is_0_1_to_600"),
        {"comment": "MCP servers whose tools the agent may use, as server.tool. Changes count from the next message."},
    )

    name: Mapped[str] = mapped_column(Text, comment="The name before the dot of its tools; not that of a module.")
    transport: Mapped[str] = mapped_column(Text, comment="stdio: a program that is started; http: streamable HTTP.")
    command: Mapped[str | None] = mapped_column(Text, comment="stdio: the program, best with its whole path.")
    args: Mapped[list[Any]] = mapped_column(
        JSONB, server_default=text("'[]'"), comment='stdio: its arguments, e.g. ["--verbose"].'
    )
    env: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=text("'{}'"),
        comment="stdio: its whole environment; ${MCP_NAME} in a value stands for that variable of Parley's.",
    )
    url: Mapped[str | None] = mapped_column(Text, comment="http: the address, e.g. https://example.org/mcp.")
    headers: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=text("'{}'"),
        comment='http: headers, e.g. {"Authorization": "Bearer ${MCP_NAME}"} with that variable of Parley\'s.',
    )
    required_permission: Mapped[str] = mapped_column(
        Text, server_default="user", comment="Who may use its tools: guest, user, admin or owner."
    )
    read_only_tools: Mapped[list[Any]] = mapped_column(
        JSONB,
        server_default=text("'[]'"),
        comment='Tools that change nothing, and may run again after a failure; ["*"]: all. A search is one.',
    )
    tells_nobody_tools: Mapped[list[Any]] = mapped_column(
        JSONB,
        server_default=text("'[]'"),
        comment='Tools that send no word of a call to others, so that they need no yes; ["*"]: all. A search is none.',
    )
    reads_untrusted: Mapped[bool] = mapped_column(
        server_default=text("true"),
        comment="May its results hold what strangers have written? Off only where nobody else can put words into them.",
    )
    reads_private: Mapped[bool] = mapped_column(
        server_default=text("true"),
        comment="Do its results hold what not everybody may know, such as mail? Off only where all of it is public.",
    )
    timeout_seconds: Mapped[float] = mapped_column(
        Float, server_default=text("60"), comment="How long one call may take."
    )
    tells_user: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Tell it with each call who asks and where? Only for a Parley of your own.",
    )
    enabled: Mapped[bool] = mapped_column(
        server_default=text("true"), comment="Off: not connected, its tools are gone."
    )
    pinned_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True),
        comment="When its tools were first seen and approved; set to NULL to approve what it has now.",
    )
    last_connected_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When a worker last connected to it."
    )
    last_error: Mapped[str | None] = mapped_column(Text, comment="Why it is off; NULL: nothing is wrong.")


class McpTool(Row, Base):
    """A version of a tool. When the server changes the tool, a new row is inserted, which an admin has to approve."""

    __tablename__ = "mcp_tools"
    __table_args__ = (
        UniqueConstraint("server_id", "name", "hash"),
        CheckConstraint("name <> ''", name="name_is_not_empty"),
        CheckConstraint("hash ~ '^[0-9a-f]{64}$'", name="hash_is_64_hexadecimal_digits"),
        {"comment": "Tools of MCP servers as they were seen. Only approved ones are offered."},
    )

    server_id: Mapped[int] = mapped_column(ForeignKey("mcp_servers.id", ondelete="CASCADE"), comment="The server.")
    name: Mapped[str] = mapped_column(Text, comment="The tool's own name, as the server says it.")
    hash: Mapped[str] = mapped_column(Text, comment="SHA-256 of name, description and schema.")
    description: Mapped[str] = mapped_column(Text, server_default="", comment="The description, as the server says it.")
    input_schema: Mapped[dict[str, Any]] = mapped_column(
        JSONB, server_default=text("'{}'"), comment="The JSON schema of its arguments."
    )
    approved: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="May it be offered? A later change of the tool is another row."
    )
    last_seen_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the server last had it in this wording."
    )
