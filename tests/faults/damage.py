"""Ways that files are damaged on disks and on the way to them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOW = ("truncated", "emptied", "missing", "a byte flipped at its beginning", "in its middle", "at its end")


@contextmanager
def damaged(file: Path, how: str) -> Iterator[None]:
    whole = file.read_bytes()
    file.unlink()
    if how == "truncated":
        file.write_bytes(whole[: len(whole) // 2])
    elif how == "emptied":
        file.write_bytes(b"")
    elif how != "missing":
        places = {"beginning": 0, "middle": len(whole) // 2, "end": len(whole) - 1}
        file.write_bytes(flipped(whole, places[how.rpartition(" ")[2]]))
    yield
    file.write_bytes(whole)


def flipped(content: bytes, at: int) -> bytes:
    """Flip the lowest bit of one byte: what stays text, and is the hardest to see."""
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
