"""`parley mcp`: our modules for programs that speak the Model Context Protocol."""

import asyncio
import signal

import typer

from adapters.cli.console import complain
from adapters.cli.opening import find_database, kept_up, prepare, read_settings

app = typer.Typer()


@app.command("mcp")
def serve_mcp(
    modules: list[str] = typer.Argument(
        None, metavar="[MODULE]…", help="Only these modules; of a single one the tools are listed without its name."
    ),
    http: bool = typer.Option(
        False, "--http", help="Serve streamable HTTP at HOST instead of standard input and output."
    ),
    port: int = typer.Option(8090, min=0, max=65535, help="With --http: the port."),
) -> None:
    """Serve the modules as an MCP server, until the other side closes the pipes, or a signal."""
    settings = read_settings(quiet=True)

    async def work() -> None:
        from adapters.cli.compose import open_app
        from adapters.cli.owner import resolve_terminal_user
        from adapters.cli.watchdog import watched
        from adapters.mcp.server import ModuleServer, serve_http, serve_stdio

        working = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGINT) if http else (signal.SIGTERM,):
            asyncio.get_running_loop().add_signal_handler(number, lambda: working and working.cancel())
        address = find_database(settings)
        async with kept_up(settings, address), open_app(settings, await prepare(settings, address)) as running_app:
            with watched():
                if http:
                    await serve_http(
                        running_app,
                        ModuleServer(running_app, modules or ()),
                        port,
                        on_start=lambda url: complain(f"serving {url}"),
                    )
                else:
                    await serve_stdio(
                        ModuleServer(running_app, modules or (), await resolve_terminal_user(running_app))
                    )

    try:
        asyncio.run(work())
    except asyncio.CancelledError:
        if http:
            # A server is ended by a signal: this is no failure.
            return
        raise typer.Exit(128 + signal.SIGTERM) from None
