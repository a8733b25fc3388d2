"""moto's S3 server, with puts under a condition that are one step, as those of S3 are.

    python -m tests.warehouse.s3_server PORT

moto looks at the condition first and puts the object then, each request in a thread: of two at once both may pass.
"""

import os
import sys
from collections.abc import Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

CONDITIONS = {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}


class OneConditionalPutAtATime(DomainDispatcherApplication):
    """moto, which meets one put under a condition after the other."""

    putting = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT" or not environ.keys() & CONDITIONS:
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]
        with self.putting:
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]


if __name__ == "__main__":
    os.environ["MOTO_PORT"] = sys.argv[1]
    application = OneConditionalPutAtATime(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=MotoRequestHandler)
