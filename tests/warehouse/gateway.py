"""A gateway before a REST catalog, which gives tokens by Iceberg's specification and refuses whoever has none."""

import json
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from tests.spark.standalone import free_port

TOKENS = "/v1/oauth/tokens"
SECRET = "client_credentials"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class Gateway:
    """On loopback. ``seconds``: how long it says that a token is good. ``given``: token -> when it expires.

    It takes a token for three times as long: on a busy machine a client renews it late.
    """

    def __init__(self, target: int, seconds: float) -> None:
        self.port, self.seconds, self.secret = free_port(), seconds, secrets.token_urlsafe(24)
        self.uri, self.credential = f"http://127.0.0.1:{self.port}", f"dcrec:{self.secret}"
        self.properties = {"credential": self.credential, "oauth2-server-uri": f"{self.uri}{TOKENS}"}
        catalog = {"/v1/": {"target": f"http://127.0.0.1:{target}"}}
        self.catalog = ProxyMiddleware(Response(status=404), catalog, timeout=60)
        self.given: dict[str, float] = {}
        self.grants: list[str] = []
        self.refused: list[str] = []

    def token(self, form: Mapping[str, str], authorization: str) -> str | None:
        kind = form.get("grant_type", "")
        if kind == EXCHANGE:
            basic = f"Basic {b64encode(self.credential.encode()).decode()}"
            known = form.get("subject_token") in self.given and (authorization == basic or self.knows(authorization))
        else:
            known = (kind, form.get("client_id"), form.get("client_secret")) == (SECRET, "dcrec", self.secret)
        if not known:
            return None
        token = secrets.token_urlsafe(24)
        self.given[token] = time.monotonic() + 3 * self.seconds
        self.grants.append(kind)
        return token

    def knows(self, authorization: str) -> bool:
        return self.given.get(authorization.removeprefix("Bearer "), 0) > time.monotonic()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        authorization = request.headers.get("Authorization", "")
        answer: Any = self.catalog
        if request.path == TOKENS:
            answer = self._give_token(request, authorization)
        elif not self.knows(authorization):
            error = {"message": "no token that is good", "type": "NotAuthorizedException", "code": 401}
            answer = self._refuse(request, {"error": error})
        return answer(environ, start_response)

    def _give_token(self, request: Request, authorization: str) -> Response:
        token = self.token(request.form, authorization)
        if token is None:
            error = {"error": "invalid_client", "error_description": "unknown client, or another secret"}
            return self._refuse(request, error)
        kind = "urn:ietf:params:oauth:token-type:access_token"
        given = {"access_token": token, "token_type": "bearer", "issued_token_type": kind}
        return Response(json.dumps({**given, "expires_in": int(self.seconds)}), content_type="application/json")

    def _refuse(self, request: Request, error: Mapping[str, object]) -> Response:
        request.get_data()  # a client that is not heard to its end finds the connection broken
        self.refused.append(f"{request.method} {request.path}")
        return Response(json.dumps(error), 401, content_type="application/json")


@contextmanager
def running_gateway(target: int, seconds: float) -> Iterator[Gateway]:
    gateway = Gateway(target, seconds)
    server = make_server("127.0.0.1", gateway.port, gateway, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield gateway
    server.shutdown()
