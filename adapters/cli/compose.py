"""The composition root: builds and closes the app's collaborators, and passes the senders to the worker."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from adapters.base import ChatPlatform
from adapters.folders import find_settings_class, list_folders
from adapters.tables import update_tables
from agent.agents.a2a.client import RemoteAgents
from agent.agents.delegation.agents import MODULE as AGENTS
from agent.agents.delegation.child_turn import end_orphans
from agent.agents.delegation.provider import AgentTools
from agent.app import App, NeedsApp, ToolSources
from agent.live.listener import Listener
from agent.live.notifier import Bus
from agent.llm.router import Router
from agent.outflow.reply import OutflowRules, Secrets
from agent.people.billing.budget import store_defaults
from agent.people.participants import LoopMode
from agent.queue.maintenance.known_words import Kind, note_words
from agent.queue.maintenance.totals import read_tool_use
from agent.queue.outbox import Senders
from agent.queue.worker import SWEEP_SECONDS, PeriodicTask
from agent.tools.mcp.servers import RemoteTools
from agent.tools.modules import ModuleTools, discover
from agent.tools.search import MODULE as SEARCH
from agent.tools.skills.folder import SkillFolder
from agent.tools.skills.provider import MODULE as SKILLS
from agent.tools.skills.provider import SkillTools
from agent.turn.loop import NativeMode
from agent.turn.modes import Mode
from agent.turn.planner.mode import PlannerMode
from agent.turn.services import Files, Models
from shared.clock import SystemClock
from shared.db.database import Address, Database, DatabaseLost, check, locate
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.files.images import Images
from shared.files.storage import open_storage
from shared.http.client import GuardedClient
from shared.memory.memories import Memories
from shared.redaction import hide_settings
from shared.settings import Settings, list_secret_values, load_secrets

statements = load_statements(__file__)

if TYPE_CHECKING:
    from starlette.routing import Route

TITLE_SECONDS = 2.0
# The modules that are no folders.
BUILT_IN_MODULES = frozenset({AGENTS, SEARCH, SKILLS})
# The ways in which a turn may go.
MODES: Mapping[LoopMode, Mode] = {"native": NativeMode(), "planner": PlannerMode()}

# Platforms of the adapters that are no chat platforms.
OTHER_PLATFORMS = ("a2a", "openai", "terminal", "web")


async def prepare_database(settings: Settings) -> Address:
    """Locate or start the database, check its version, and migrate its tables."""
    address = locate(settings)
    if not address.is_embedded:
        await check(address)
    await update_tables(address, settings.modules_path)
    return address


@asynccontextmanager
async def open_app(
    settings: Settings,
    address: Address | None = None,
    senders: Senders | None = None,
    modules: ModuleTools | None = None,
) -> AsyncIterator[App]:
    """Build the app on a migrated database, closed at the end of the block; without `modules` with all there are."""
    clock = SystemClock()
    secrets = load_secrets(settings)
    database = Database(address or await prepare_database(settings))
    async with AsyncExitStack() as closing:
        closing.push_async_callback(database.close)
        platforms = [sender for sender in (senders or {}).values() if isinstance(sender, ChatPlatform)]
        origins = {name: url for platform in platforms for name, url in platform.settings.origins.items()}
        http = await closing.enter_async_context(aclosing(GuardedClient(settings, platform_origins=origins)))
        storage = await closing.enter_async_context(aclosing(open_storage(settings, secrets, clock)))
        router = await closing.enter_async_context(aclosing(Router(settings, clock)))
        # Where the database does not answer yet, tasks of the worker do so later.
        with suppress(DatabaseLost):
            await router.prices.refresh(database)
            async with database.statement() as session:
                await store_defaults(session, settings)
        memory = await closing.enter_async_context(aclosing(Memories(database, settings, clock, price=router.priced)))
        hide_settings(secret_values := list_secret_values(settings, secrets))
        rules = OutflowRules(storage.base_url, Secrets(secret_values))
        events = Listener(database, secrets.secret_keys, rules, bus=open_bus(settings, database, secrets.secret_keys))
        await events.start()
        closing.push_async_callback(events.close)
        peers = await closing.enter_async_context(aclosing(RemoteAgents(database, http, secrets)))
        modules = modules or discover(settings.modules_path, settings)
        app = App(
            settings=settings,
            secrets=secrets,
            clock=clock,
            database=database,
            files=Files(storage, Images(storage), http),
            memory=memory,
            models=Models(router, MODES),
            tools=ToolSources(
                modules,
                RemoteTools(database, modules.modules | BUILT_IN_MODULES, starts_programs=settings.mcp_commands),
                skills=SkillTools(SkillFolder(settings.skills_path) if settings.skills_path else None),
                agents=partial(AgentTools, peers=peers),
            ),
            events=events,
            senders=senders or {},
        )
        await _connect(app, peers, closing)
        yield app


def open_bus(settings: Settings, database: SessionSource, secret_keys: Sequence[str]) -> Bus | None:
    """Return what carries notes to the other processes beside the database, None where nothing does."""
    if settings.bus_url is None:
        return None
    # An extra, which takes a tenth of a second to import.
    from agent.live.nats_bus import NatsBus

    return NatsBus(database, settings, secret_keys)


async def warm_models(app: App) -> None:
    """Load what calls of all models need that the settings and personas name."""
    async with app.database.statement() as session:
        models = [row.default_model for row in (await session.execute(statements.list_persona_models)).all()]
    await app.models.router.warm(*models)


async def note_known_words(app: App, *, with_models: bool = True) -> None:
    """Store the modules, platforms and models that this process knows, so that the database refuses misspelled ones."""
    models, providers = app.models.router.list_models() if with_models else ((), ())
    words: dict[Kind, Collection[str]] = {
        "module": app.tools.modules.modules | BUILT_IN_MODULES,
        "platform": {*list_folders(), *OTHER_PLATFORMS},
        "open_threads": [name for name in list_folders() if find_settings_class(name).has_open_threads],
    }
    if models:
        words |= {"model": models, "provider": providers}
    await note_words(app.database, words)


async def _connect(app: App, peers: RemoteAgents, closing: AsyncExitStack) -> None:
    # Where not all tools fit, the most used ones are offered; a database that is away now is no reason not to start.
    with suppress(DatabaseLost):
        async with app.database.statement() as session:
            app.toolbox.rank(await read_tool_use(session), app.settings.default_guest_modules)
    # Almost everything is read with each message; these are kept, until an admin changes something.
    app.events.on_change(app.tools.mcp.note_change)
    app.events.on_change(peers.forget_cards)
    app.events.on_change(app.toolbox.forget_offers)
    for sender in app.distinct_senders:
        if isinstance(sender, NeedsApp):
            closing.push_async_callback(sender.aclose)
            await sender.open(app)


def list_routes() -> list["Route"]:
    """Return the routes that the web server mounts besides its own and those of the chat platforms."""
    # Imported here because only the web server needs it.
    from adapters import a2a

    return a2a.routes()


def list_periodic_tasks(app: App) -> list[PeriodicTask]:
    """Return the periodic tasks of the optional parts, for the worker."""
    tasks = [PeriodicTask("orphan sweeper", partial(end_orphans, app.database), SWEEP_SECONDS, waits=True)]
    if app.settings.summary_model is not None:
        # Most installations have none; the page shows the first message then.
        from agent.memory.summaries.titles import TitleWriter

        titles = TitleWriter(app.database, app.models.router, app.clock, tell=app.events.notifier.tell_list)
        tasks.append(PeriodicTask("titles", titles.run, TITLE_SECONDS, can_wait=True))
    return tasks
