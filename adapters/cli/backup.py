"""`parley backup` and `parley restore`: a whole installation in one archive."""

from pathlib import Path

import typer

app = typer.Typer()

VERIFY = "verify"


@app.command("backup")
def backup(
    words: list[str] = typer.Argument(metavar="[verify] FILE", help="The archive to write, or to verify."),
    live: bool = typer.Option(False, "--live", help="Although others use the database: the state of this moment."),
) -> None:
    """Write database, files and secrets into one archive, or `verify` one by restoring it into a temporary folder.

    The archive holds the installation's secrets: keep it as safe as those.
    """
    # Half a second of imports, which the help does without.
    from adapters.cli import archiving

    if len(words) == 2 and words[0] == VERIFY and not live:
        archiving.verify(Path(words[1]))
    elif len(words) == 1 and words[0] != VERIFY:
        archiving.write(Path(words[0]), is_live=live)
    else:
        raise typer.BadParameter("say `parley backup FILE` or `parley backup verify FILE`.")


@app.command("restore")
def restore(
    file: Path = typer.Argument(exists=True, dir_okay=False, help="What `parley backup` or `parley dump` has written."),
    yes: bool = typer.Option(False, "--yes", help="Of a dump: replace what is in the database now."),
) -> None:
    """Restore a backup into a new PARLEY_HOME, and a new database where DATABASE_URL names one; or a dump in place."""
    from adapters.cli import archiving  # as above

    archiving.restore(file, replaces=yes)
