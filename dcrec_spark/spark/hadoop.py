"""Hadoop's file systems through the driver's JVM, which has the cluster's configuration and credentials.

Each call is one call of Hadoop's, with its failures as OSError. Neither pyarrow nor Hadoop's older FileSystem can
replace a file in one step on HDFS. FileContext can. What publishing needs is made of these in ``storage/hadoop.py``.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dcrec_spark.errors import ConfigError
from dcrec_spark.spark.compat import is_classic

# How HDFS says that another writer has a file open, or had it open when it died.
_LEASED = ("AlreadyBeingCreatedException", "RecoveryInProgressException")
# How an object store says that an object is not the one that was to be replaced; the last two where it is none at all.
_CHANGED = ("RemoteFileChangedException", "status code 412", "Status Code: 412", "Status Code: 409")
_CONDITION = "fs.option.create.conditional.overwrite"


class ChangedError(OSError):
    """A file is another one than that which was to be replaced. Nothing has changed."""


class Entry(NamedTuple):
    """One name in a directory. ``modified`` in seconds since 1970."""

    name: str
    is_directory: bool
    bytes: int
    modified: float


class HadoopFileSystem:
    """The file system that ``uri``, which ``setting`` has, names. Paths are absolute, without scheme.

    Methods are those of :mod:`dcrec_spark.storage.protocol`, or what these are made of. They raise OSError.
    Raises ConfigError: the session has no JVM.
    """

    def __init__(self, spark: SparkSession | None, uri: str, setting: str) -> None:
        self.scheme = uri.partition(":")[0]
        if spark is None or not is_classic(spark):
            raise ConfigError(
                f"{setting} is {uri!r}: {self.scheme}: needs a driver with a JVM, not Spark Connect; "
                "run the job with spark-submit, or choose a path on a shared file system"
            )
        jvm: Any = spark._jvm
        self._jvm = jvm
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        address = jvm.org.apache.hadoop.fs.Path(uri).toUri()
        with _as_os_error(uri):
            self._files = jvm.org.apache.hadoop.fs.FileSystem.get(address, configuration)
        self._address, self._configuration = address, configuration
        self._root = f"{address.getScheme()}://{address.getAuthority() or ''}"

    def uri(self, path: str) -> str:
        return f"{self._root}{path}"

    def exists(self, path: str) -> bool:
        with _as_os_error(path):
            return bool(self._files.exists(self._path(path)))

    def list(self, path: str) -> list[Entry]:
        try:
            with _as_os_error(path):
                return sorted(
                    Entry(s.getPath().getName(), s.isDirectory(), s.getLen(), s.getModificationTime() / 1000)
                    for s in self._files.listStatus(self._path(path))
                )
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        with _as_os_error(path), closing(self._files.open(self._path(path))) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def sha256(self, path: str) -> str:
        """Hash a file inside the JVM, so that its bytes never pass to Python. Returns it in hex."""
        with _as_os_error(path), closing(self._files.open(self._path(path))) as stream:
            return str(self._jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))

    def create(self, path: str, content: bytes, overwrite: bool = False) -> None:
        """Write a file that does not exist yet. Of two who do so at once one fails, where the store sees to that."""
        with _as_os_error(path):
            _write(self._files.create(self._path(path), overwrite), content)

    def sync(self, path: str) -> None:
        """Do nothing: a closed file is on its datanodes, and an object that is there is safe."""

    def replaces_if_unchanged(self) -> bool:
        """Whether the store replaces an object under the condition that it is still the one of before."""
        place = self._jvm.org.apache.hadoop.fs.Path(self._address)
        with _as_os_error(str(self._address)):
            return bool(self._files.hasPathCapability(place, f"{_CONDITION}.etag"))

    def version(self, path: str) -> str | None:
        try:
            with _as_os_error(path):
                status = self._files.getFileStatus(self._path(path))
                return None if status.isDirectory() else str(status.getEtag())
        except FileNotFoundError:
            return None

    def write_over(self, path: str, content: bytes, version: str | None) -> None:
        builder = self._files.createFile(self._path(path)).overwrite(True)
        condition = (_CONDITION, "true") if version is None else (f"{_CONDITION}.etag", version)
        try:
            _write(builder.must(*condition).build(), content)
        except Py4JJavaError as error:
            message = str(error.java_exception)
            changed = "FileNotFoundException" in message if version else "FileAlreadyExistsException" in message
            kind = ChangedError if changed or any(sign in message for sign in _CHANGED) else OSError
            first = message.partition("\n")[0]
            raise kind(f"{path}: {first}") from error

    def append(self, path: str) -> Any | None:
        """Open a file, made if need be, for appending. HDFS allows one writer at a time: None while another has it."""
        try:
            self._files.createNewFile(self._path(path))
            return self._files.append(self._path(path))
        except Py4JJavaError as error:
            message = str(error.java_exception)
            if any(name in message for name in _LEASED):
                return None
            raise OSError(f"{path}: {message}") from error

    def make_directory(self, path: str) -> None:
        with _as_os_error(path):
            self._files.mkdirs(self._path(path))

    def move(self, source: str, target: str, overwrite: bool) -> None:
        """Rename in one step. Only ``overwrite`` allows an existing target."""
        options = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        chosen = self._jvm.java.lang.reflect.Array.newInstance(options.NONE.getClass(), 1)
        chosen[0] = options.OVERWRITE if overwrite else options.NONE
        with _as_os_error(target):
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._address, self._configuration)
            context.rename(self._path(source), self._path(target), chosen)

    def delete(self, path: str) -> None:
        with _as_os_error(path):
            self._files.delete(self._path(path), True)  # recursive

    def check_writable(self, path: str) -> None:
        """Ask the name node whether this user may create files in the nearest directory that exists."""
        while not self.exists(path):
            path = path.rpartition("/")[0] or "/"
        with _as_os_error(path):
            if not self._files.getFileStatus(self._path(path)).isDirectory():
                raise NotADirectoryError(f"{path} is a file")
            self._files.access(self._path(path), self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE_EXECUTE)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.uri(path or "/"))


def _write(stream: Any, content: bytes) -> None:
    """Write all, and close, which is when an object appears. What is not whole does not, where that can be had.

    HDFS has it on the disks of its datanodes then.
    """
    try:
        stream.write(content)
        if stream.hasCapability("hsync"):
            stream.hsync()
    except BaseException:
        if stream.hasCapability("fs.capability.outputstream.abortable"):
            stream.abort()
        raise
    stream.close()


def default_file_system(spark: SparkSession) -> str:
    """Return where Spark looks for a path without a scheme: ``file:///``, or ``hdfs://namenode``."""
    if not is_classic(spark):
        return "file:"  # the package writes whole addresses, and knows no other place there
    return str(spark._jsparkSession.sessionState().newHadoopConf().get("fs.defaultFS"))


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        message = str(error.java_exception).partition("\n")[0]
        kind = FileNotFoundError if "FileNotFoundException" in message else OSError
        raise kind(f"{path}: {message}") from error
