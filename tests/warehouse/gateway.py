"""A gateway before a REST catalog of Iceberg's, which refuses whoever has no bearer token of its own giving.

It gives tokens at ``v1/oauth/tokens``, as the specification has it, for one client's id and secret, and for a token
that is about to expire. All else is forwarded.
"""

import json
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

TOKENS = "/v1/oauth/tokens"
SECRET = "client_credentials"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
JSON = {"Content-Type": "application/json"}
# Of one hop, not of the message; and what is asked for compressed would be measured anew.
_OF_A_CONNECTION = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "date", "server"}


class Gateway(ThreadingHTTPServer):
    """On loopback. ``seconds``: how long it says that a token is good. ``given``: token -> when it expires.

    It takes a token for three times as long: on a busy machine a client renews it late.
    """

    daemon_threads = True

    def __init__(self, target: int, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.seconds, self.secret = target, seconds, secrets.token_urlsafe(24)
        self.uri, self.credential = f"http://127.0.0.1:{self.server_port}", f"dcrec:{self.secret}"
        self.given: dict[str, float] = {}
        self.grants: list[str] = []
        self.refused: list[str] = []

    def properties(self) -> dict[str, str]:
        return {"credential": self.credential, "oauth2-server-uri": f"{self.uri}{TOKENS}"}

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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Gateway

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        authorization = self.headers.get("Authorization", "")
        if self.path == TOKENS:
            self._give_token(content, authorization)
        elif self.server.knows(authorization):
            self._forward(content)
        else:
            error = {"message": "no token that is good", "type": "NotAuthorizedException", "code": 401}
            self._refuse({"error": error})

    do_GET = do_HEAD = do_POST = do_DELETE = _answer

    def _give_token(self, content: bytes, authorization: str) -> None:
        token = self.server.token(
            {name: values[0] for name, values in parse_qs(content.decode()).items()}, authorization
        )
        if token is None:
            self._refuse({"error": "invalid_client", "error_description": "unknown client, or another secret"})
            return
        given = {
            "access_token": token, "token_type": "bearer", "expires_in": int(self.server.seconds),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }  # fmt: skip
        self._send(200, JSON, json.dumps(given).encode())

    def _refuse(self, error: Mapping[str, object]) -> None:
        self.server.refused.append(f"{self.command} {self.path}")
        self._send(401, JSON, json.dumps(error).encode())

    def _forward(self, content: bytes) -> None:
        connection = HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in _OF_A_CONNECTION}
        connection.request(self.command, self.path, content, kept)
        answer = connection.getresponse()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_A_CONNECTION}
        self._send(answer.status, headers, answer.read())
        connection.close()

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: what a test wants to know is in ``grants`` and ``refused``."""


@contextmanager
def running_gateway(target: int, seconds: float) -> Iterator[Gateway]:
    with Gateway(target, seconds) as gateway:
        threading.Thread(target=gateway.serve_forever, daemon=True).start()
        yield gateway
        gateway.shutdown()
