"""Runs the migrations, in one process at a time and with a timeout for locks."""

from importlib import import_module

from alembic import context
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

from shared.models import Base
from shared.settings import MODULES_FOLDER

# An arbitrary number, the same in all processes: one holds the lock and migrates, others wait and find nothing to do.
MIGRATION_LOCK = 7_209_534_102
# Until the first release a function's file is edited in place, so it may name a column of a later migration. Rows that
# a migration changes are of all persons, and row-level security binds the owner.
SETTINGS = """
SELECT set_config('role', 'none', false), set_config('lock_timeout', '4s', false),
       set_config('check_function_bodies', 'off', false), set_config('parley.rows', 'all', false)
"""
HAS_BINDING = "SELECT to_regprocedure('public.parley_bind_owner_v1()') IS NOT NULL"
BINDING = "SELECT public.parley_bind_owner_v1()"


def import_models_of_modules() -> None:
    """Add the modules' own tables to the metadata, which a new migration is compared with."""
    for path in sorted(MODULES_FOLDER.glob("*/models.py")):
        import_module(f"{MODULES_FOLDER.name}.{path.parent.name}.models")


def run_migrations() -> None:
    """Bring the database at `config.attributes["url"]` (or `alembic -x url=…`) to the requested revision."""
    given = context.config.attributes.get("url") or context.get_x_argument(as_dictionary=True).get("url")
    if given is None:
        raise SystemExit("Say which database: alembic -x url=postgresql://… (parley migrate finds it by itself).")
    url = make_url(given).set(drivername="postgresql+psycopg")
    # Without a pool a connection closes with its block; a pooled one would keep the lock after a failure.
    engine = create_engine(url, poolclass=NullPool)
    locking = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    if context.config.cmd_opts is not None:
        import_models_of_modules()
    # The lock needs its own connection, because it spans the transactions of all migrations.
    with locking.connect() as guard, engine.connect() as connection:
        guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
        # Not named at connecting, because a pooler drops what is.
        with connection.begin():
            connection.execute(text(SETTINGS))
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            transaction_per_migration=True,
            # A platform's own tables have a line of migrations of their own.
            version_table=context.config.attributes.get("version_table", "alembic_version"),
        )
        with context.begin_transaction():
            context.run_migrations()
        with engine.begin() as binding:
            if binding.execute(text(HAS_BINDING)).scalar_one():
                binding.execute(text(BINDING))


run_migrations()
