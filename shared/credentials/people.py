"""The credentials of each person, by name; and those that a program gives for one message."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shared.credentials.vault import Undecryptable, Vault
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import Refusal, ToolError
from shared.messages import GivenCredentials
from shared.redaction import hide_credential
from shared.text import clean

statements = load_statements(__file__)

PURPOSE = b"parley credentials of people"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
MAX_CREDENTIALS = 50
# Replies are searched for the letters and digits of a credential; fewer of them are found in ordinary text.
LEAST_CHARS, MAX_CHARS = 8, 4000

STEP = 100


class CredentialMissing(ToolError):
    """There is no credential of this person for {name}. Tell them: {remedy} They must not write it into this chat."""

    code = "credential_missing"


REMEDY = "the command /credential set {name} asks for it privately."


class CredentialsOfUser:
    """The credentials of one person. `on_read` is told each value that is read, so that no reply contains it."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        user_id: int,
        *,
        message_credentials: GivenCredentials | None = None,
        on_read: Callable[[str], None] | None = None,
    ) -> None:
        self._database, self._vault, self._user_id = database, vault, user_id
        self._message_credentials, self._on_read = message_credentials or GivenCredentials(), on_read

    async def get(self, name: str) -> str:
        """Return the credential with this name; one that came with the message is preferred.

        Raises `CredentialMissing` if there is none, or `SECRET_KEY` has been replaced since it was kept.
        """
        owner, encrypted = self._message_credentials.owner, self._message_credentials.encrypted.get(check_name(name))
        if encrypted is None:
            parameters = {"user_id": self._user_id, "name": name}
            async with self._database.statement() as session:
                row = (await session.execute(statements.find_credential, parameters)).one_or_none()
            owner, encrypted = _owner(self._user_id, name), None if row is None else row.encrypted
        try:
            value = None if encrypted is None else self._vault.decrypt(owner, encrypted)
        except Undecryptable:
            value = None
        if value is None:
            raise CredentialMissing(name=name, remedy=REMEDY.format(name=name))
        hide_credential(value)
        if self._on_read is not None:
            self._on_read(value)
        return value

    async def keep(self, name: str, value: str) -> None:
        """Keep a credential, in place of the one with the same name; raises `Refusal` for what can't be kept."""
        credential = check_value(value)
        parameters = {"user_id": self._user_id, "name": check_name(name), "most": MAX_CREDENTIALS}
        encrypted = self._vault.encrypt(_owner(self._user_id, name), credential)
        async with self._database.statement() as session:
            row = (
                await session.execute(statements.store_credential, parameters | {"encrypted": encrypted})
            ).one_or_none()
        if row is None:
            raise Refusal(f"You have {MAX_CREDENTIALS} credentials here; /credential forget removes one.")

    async def list(self) -> Sequence[Any]:
        """Return the `name` and the `created_at` of each kept credential."""
        async with self._database.statement() as session:
            return (await session.execute(statements.list_credentials, {"user_id": self._user_id})).all()

    async def forget(self, name: str) -> bool:
        """Delete a kept credential; return whether there was one."""
        async with self._database.statement() as session:
            cursor = await session.execute(
                statements.forget_credential, {"user_id": self._user_id, "name": check_name(name)}
            )
            return bool(cursor.all())


class Credentials:
    """The credentials of all people."""

    def __init__(self, database: Database, secret_keys: Sequence[str]) -> None:
        self._database, self._vault = database, Vault(secret_keys, PURPOSE)

    def of_user(
        self,
        user_id: int,
        message_credentials: GivenCredentials | None = None,
        on_read: Callable[[str], None] | None = None,
    ) -> CredentialsOfUser:
        """Return one person's credentials; see `CredentialsOfUser`."""
        return CredentialsOfUser(
            self._database, self._vault, user_id, message_credentials=message_credentials, on_read=on_read
        )

    def encrypt_given(self, owner: str, values: Mapping[str, str]) -> GivenCredentials:
        """Return the credentials of one message, encrypted."""
        return GivenCredentials(owner, {name: self._vault.encrypt(owner, value) for name, value in values.items()})

    async def renew(self) -> int:
        """Encrypt with the first key what an older one has encrypted, and return how many; the older can go then."""
        after, renewed = 0, 0
        while self._vault.has_older_keys:
            async with self._database.statement() as session:
                page = {"after": after, "step": STEP}
                rows = (await session.execute(statements.list_credentials_after, page)).all()
            if not rows:
                break
            after = rows[-1].id
            for row in rows:
                if self._vault.is_current(row.encrypted):
                    continue
                owner = _owner(row.user_id, row.name)
                try:
                    encrypted = self._vault.encrypt(owner, self._vault.decrypt(owner, row.encrypted))
                except Undecryptable:
                    continue
                async with self._database.statement() as session:
                    parameters = {"id": row.id, "old": row.encrypted, "encrypted": encrypted}
                    await session.execute(statements.replace_credential, parameters)
                renewed += 1
        return renewed


def _owner(user_id: int, name: str) -> str:
    return f"user {user_id} {name}"


def check_name(name: str) -> str:
    """Return the name of a credential; raises `Refusal` for one that is none."""
    if NAME.fullmatch(name) is None:
        raise Refusal("A credential's name has at most 40 small letters, digits, - and _, and begins with a letter.")
    return name


def check_value(value: str) -> str:
    """Return a credential without the blanks around it; raises `Refusal` for one that can't be kept."""
    credential = clean(value).strip()
    if sum(char.isascii() and char.isalnum() for char in credential) < LEAST_CHARS or len(credential) > MAX_CHARS:
        raise Refusal(f"A credential has at least {LEAST_CHARS} letters and digits, and {MAX_CHARS:,} characters.")
    return credential
