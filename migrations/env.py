"""Runs the migrations, in one process at a time and with a timeout for locks."""

from alembic import context
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

from shared.db.migrations import MIGRATION_LOCK, MIGRATION_LOCK_SECONDS

# Functions name tables that come after them. Rows that a migration changes are of all persons, and row-level security
# binds the owner.
SETTINGS = f"""
SELECT set_config('role', 'none', false), set_config('lock_timeout', '{MIGRATION_LOCK_SECONDS}s', false),
       set_config('check_function_bodies', 'off', false), set_config('parley.rows', 'all', false)
"""
BINDING = "SELECT public.parley_bind_owner()"


def run_migrations() -> None:
    """Bring the database at `config.attributes["url"]` (or `alembic -x url=…`) to the newest revision."""
    address = context.config.attributes.get("url") or context.get_x_argument(as_dictionary=True).get("url")
    if address is None:
        raise SystemExit("Say which database: alembic -x url=postgresql://… (parley migrate finds it by itself).")
    url = make_url(address).set(drivername="postgresql+psycopg")
    # Without a pool a connection closes with its block; a pooled one would keep the lock after a failure.
    engine = create_engine(url, poolclass=NullPool)
    locking = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    # The lock needs its own connection, because it spans the transactions of all migrations.
    with locking.connect() as guard, engine.connect() as connection:
        guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
        # Not named at connecting, because a pooler drops what is.
        with connection.begin():
            connection.execute(text(SETTINGS))
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
        with engine.begin() as binding:
            binding.execute(text(BINDING))


run_migrations()
