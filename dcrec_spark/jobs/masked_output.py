"""Standard output and standard error without the secrets that are known."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO

from dcrec_spark.config import mask_known


class MaskedStream:
    """A text stream whose known secrets are masked as they are written; in all else the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, masked; as many characters as it had count as written."""
        self._stream.write(mask_known(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Answer as the stream does."""
        return getattr(self._stream, name)


@contextmanager
def masked_output() -> Iterator[None]:
    """Mask what this process prints inside: logs, warnings, summaries, stack traces."""
    out: Any = MaskedStream(sys.stdout)
    err: Any = MaskedStream(sys.stderr)
    with redirect_stdout(out), redirect_stderr(err):
        yield
