"""Where the content of files is: a folder or an S3 bucket."""

from typing import TYPE_CHECKING

from shared.files.stores.folder import FolderStore

if TYPE_CHECKING:
    from shared.files.stores.store import Store
    from shared.settings import Settings


def open_store(settings: "Settings") -> "Store":
    """Return the configured store without connecting to it, so that the program starts also when it is down."""
    if not settings.s3_endpoint:
        return FolderStore(settings.parley_home / "files")
    # Imported here: the client takes 0.2 s to import, and most installations use a folder.
    from shared.files.stores.s3 import S3Store

    return S3Store(settings)
