"""The tables of Parley, and those that platforms and modules carry in their folders."""

from pathlib import Path

import adapters
from shared.db.database import Address
from shared.db.migrations import install_schemas, migrate
from shared.settings.module_folders import list_module_folders


def list_schemas(modules_path: Path | None) -> dict[str, Path]:
    """Return the folders `schema` of those adapters and modules that have tables of their own, by owner."""
    folders = [folder for path in adapters.__path__ for folder in sorted(Path(path).iterdir())]
    owners = {f"adapters/{folder.name}": folder for folder in folders}
    owners |= {f"modules/{name}": folder for name, folder in list_module_folders(modules_path).items()}
    return {owner: folder / "schema" for owner, folder in owners.items() if (folder / "schema").is_dir()}


async def update_tables(address: Address, modules_path: Path | None = None) -> list[str]:
    """Bring the tables of Parley, of the platforms and of the modules to what the code expects; return whose changed.

    Raises what `migrate` and `install_schemas` raise.
    """
    owners = ["parley"] if await migrate(address) else []
    return owners + await install_schemas(address, list_schemas(modules_path))
