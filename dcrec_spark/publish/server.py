"""A PostgreSQL server, and a publisher's connection to it that outlives a restart, with the locks held on it.

One address serves executors (JDBC) and the driver. The password is written nowhere. A server that goes away in the
middle of a step and is back in time costs that step only: it is made again from its beginning, on a new connection,
which holds again what the broken one held.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar
from urllib.parse import parse_qsl

from dcrec_spark.errors import ConfigError, DcrecError, interruption, require_extra
from dcrec_spark.publish.warehouse import first_line, password_in

require_extra("warehouse")

import psycopg

URL = re.compile(
    r"jdbc:postgresql://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?/[A-Za-z0-9_.-]+(?:\?(?P<options>.*))?"
)
# What the driver's library and the executors' both know, by the same name.
OPTIONS = frozenset({"sslmode", "sslrootcert"})
PASSWORD_VARIABLE = "PGPASSWORD"
CONNECT_SECONDS = 15
PAUSE_SECONDS = 0.2
_PUBLISH = "publish"
_Made = TypeVar("_Made")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """Where the database is, and who asks."""

    url: str
    user: str | None
    password: str | None = field(repr=False)

    @classmethod
    def open(cls, url: str, user: str | None, password_file: str | None, setting: str) -> "Server":
        """Read the password from the first line of its file, or else from the environment variable PGPASSWORD.

        user : None: that of this process. setting : section of the settings, for errors.
        Raises ConfigError: the url is of another form, or the file has no password. Neither is repeated: they may hold
        a secret.
        """
        match = URL.fullmatch(url)
        if match is None or not {name for name, _ in parse_qsl(match["options"] or "")} <= OPTIONS:
            raise ConfigError(
                f"setting {setting}.url: expected jdbc:postgresql://host:port/database without user and password, and "
                f"no options but {', '.join(sorted(OPTIONS))}"
            )
        password = os.environ.get(PASSWORD_VARIABLE) if password_file is None else password_in(password_file, setting)
        return cls(url, user, password)

    def connect(self, setting: str) -> psycopg.Connection:
        """Connect from the driver, each statement a transaction. Raises ConfigError: the server refuses, or is away."""
        try:
            return psycopg.connect(
                self.url.removeprefix("jdbc:"),
                user=self.user,
                password=self.password,
                connect_timeout=CONNECT_SECONDS,
                application_name="dcrec-spark",
                keepalives_idle=30,
                autocommit=True,
            )
        except psycopg.OperationalError as error:
            words = self.without_secret(". ".join(map(str.strip, str(error).splitlines())))
            raise ConfigError(f"setting {setting} is {self.url!r}: {words}") from error

    def jdbc(self) -> dict[str, str]:
        """Options of Spark's JDBC source. Spark masks the password wherever it shows options."""
        given = {"user": self.user, "password": self.password}
        options = {name: value for name, value in given.items() if value is not None}
        return {"url": self.url, "driver": "org.postgresql.Driver", **options}

    def without_secret(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text


class Session:
    """The connection of one publisher.

    namespace : the schema whose publishers keep each other out. setting : section of the settings, for errors.
    lock_seconds : how long to wait for a server that restarts.
    """

    def __init__(self, server: Server, namespace: str, setting: str, lock_seconds: float) -> None:
        self.server = server
        self.namespace = namespace
        self.setting = setting
        self.lock_seconds = lock_seconds
        self._open: psycopg.Connection | None = None
        # Tokens whose lock this connection holds: asked for again, it would be given.
        self._staging: set[str] = set()
        # How often the connection broke: whoever clears up afterwards may have made a new one.
        self._losses = 0

    def connection(self) -> psycopg.Connection:
        self._open = self._open or self.server.connect(f"{self.setting}.url")
        return self._open

    def close(self) -> None:
        """Close the connection, which releases all locks."""
        if self._open is not None:
            self._open.close()
        self._open = None
        self._staging.clear()

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection]:
        """Enter a transaction. Raises DcrecError: the connection broke in it."""
        connection = self.connection()
        try:
            with connection.transaction():
                yield connection
        except psycopg.OperationalError as error:
            if connection.broken:
                self._open = None
                self._losses += 1
                raise DcrecError(
                    f"{self.setting}: the connection to {self.server.url} broke: {first_line(error)}; run again"
                ) from error
            raise

    def through_restarts(self, step: Callable[[], _Made]) -> _Made:
        """Make a step, and make it again where the server went away meanwhile and came back in time."""
        deadline = time.monotonic() + self.lock_seconds
        while True:
            losses = self._losses
            try:
                return step()
            except Exception as error:
                if interruption(error) is not None or (losses == self._losses and self.answers()):
                    raise
                self._come_back(deadline, error)

    def answers(self) -> bool:
        """Whether the connection of before is still there. One to a server that has restarted is not."""
        try:
            if self._open is not None:
                self._open.execute("select 1")
        except psycopg.Error:
            return False
        return self._open is not None

    def _come_back(self, deadline: float, error: Exception) -> None:
        """Connect again, and hold again what is staged. Raises DcrecError: the server stays away."""
        _log.warning("%s: the connection broke; waiting for the server", self.setting)
        staging = set(self._staging)
        while True:
            self.close()
            with suppress(ConfigError, psycopg.OperationalError):  # it is not back yet
                connection = self.connection()
                for token in staging:
                    self.hold(connection, token)
                return
            self._staging |= staging
            if time.monotonic() > deadline:
                raise DcrecError(
                    f"{self.setting}: the connection to {self.server.url} broke, and the server was not back after "
                    f"{self.lock_seconds:g} s ({self.server.without_secret(first_line(error))}); run again"
                ) from error
            time.sleep(PAUSE_SECONDS)

    def keep_publishers_out(self, connection: psycopg.Connection) -> None:
        """Wait for the lock of publishers, which is held until the transaction ends."""
        self._lock(connection, "pg_advisory_xact_lock", _PUBLISH)

    def tries_to_keep_publishers_out(self, connection: psycopg.Connection) -> bool:
        """Take the lock of publishers until the transaction ends, unless somebody has it."""
        return self._lock(connection, "pg_try_advisory_xact_lock", _PUBLISH).fetchone() == (True,)

    def hold(self, connection: psycopg.Connection, token: str) -> None:
        """Hold a token for as long as the connection lives."""
        if token not in self._staging:
            self._lock(connection, "pg_advisory_lock", token)
            self._staging.add(token)

    def forget(self, token: str) -> bool:
        """Hold a token no longer than this connection lives. Return whether it is held here."""
        held = token in self._staging
        self._staging.discard(token)
        return held

    def release(self, connection: psycopg.Connection, token: str) -> None:
        self._lock(connection, "pg_advisory_unlock", token)

    def has_holder(self, connection: psycopg.Connection, token: str) -> bool:
        """Whether a publisher that lives holds this token, here or elsewhere."""
        if token in self._staging:
            return True
        return self._lock(connection, "pg_try_advisory_xact_lock", token).fetchone() != (True,)

    def _lock(self, connection: psycopg.Connection, function: LiteralString, what: str) -> psycopg.Cursor[Any]:
        key = f"dcrec-spark {self.namespace} {what}"
        return connection.execute(f"select {function}(hashtextextended(%s, 0))", [key])
