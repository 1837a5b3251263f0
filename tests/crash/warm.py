"""What all workers build in the same way, built once in the process that they are forked from."""

import gc
from importlib import import_module

from sqlalchemy.orm import configure_mappers

from agent.prompts import prompts
from agent.tools.modules import discover

configure_mappers()
discover()
prompts()
# The program imports these only where it uses them.
for name in ("filetype", "shared.db.pooling.watch", "structlog"):
    import_module(name)
# What is there already is never garbage: looking at it would copy its memory into each worker.
gc.freeze()
