"""Calls shared by all stores behind Hadoop: names, listings, reading and deleting."""

from dcrec_spark.spark.hadoop import HadoopFileSystem
from dcrec_spark.storage.protocol import Entry


class HadoopStore:
    """The part of :class:`dcrec_spark.storage.protocol.Files` that HDFS and object stores answer alike."""

    _hadoop: HadoopFileSystem

    def uri(self, path: str) -> str:
        """Return the path as Spark takes it."""
        return self._hadoop.uri(path)

    def exists(self, path: str) -> bool:
        """Whether a file or a directory has this name; on an object store a directory is what has something in it."""
        return self._hadoop.exists(path or "/")

    def list(self, path: str) -> list[Entry]:
        """List the directory's entries by name; none when it does not exist."""
        try:
            return sorted(Entry(*status) for status in self._hadoop.children(path or "/"))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """Read the whole file."""
        return self._hadoop.read(path)

    def sha256(self, path: str) -> str:
        """Hash the file's bytes, in hex."""
        return self._hadoop.sha256(path)

    def delete(self, path: str) -> None:
        """Delete with all that is inside."""
        self._hadoop.delete(path)
