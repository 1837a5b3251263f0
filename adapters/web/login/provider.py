"""A provider of OpenID Connect: where it sends people, and whom its answer names; by authlib, through our client."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from adapters.web.texts import say
from agent.app import App
from shared.errors import Refusal, ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.log import get_logger
from shared.messages import Sender
from shared.text import clean, cut

PLATFORM = "oidc"
CALLBACK = "/login/oidc/callback"
SCOPE = "openid profile email"
DISCOVERY = "/.well-known/openid-configuration"
# Whoever knows the public key, or nothing, could sign with any other.
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
KEY_TYPES = frozenset({"RSA", "EC", "OKP"})
LEEWAY_SECONDS, MAX_SUBJECT_CHARS = 60, 255
SECONDS, MAX_BYTES = 15.0, 1024 * 1024

log = get_logger()


class NotSignedIn(Refusal):
    """The sign-in was not accepted: it was not begun in this browser, is too old, or was used before; try again."""

    code = "not_signed_in"


class NotAdmitted(Refusal):
    """Your account is not one of those that may sign in here; an admin of this Parley can tell why."""

    code = "not_admitted"


class Attempt(Struct, frozen=True):
    """One sign-in: what the browser was given, and the provider's answer has to fit."""

    state: str
    nonce: str
    verifier: str


