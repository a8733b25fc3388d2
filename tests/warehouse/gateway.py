"""A gateway before a REST catalog, which gives tokens by Iceberg's specification and refuses whoever has none."""

import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.wrappers import Request, Response

from tests.warehouse.servers import serving

TOKENS = "/v1/oauth/tokens"
SECRET = "client_credentials"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class Gateway:
    """On loopback. ``seconds``: how long it says that a token is good. ``given``: token -> when it expires.

    It takes a token for three times as long: on a busy machine a client renews it late.
    """

    def __init__(self, catalog: str, seconds: float) -> None:
        self.seconds, self.secret = seconds, secrets.token_urlsafe(24)
        self.catalog = ProxyMiddleware(Response(status=404), {"/v1/": {"target": catalog}}, timeout=60)
        self.given: dict[str, float] = {}
        self.grants: list[str] = []
        self.refused: list[str] = []
        self.uri, self.credential = f"http://127.0.0.1:{serving(self).port}", f"dcrec:{self.secret}"
        self.properties = {"credential": self.credential, "oauth2-server-uri": f"{self.uri}{TOKENS}"}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        login = request.authorization
        has_token = login is not None and self.given.get(login.token or "", 0) > time.monotonic()
        answer: Any = self.catalog
        if request.path == TOKENS:
            is_known = self.knows(request, has_token)
            error: Any = {"error": "invalid_client", "error_description": "unknown client, or another secret"}
            answer = self.token(request.form["grant_type"]) if is_known else self.refusal(request, error)
        elif not has_token:
            error = {"message": "no token that is good", "type": "NotAuthorizedException", "code": 401}
            answer = self.refusal(request, {"error": error})
        return answer(environ, start_response)

    def knows(self, request: Request, has_token: bool) -> bool:
        form, login, client = request.form, request.authorization, ("dcrec", self.secret)
        if form["grant_type"] != EXCHANGE:
            return (form.get("client_id"), form.get("client_secret")) == client
        is_client = login is not None and (login.username, login.password) == client
        return form.get("subject_token") in self.given and (has_token or is_client)

    def token(self, grant: str) -> Response:
        token, kind = secrets.token_urlsafe(24), "urn:ietf:params:oauth:token-type:access_token"
        self.given[token] = time.monotonic() + 3 * self.seconds
        self.grants.append(grant)
        given = {"access_token": token, "token_type": "bearer", "issued_token_type": kind}
        return Response(json.dumps({**given, "expires_in": int(self.seconds)}), content_type="application/json")

    def refusal(self, request: Request, error: Mapping[str, object]) -> Response:
        request.get_data()  # a client that is not heard to its end finds the connection broken
        self.refused.append(f"{request.method} {request.path}")
        return Response(json.dumps(error), 401, content_type="application/json")
