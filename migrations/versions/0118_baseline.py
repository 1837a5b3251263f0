"""The schema of the first release: the files of `migrations/schema`, whose README says how they are changed."""

from pathlib import Path
from typing import Any

from alembic import op

revision = "0118"
down_revision = None

SCHEMA = Path(__file__).resolve().parents[1] / "schema"
# A table comes after those that it refers to.
TOPICS = (
    *(
        "domains",
        "people",
        "places",
        "tools",
        "turns",
        "memory",
        "money",
        "queue",
        "files",
        "audit",
        "totals",
        "releases",
    ),
    *("histories", "cells"),
)


def upgrade() -> None:
    """Install the roles, the functions, the tables by topic, and what admins look at."""
    run("CREATE EXTENSION IF NOT EXISTS vector")
    run_file(SCHEMA / "roles.sql")
    # Whoever may call the function of a trigger could attach it to a table of their own, and act as its owner.
    install_functions("functions/triggers", "PUBLIC, parley_app, parley_admin")
    for topic in TOPICS:
        run_file(SCHEMA / f"{topic}.sql")
    run(f"INSERT INTO schema_compatibility (id, oldest_revision) VALUES (1, '{revision}')")  # noqa: S608  # a constant
    install_functions("functions", "PUBLIC")
    run("\n".join(path.read_text("utf-8") for path in list_files("functions/admin")))
    run_file(SCHEMA / "admin.sql")
    # For what `RETENTION_EVENTS_DAYS` is by default; the maintenance makes those that follow.
    run("SELECT public.parley_make_partitions(365)")


def install_functions(folder: str, excluded: str) -> None:
    """Make the functions of a folder for those whom roles.sql names, without the excluded roles, in one round trip."""
    revoked = "\nREVOKE EXECUTE ON FUNCTION public.{} FROM {};\n"
    run("".join(path.read_text("utf-8") + revoked.format(path.stem, excluded) for path in list_files(folder)))


def list_files(folder: str) -> list[Path]:
    """Return the files of a folder of the schema in the order of their names."""
    return sorted((SCHEMA / folder).glob("*.sql"))


def run_file(path: Path) -> None:
    """Run the statements of a file."""
    run(path.read_text("utf-8"))


def run(statements: str) -> None:
    """Run statements, several at once; the driver takes the text as it stands."""
    bind = op.get_bind()
    # Functions name tables that come after them. And the transaction begins here: it does with what has parameters.
    bind.exec_driver_sql("SET LOCAL check_function_bodies = off")
    connection: Any = bind.connection.dbapi_connection
    connection.run_async(lambda driver: driver.execute(statements))
