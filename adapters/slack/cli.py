"""`parley slack …`: the commands for the Slack app."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, say
from adapters.cli.opening import in_transaction

if TYPE_CHECKING:
    from shared.db.driver import Session
    from shared.settings import Settings

app = typer.Typer(help="The Slack app: manifest, rotate-keys.", no_args_is_help=True)


class Shape(StrEnum):
    """How the manifest is written."""

    YAML = "yaml"
    JSON = "json"
    LINK = "link"


@app.command("manifest")
def write_manifest(
    shape: Shape = typer.Option(Shape.YAML, "--as", help="A link opens Slack's page with everything filled in."),
    is_http: bool | None = typer.Option(
        None, "--http/--socket", help="How Slack reaches us; by HTTP when PUBLIC_URL is set and SLACK_APP_TOKEN is not."
    ),
    name: str = typer.Option("Parley", help="What the app is called in Slack."),
    has_panel: bool = typer.Option(
        False,
        "--keep-panel",
        help="For an app that keeps the assistant panel, which Slack refuses to new apps.",
    ),
) -> None:
    """Write the manifest that the Slack app is made from: api.slack.com/apps, Create New App, From a manifest."""
    import yaml

    from adapters.cli.opening import read_settings
    from adapters.slack.install.manifest import build_manifest, to_link
    from adapters.slack.settings import SlackSettings

    settings = read_settings(quiet=True)
    own = settings.of_module(SlackSettings, "slack")
    manifest = build_manifest(own, settings.public_url, name=name, is_http=is_http, has_panel=has_panel)
    if shape is Shape.LINK:
        say(to_link(manifest))
    elif shape is Shape.JSON:
        say(json.dumps(manifest, indent=2))
    else:
        say(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=1000).rstrip())


@app.command("rotate-keys")
def rotate_keys() -> None:
    """Encrypt the workspaces' tokens with the first key of SECRET_KEY; after that the old keys can go."""

    async def work(session: "Session", settings: "Settings") -> tuple[int, list[str]]:
        from adapters.slack.install.installations import Vault, rotate
        from shared.settings import load_secrets

        return await rotate(session, Vault(load_secrets(settings).secret_keys))

    count, lost = in_transaction(work)
    say(f"{count} tokens are encrypted with the newest key")
    if lost:
        complain(
            f"no key of SECRET_KEY opens the tokens of {', '.join(lost)}: put the lost key back and run this again, "
            "or install the app there again"
        )
        raise typer.Exit(1)
