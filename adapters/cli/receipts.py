"""`parley verify-receipt`: whether a receipt of an erasure is genuine."""

import json

import typer

from adapters.cli.console import say
from adapters.cli.opening import read_settings
from shared.receipts import verify_receipt
from shared.settings import load_secrets

app = typer.Typer()


@app.command("verify-receipt")
def verify(
    receipt: str = typer.Argument(metavar="RECEIPT", help="The line that `parley user erase` has printed."),
) -> None:
    """Check the signature of an erasure's receipt and print what it says."""
    content = verify_receipt(load_secrets(read_settings(quiet=True)), receipt)
    say("genuine: " + json.dumps(content))
