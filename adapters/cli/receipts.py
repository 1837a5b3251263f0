"""`parley verify-receipt`: whether a receipt of an erasure is genuine."""

import json

import typer

from adapters.cli.console import say
from adapters.cli.opening import read_settings
from shared.errors import Refusal
from shared.receipts import verify_receipt
from shared.settings import Secrets, load_secret_keys

app = typer.Typer()


@app.command("verify-receipt")
def verify(
    receipt: str = typer.Argument(metavar="RECEIPT", help="The line that `parley user erase` has printed."),
) -> None:
    """Check the signature of an erasure's receipt and print what it says."""
    settings = read_settings(quiet=True)
    if settings.secret_key is None and not (settings.parley_home / "secret_key").exists():
        # Made here, it would have signed nothing, and a backup could not be restored into this folder any more.
        raise Refusal(f"Set SECRET_KEY to that of the installation that has erased: {settings.parley_home} has none.")
    content = verify_receipt(Secrets("", load_secret_keys(settings)), receipt)
    say("genuine: " + json.dumps(content))
