"""A provider of OpenID Connect for one client; it can be told to lie in what it signs."""

import base64
import hashlib
import json
import time
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tests.standins.stand_in import StandIn

CLIENT_ID, CLIENT_SECRET = "parley-client", "a-secret-that-is-long-enough-for-a-key"
# Made once: it takes a while.
KEY = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"}, private=True)
ANN = {
    "sub": "248289761001",
    "name": "Ann Lee",
    "email": "ann@example.org",
    "email_verified": True,
    "groups": ["staff"],
}


@dataclass
class Grant:
    """What a code was given out for."""

    nonce: str
    challenge: str
    redirect_uri: str


class OidcProvider(StandIn):
    """Signs in whoever comes as `person`; `lies` replace claims, and `signs` says how the token is signed."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(web.Server(self._serve), port)
        self.person: dict[str, Any] = dict(ANN)
        self.lies: dict[str, Any] = {}
        self.signs = "RS256"
        # What it tells beside the token; None: it has no address for that.
        self.userinfo: dict[str, Any] | None = None
        # What it says of itself beside, or instead.
        self.metadata: dict[str, Any] = {}
        self.grants: dict[str, Grant] = {}
        self.tokens = 0

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/.well-known/openid-configuration":
                more = {} if self.userinfo is None else {"userinfo_endpoint": f"{self.base}/userinfo"}
                return web.json_response(
                    more
                    | {
                        "issuer": self.base,
                        "authorization_endpoint": f"{self.base}/authorize",
                        "token_endpoint": f"{self.base}/token",
                        "jwks_uri": f"{self.base}/jwks",
                        "end_session_endpoint": f"{self.base}/leave?from=here",
                        "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"],
                    }
                    | self.metadata
                )
            case "/jwks":
                return web.json_response({"keys": [KEY.as_dict(private=False), {"kty": "unknown"}]})
            case "/userinfo":
                is_known = request.headers.get("Authorization") == "Bearer unused"
                return web.json_response(self.userinfo) if is_known else web.Response(status=401)
            case "/authorize":
                return self._authorize(request)
            case "/token":
                return await self._exchange(request)
        return web.Response(status=404)

    def _authorize(self, request: web.BaseRequest) -> web.Response:
        query = request.query
        if (
            query["client_id"] != CLIENT_ID
            or query["code_challenge_method"] != "S256"
            or "openid" not in query["scope"]
        ):
            return web.Response(status=400)
        code = token_urlsafe(8)
        self.grants[code] = Grant(query["nonce"], query["code_challenge"], query["redirect_uri"])
        back = urlencode({"code": code, "state": query["state"]})
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{back}"})

    async def _exchange(self, request: web.BaseRequest) -> web.Response:
        form = await request.post()
        grant = self.grants.pop(str(form.get("code")), None)
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            grant is None
            or request.headers.get("Authorization") != expected
            or (grant.challenge, grant.redirect_uri) != (challenge, form.get("redirect_uri"))
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.tokens += 1
        now = int(time.time())
        claims = {"iss": self.base, "aud": CLIENT_ID, "exp": now + 300, "iat": now, "nonce": grant.nonce}
        claims = {name: value for name, value in (claims | self.person | self.lies).items() if value is not None}
        token = {"access_token": "unused", "token_type": "Bearer", "id_token": self._sign(claims)}
        return web.json_response(token)

    def _sign(self, claims: dict[str, Any]) -> str:
        match self.signs:
            case "none":
                parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
                return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
            case "HS256":
                return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET))
            case "public key":
                public = OctKey.import_key(KEY.as_pem(private=False))
                return jwt.encode({"alg": "HS256", "kid": "first"}, claims, public)
            case "another key":
                other = RSAKey.generate_key(2048, {"kid": "first"}, private=True)
                return jwt.encode({"alg": "RS256", "kid": "first"}, claims, other)
        return jwt.encode({"alg": "RS256", "kid": "first"}, claims, KEY)
