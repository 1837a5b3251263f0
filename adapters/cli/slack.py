"""`parley slack …`: what belongs to the Slack app."""

from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, say
from adapters.cli.opening import in_transaction

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from shared.settings import Settings

app = typer.Typer(help="The Slack app: rotate-keys.", no_args_is_help=True)


@app.command("rotate-keys")
def rotate_keys() -> None:
    """Encrypt the workspaces' tokens with the first key of SECRET_KEY; after that the old keys can go."""

    async def work(session: "AsyncSession", settings: "Settings") -> tuple[int, list[str]]:
        from adapters.slack.installs import rotate
        from adapters.slack.vault import Vault
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
