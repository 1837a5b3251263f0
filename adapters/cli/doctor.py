"""`parley doctor`: checks everything that has to be in order, with a remedy for each failure."""

import asyncio
from dataclasses import asdict

import typer

from adapters.cli.console import keep_rows, progress, say
from adapters.cli.findings import Finding

app = typer.Typer()

COLOURS = {
    "ok": typer.colors.GREEN,
    "off": typer.colors.BRIGHT_BLACK,
    "warn": typer.colors.YELLOW,
    "fail": typer.colors.RED,
}


@app.command("doctor")
def examine(
    call: bool = typer.Option(
        False, "--call", help="Also ask each model and the embedder one tiny question, which costs tokens."
    ),
) -> None:
    """Check that everything is in order: each line says OK or what to do; exit code 1 when something fails."""
    # The checks import the whole program, which the help does without.
    from adapters.cli.check_all import examine_all

    findings: list[Finding] = []

    async def show() -> None:
        async for finding in examine_all(call=call):
            findings.append(finding)
            level = typer.style(f"{finding.level:4}", COLOURS[finding.level])
            say(f"  {finding.subject:9} {finding.text}", label=level)

    with progress("looking at everything"):
        asyncio.run(show())
    keep_rows([asdict(finding) for finding in findings])
    if any(finding.level == "fail" for finding in findings):
        raise typer.Exit(1)
