"""The pages of commands, metrics and permissions: all from what the program itself reads."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from typer.core import TyperGroup

from adapters.cli.clicks import Command as CliCommand
from adapters.cli.registry import COMMANDS, GROUPS, load
from adapters.folders import list_folders
from adapters.web.health import METRICS
from agent.commands.registry import all_commands
from agent.tools.modules import find_modules
from shared.messages import Permission
from shared.settings import Settings
from tests.reference.page import build_page, build_table

SUFFIXES = {
    CounterMetricFamily: ("counter", "_total"),
    GaugeMetricFamily: ("gauge", ""),
    HistogramMetricFamily: ("histogram", ""),
    SummaryMetricFamily: ("sum and count", ""),
}
INTRODUCTION = """Each command has `--help`. With `--json` the answer is a list, an object or `{"message": …}`,
of a failure `{"error": …, "exit_code": …}`. `psql`, `dump` and `restore` end as Postgres's programs do. Completion:
`parley completion bash > ~/.local/share/bash-completion/completions/parley`,
`parley completion zsh > ~/.zfunc/_parley` (with `fpath+=~/.zfunc` before `compinit`),
`parley completion fish > ~/.config/fish/completions/parley.fish`."""
EXIT_CODES = (
    ("0", "done"),
    (
        "1",
        "refused, no answer of a model, or something is not in order (`doctor`, `audit verify`, `tools`, `skill list`)",
    ),
    ("2", "wrong words, or wrong settings"),
    ("3", "not answered: a part can't be reached, or a message to `parley chat` through a pipe was refused"),
    ("4", "`parley apply --dry-run`: something would change"),
    ("130, 143", "ended by Ctrl+C, by SIGTERM"),
)
LEVELS = {
    Permission.GUEST: "whoever writes: `DEFAULT_GUEST_TOKEN_BUDGET`, and without a persona `DEFAULT_GUEST_MODULES`",
    Permission.USER: "who was promoted, or has a role with that permission",
    Permission.ADMIN: "no budget of their own; grants and refuses what others ask for",
    Permission.OWNER: "no budget of their own; who started an embedded Parley is one",
}


def build_commands() -> str:
    """Return the page of what is typed in a shell and in a chat."""
    parts = [_build_cli("The program", [load(name) for name in COMMANDS], "parley")]
    for name in [*GROUPS, *(name for name, folder in list_folders().items() if (folder / "cli.py").is_file())]:
        group = load(name)
        assert isinstance(group, TyperGroup)
        parts.append(_build_cli(f"parley {name}", list(group.commands.values()), f"parley {name}"))
    chat = [
        [f"`{all_command.usage}`", all_command.requires.label, all_command.only_on or "all", all_command.summary]
        for all_command in all_commands()
    ]
    parts.append("## In a chat\n\n" + build_table(("command", "needs", "platforms", "what it does"), chat))
    codes = build_table(("exit code", "meaning"), EXIT_CODES)
    return build_page("Commands", f"{INTRODUCTION}\n\n{codes}", parts)


def _build_cli(title: str, commands: list[CliCommand], prefix: str) -> str:
    rows = [
        (
            f"`{' '.join([prefix, *_list_words(command)])}`",
            (command.help or "").partition("\n\n")[0],
            "; ".join(_list_options(command)),
        )
        for command in commands
    ]
    return f"## {title}\n\n" + build_table(("command", "what it does", "options"), rows)


def _list_words(command: CliCommand) -> Iterator[str]:
    yield command.name or ""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = parameter.metavar or (parameter.name or "").upper()
            yield word if parameter.required or word.startswith("[") else f"[{word}]"


def _list_options(command: CliCommand) -> Iterator[str]:
    for parameter in command.params:
        is_shown = parameter.param_type_name == "option" and not getattr(parameter, "hidden", False)
        if is_shown and parameter.name != "is_json":
            yield f"`{parameter.opts[0]}` {getattr(parameter, 'help', None) or ''}".strip().rstrip(".")


def build_metrics() -> str:
    """Return the page of the metrics."""
    rows = [
        [f"`{name}{SUFFIXES[kind][1]}`", SUFFIXES[kind][0], ", ".join(f"`{label}`" for label in labels), meaning]
        for name, (kind, meaning, labels) in METRICS.items()
    ]
    introduction = (
        "They come from the tables, so that each web adapter says the same, also about workers elsewhere: ask one of "
        "them, or take `max`. Beside them stand those of the process (`process_…`). How to read them says "
        "[the page on operations](../operations.md#metrics-and-health)."
    )
    return build_page("Metrics", introduction, [build_table(("metric", "kind", "labels", "meaning"), rows)])


def build_permissions() -> str:
    """Return the page of what each permission adds."""
    levels = [[f"`{level.label}`", LEVELS[level]] for level in Permission]
    modules = find_modules(None, Settings())
    tools = sorted(
        (tool for module in modules.loaded for tool in module.tools), key=lambda tool: (tool.requires, tool.name)
    )
    tool_rows = [[f"`{tool.name}`", tool.requires.label, tool.description.partition("\n")[0]] for tool in tools]
    commands = [
        [f"`/{all_command.name}`", all_command.requires.label, all_command.summary]
        for all_command in all_commands()
        if all_command.requires
    ]
    introduction = (
        "Each level includes those above it in this table. `parley user promote`, "
        "[roles](../admin-sql.md#servers-and-channels) and [grants](../admin-sql.md#people) give them; "
        "a persona's `allowed_modules` can only take tools away."
    )
    return build_page(
        "Permissions",
        introduction,
        [
            build_table(("permission", "who has it"), levels),
            "## Tools\n\n" + build_table(("tool", "needs", "what it does"), tool_rows),
            "## Commands in a chat\n\nThose that are not named here need nothing.\n\n"
            + build_table(("command", "needs", "what it does"), commands),
        ],
    )
