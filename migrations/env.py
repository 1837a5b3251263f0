"""Runs the migrations: one at a time over all processes, with a bound on waiting for locks."""

from alembic import context
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

from shared.models import Base

# Any number, the same for all processes: who migrates holds it, the others wait and then find nothing left to do.
MIGRATION_LOCK = 7_209_534_102


def run_migrations() -> None:
    """Bring the database at `config.attributes["url"]` (or `alembic -x url=…`) to the wanted revision."""
    given = context.config.attributes.get("url") or context.get_x_argument(as_dictionary=True).get("url")
    if given is None:
        raise SystemExit("Say which database: alembic -x url=postgresql://… (parley migrate finds it by itself).")
    url = make_url(given).set(drivername="postgresql+psycopg")
    # Without a pool a connection ends with its block: one that lives on after a failure would keep the lock.
    options = {"options": f"{url.query.get('options', '')} -c lock_timeout=4s"}
    engine = create_engine(url, poolclass=NullPool, connect_args=options)
    locking = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    # The lock has a connection of its own: it outlives the transactions of the single migrations.
    with locking.connect() as guard, engine.connect() as connection:
        guard.execute(text("SELECT pg_advisory_lock(:key)"), {"key": MIGRATION_LOCK})
        context.configure(connection=connection, target_metadata=Base.metadata, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()


run_migrations()
