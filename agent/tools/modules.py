"""Finds and loads the modules and collects their tools. A module that fails to load is disabled; the others work.

Modules come from three sources, in this order: the folder `modules/` of the program, the folder named by
`MODULES_PATH`, and installed Python packages with an entry point in the group `parley.modules`.
"""

import asyncio
import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from agent.tools.providers import NO_TEXTS, ToolProvider
from shared.hooks import ModuleRoute, ModuleTick
from shared.log import get_logger
from shared.settings import MODULES_FOLDER, Settings
from shared.settings.module_folders import list_entry_points
from shared.tools import Tool

if TYPE_CHECKING:
    from agent.tools.offer import Scope

# Two _ stand between the names of a module and of its tool, so that the names of all tools differ.
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*(?:_[a-zA-Z0-9]+)*")
# Module names that other tool providers use for their own tools.
RESERVED_NAMES = frozenset({"agents", "skills", "tools"})
WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

log = get_logger()


class Module(Struct, frozen=True):
    """A loaded module. `source` is shown to operators: a folder, or a package with its version.

    `off` has the reasons of the tools that lack something in the settings, by full name.
    """

    name: str
    source: str
    tools: tuple[Tool, ...]
    instructions: str = ""
    off: Mapping[str, str] = field(default_factory=dict)
    routes: tuple[ModuleRoute, ...] = ()
    ticks: tuple[ModuleTick, ...] = ()


class ModuleFailure(Struct, frozen=True):
    """A module that failed to load, and the reason."""

    name: str
    source: str
    error: BaseException

    @property
    def reason(self) -> str:
        """Return the error as text."""
        return f"{type(self.error).__name__}: {self.error}"


class FoundModules(Struct, frozen=True):
    """The modules of all three sources, in the order of the sources."""

    loaded: tuple[Module, ...]
    failed: tuple[ModuleFailure, ...]


class _Candidate(Struct, frozen=True):
    name: str
    source: str
    load: Callable[[], ModuleType]


class ModuleTools(ToolProvider):
    """Provides the tools of the modules.

    `failures` maps the names of modules that failed to load to the reasons, `off` those of tools that are off.
    """

    def __init__(
        self,
        tools: Sequence[Tool] = (),
        instructions: Mapping[str, str] = NO_TEXTS,
        *,
        find: Callable[[], FoundModules] | None = None,
    ) -> None:
        """Provide these tools, or with `find` those that it returns."""
        self.tools = _sort_by_name(tools)
        self._instructions = dict(instructions)
        self.failures: dict[str, str] = {}
        self.off: Mapping[str, str] = {}
        # What the modules answer over HTTP, and what they do in the background.
        self.routes: Sequence[ModuleRoute] = ()
        self.ticks: Sequence[ModuleTick] = ()
        self._find = find
        if find is not None:
            self._use(find())

    async def try_again(self) -> None:
        """Load the modules again that have failed: what they lacked, a file or a server, may be there by now.

        A worker calls this from time to time.
        """
        if not self.failures or self._find is None:
            return
        modules = await asyncio.to_thread(self._find)
        if self.failures.keys() != {failure.name for failure in modules.failed}:
            self._use(modules)
            log.info("modules_loaded", failed=sorted(self.failures))

    def _use(self, modules: FoundModules) -> None:
        self.off = {name: reason for module in modules.loaded for name, reason in module.off.items()}
        tools = [tool for module in modules.loaded for tool in module.tools if tool.name not in self.off]
        for failure in modules.failed:
            if failure.name not in self.failures:
                log.error("module_failed_to_load", module=failure.name, source=failure.source, exc_info=failure.error)
        self.tools = _sort_by_name(tools)
        self._instructions = {module.name: module.instructions for module in modules.loaded}
        self.routes = tuple(route for module in modules.loaded for route in module.routes)
        self.ticks = tuple(tick for module in modules.loaded for tick in module.ticks)
        self.failures = {module.name: module.reason for module in modules.failed}

    @property
    def modules(self) -> frozenset[str]:
        """Return the names of the modules, those that failed to load included."""
        names = {tool.module for tool in self.tools.values()}
        return frozenset(names | self._instructions.keys() | self.failures.keys())

    def list_missing(self, scope: "Scope") -> Mapping[str, str]:
        """Return the tools that are off."""
        return self.off

    def describe(self, scope: "Scope") -> Mapping[str, str]:
        """Return the modules' `INSTRUCTIONS`."""
        return self._instructions


def _sort_by_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    return {entry.name: entry for entry in sorted(tools, key=lambda tool: tool.name)}