class Provider:
    """The provider of the settings, with what it says of itself."""

    def __init__(self, app: App, metadata: Mapping[str, Any], redirect_uri: str) -> None:
        settings = app.settings
        secret = settings.oidc_client_secret
        self._settings, self._metadata = settings, metadata
        self._http = TrustedClient(app.files.http, str(settings.oidc_issuer))
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        basic = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        self._client_options: dict[str, Any] = {
            "client_id": settings.oidc_client_id,
            "client_secret": None if secret is None else secret.get_secret_value(),
            "token_endpoint_auth_method": "none" if secret is None else basic,
            "scope": SCOPE,
            "redirect_uri": redirect_uri,
            "code_challenge_method": "S256",
            "transport": self._http,
        }

    @classmethod
    async def read(cls, app: App, redirect_uri: str) -> "Provider":
        """Ask the provider how it works; raises `Unavailable` when it does not say."""
        issuer = str(app.settings.oidc_issuer)
        metadata = await TrustedClient(app.files.http, issuer).read_json(issuer.rstrip("/") + DISCOVERY)
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        addresses = [*(str(metadata.get(name)) for name in names), str(metadata.get("userinfo_endpoint", issuer))]
        # Who listens on the way could answer for it: of the keys, too.
        schemes = {"https", urlsplit(issuer).scheme}
        if metadata.get("issuer") != issuer or any(urlsplit(text).scheme not in schemes for text in addresses):
            log.warning("oidc_misconfigured", issuer=str(metadata.get("issuer"))[:200])
            raise Unavailable(say("login.other_provider"))
        return cls(app, metadata, redirect_uri)

    def to_address(self, attempt: Attempt) -> str:
        """Return where a browser goes to sign in."""
        client = AsyncOAuth2Client(**self._client_options)
        address, _ = client.create_authorization_url(
            self._metadata["authorization_endpoint"],
            state=attempt.state,
            code_verifier=attempt.verifier,
            nonce=attempt.nonce,
        )
        return str(address)

    def to_exit(self, page: str) -> str | None:
        """Return where a browser signs out, to come back to the page then; None if the provider has no such place."""
        address = str(self._metadata.get("end_session_endpoint", ""))
        if urlsplit(address).scheme not in {"https", urlsplit(str(self._settings.oidc_issuer)).scheme}:
            return None
        query = urlencode({"client_id": self._settings.oidc_client_id, "post_logout_redirect_uri": f"{page}/"})
        return f"{address}{'&' if '?' in address else '?'}{query}"

    async def find_account(self, query: Mapping[str, str], attempt: Attempt) -> Sender:
        """Return the account that the provider's answer names; raises `NotSignedIn` or `NotAdmitted`."""
        if (
            query.get("state") != attempt.state
            or query.get("iss", self._settings.oidc_issuer) != self._settings.oidc_issuer
        ):
            raise NotSignedIn
        if "code" not in query:
            log.warning("oidc_refused", cause=query.get("error", "")[:60])
            raise NotSignedIn
        try:
            async with AsyncOAuth2Client(**self._client_options) as client:
                token = await client.fetch_token(
                    self._metadata["token_endpoint"], code=query["code"], code_verifier=attempt.verifier
                )
            claims = await self._read_claims(token, attempt.nonce)
            claims = await self._complete(claims, str(token["access_token"]))
        except (OAuthError, JoseError, AttributeError, KeyError, TypeError, ValueError, httpx2.HTTPError) as error:
            log.warning("oidc_refused", cause=type(error).__name__)
            raise NotSignedIn from None
        return self._admit(claims)

    async def _read_claims(self, token: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        issuer, client_id = self._settings.oidc_issuer, self._settings.oidc_client_id
        keys = (await self._http.read_json(str(self._metadata["jwks_uri"])))["keys"]
        usable = [key for key in keys if key.get("kty") in KEY_TYPES and key.get("use", "sig") == "sig"]
        supported = ALGORITHMS.intersection(self._metadata.get("id_token_signing_alg_values_supported", ["RS256"]))
        decoded = jwt.decode(token["id_token"], KeySet.import_key_set({"keys": usable}), algorithms=sorted(supported))
        claims: dict[str, Any] = CodeIDToken(
            decoded.claims,
            decoded.header,
            options={
                "iss": {"essential": True, "value": issuer},
                "aud": {"essential": True, "value": client_id},
                "sub": {"essential": True},
                "exp": {"essential": True},
                "nonce": {"essential": True, "value": nonce},
            },
            params={"nonce": nonce, "client_id": client_id, "access_token": token.get("access_token")},
        )
        claims.validate(leeway=LEEWAY_SECONDS)  # type: ignore[attr-defined]  # authlib has no types
        return claims

    async def _complete(self, claims: Mapping[str, Any], access_token: str) -> Mapping[str, Any]:
        """Return the claims with those that the provider tells at its other address alone."""
        wanted = {"name", *(["email"] if self._settings.oidc_email_domains else ())}
        wanted |= {"groups"} if self._settings.oidc_groups else set()
        address = self._metadata.get("userinfo_endpoint")
        if address is None or wanted <= claims.keys():
            return claims
        told = await self._http.read_json(str(address), {"Authorization": f"Bearer {access_token}"})
        # Another person's would be somebody else's address and groups.
        if told.get("sub") != claims["sub"]:
            raise NotSignedIn
        return told | dict(claims)

    def _admit(self, claims: Mapping[str, Any]) -> Sender:
        settings, subject = self._settings, claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARS or clean(subject) != subject:
            raise NotSignedIn
        email, claim = str(claims.get("email", "")), claims.get("groups", [])
        groups = {group for group in claim if isinstance(group, str)} if isinstance(claim, list) else set()
        # An address that nobody has verified may be anybody's.
        domain = email.rpartition("@")[2].lower() if claims.get("email_verified") is True else ""
        domains = {name.lower() for name in settings.oidc_email_domains}
        is_of_domain = not domains or domain in domains
        is_of_group = not settings.oidc_groups or not groups.isdisjoint(settings.oidc_groups)
        if not (is_of_domain and is_of_group):
            raise NotAdmitted
        name = next((claims[key] for key in ("name", "preferred_username", "email") if claims.get(key)), "")
        # A person is known by provider and subject: an address may pass to somebody else.
        return Sender(PLATFORM, f"{settings.oidc_issuer}#{subject}", cut(clean(str(name)), 100) or None)


class TrustedClient(httpx2.AsyncBaseTransport):
    """Sends authlib's requests through our client: what the issuer's host is, its setting says; others are guarded."""

    def __init__(self, http: GuardedClient, issuer: str) -> None:
        self._http, self._origin = http, urlsplit(issuer)[:2]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, without following redirects."""
        url = str(request.url)
        headers = {name: value for name, value in request.headers.items() if name not in {"host", "content-length"}}
        response = await self._http.request(
            request.method,
            url,
            headers=headers,
            content=await request.aread(),
            trusted=urlsplit(url)[:2] == self._origin,
            follow_redirects=False,
            timeout_seconds=SECONDS,
            max_bytes=MAX_BYTES,
        )
        kind = response.headers.get("content-type", "application/json")
        return httpx2.Response(response.status, headers={"content-type": kind}, content=response.body, request=request)

    async def read_json(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return a document of the provider; raises `Unavailable` when there is none."""
        try:
            response = await self.handle_async_request(httpx2.Request("GET", url, headers=headers))
            document = response.json() if response.status_code == 200 else None
        except ToolError as error:
            raise Unavailable(str(error)) from None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Unavailable(say("login.provider_fails"))
        return document