def discover(modules_path: Path | None = None, settings: Settings | None = None) -> ModuleTools:
    """Load all modules, and return the provider of their tools and `INSTRUCTIONS`.

    Raises `ConfigurationError` for a wrong value among the modules' settings.
    """
    return ModuleTools(find=partial(find_modules, modules_path, settings))


def find_modules(modules_path: Path | None = None, settings: Settings | None = None) -> FoundModules:
    """Load every module of the three sources; a module whose name is already in use fails."""
    candidates = [*_list_folder(MODULES_FOLDER, "built in")]
    if modules_path is not None:
        candidates += _list_folder(modules_path, str(modules_path))
    for point in list_entry_points():
        package = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        candidates.append(_Candidate(point.name, package, partial(_import_entry_point, point)))
    sources: dict[str, str] = {}
    loaded: list[Module] = []
    failed: list[ModuleFailure] = []
    for candidate in candidates:
        try:
            name = candidate.name
            first_source = sources.get(candidate.name)
            if not NAME.fullmatch(name):
                raise ValueError(
                    "a module's name has letters, digits and _, begins with a letter, and has a single _ between "
                    f"others; {name!r} does not"
                )
            if name in RESERVED_NAMES:
                raise ValueError(f"the program itself uses the name {name}; rename the module")
            if first_source is not None:
                raise ValueError(f"there is already a module {name} ({first_source}); rename one of them")
            sources[candidate.name] = candidate.source
            loaded.append(_load(candidate))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # reported with its module
            # A module may raise anything while it is imported; the others must still load.
            failed.append(ModuleFailure(candidate.name, candidate.source, error))
    settings = settings or Settings()
    for place, module in enumerate(loaded):
        reasons = {tool.name: tool.needs(settings) for tool in module.tools if tool.needs is not None}
        loaded[place] = replace(module, off={name: reason for name, reason in reasons.items() if reason is not None})
    return FoundModules(tuple(loaded), tuple(failed))


def refuse_unfit(tool: Tool) -> None:
    """Raise `ValueError` for a tool whose definition model providers reject: it would make every request fail."""
    if not WIRE_NAME.fullmatch(tool.wire_name):
        raise ValueError(f"{tool.wire_name}: a tool's name with its module has at most 64 letters, digits, _ and -")
    if not tool.description:
        raise ValueError(f"{tool.name}: the docstring tells the model what the tool is for, and there is none")
    untyped = [name for name, parameter in tool.parameters.items() if parameter.annotation is parameter.empty]
    if untyped:
        raise ValueError(f"{tool.name}: {', '.join(untyped)} has no type")
    # Build the schema now, so that an unsupported type is found at startup and not during a turn.
    _ = tool.schema


def _list_folder(folder: Path, source: str) -> Iterator[_Candidate]:
    for init in sorted(folder.glob("*/__init__.py")):
        yield _Candidate(init.parent.name, source, partial(_import_folder, init))


def _load(candidate: _Candidate) -> Module:
    module = candidate.load()
    # Only tools defined in this module: it may import tools of others without offering them.
    own = [var for var in vars(module).values() if isinstance(var, Tool) and var.run.__module__ == module.__name__]
    # A tool that is already named by its module keeps the schema that it has built before.
    tools = tuple(tool if tool.module == candidate.name else replace(tool, module=candidate.name) for tool in own)
    for tool in tools:
        refuse_unfit(tool)
    hooks = [
        var.of_module(candidate.name) for var in vars(module).values() if isinstance(var, ModuleRoute | ModuleTick)
    ]
    return Module(
        candidate.name,
        candidate.source,
        tools,
        instructions=str(getattr(module, "INSTRUCTIONS", "")).strip(),
        routes=tuple(hook.of_module(candidate.name) for hook in hooks if isinstance(hook, ModuleRoute)),
        ticks=tuple(hook.of_module(candidate.name) for hook in hooks if isinstance(hook, ModuleTick)),
    )


def _import_folder(init: Path) -> ModuleType:
    """Import a folder in any location as `modules.<name>`; its files can be imported as `modules.<name>.<file>`."""
    name = f"{MODULES_FOLDER.name}.{init.parent.name}"
    package = sys.modules.get(name)
    if package is not None and package.__file__ == str(init):
        return package
    if init.parent.parent == MODULES_FOLDER:
        return importlib.import_module(name)
    spec = spec_from_file_location(name, init, submodule_search_locations=[str(init.parent)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{init} cannot be imported")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_entry_point(point: EntryPoint) -> ModuleType:
    if point.attr:
        raise ValueError(f"the entry point names {point.value}; it must name a Python module, without a colon")
    return importlib.import_module(point.module)
