"""One connection to PostgreSQL that outlives a restart of the server, and the locks that a publisher holds on it.

A server that goes away in the middle of a step and is back in time costs that step only: it is made again from its
beginning, on a new connection, which holds again what the broken one held.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

from dcrec_spark.errors import ConfigError, DcrecError, interruption
from dcrec_spark.publish.server import Server
from dcrec_spark.publish.warehouse import first_line

PAUSE_SECONDS = 0.2
_PUBLISH = "publish"
_Made = TypeVar("_Made")
_log = logging.getLogger(__name__)


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
        """Return the open connection, or make one."""
        if self._open is None:
            self._open = self.server.connect(f"{self.setting}.url")
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

    # ---- restarts

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
                    f"{self.lock_seconds:g} s ({self.server.without_secret(first_line(error))}); run again, or raise "
                    f"{self.setting}.lock_seconds"
                ) from error
            time.sleep(PAUSE_SECONDS)

    # ---- locks

    def keep_publishers_out(self, connection: psycopg.Connection) -> None:
        """Wait for the lock of publishers, which is held until the transaction ends."""
        connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._key(_PUBLISH)])

    def hold(self, connection: psycopg.Connection, token: str) -> None:
        """Hold a token for as long as the connection lives."""
        if token not in self._staging:
            connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [self._key(token)])
            self._staging.add(token)

    def forget(self, token: str) -> bool:
        """Hold a token no longer than this connection lives. Return whether it is held here."""
        held = token in self._staging
        self._staging.discard(token)
        return held

    def release(self, connection: psycopg.Connection, token: str) -> None:
        """Release a token that this connection holds."""
        connection.execute("select pg_advisory_unlock(hashtextextended(%s, 0))", [self._key(token)])

    def has_holder(self, connection: psycopg.Connection, token: str) -> bool:
        """Whether a publisher that lives holds this token, here or elsewhere."""
        query = "select not pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
        return token in self._staging or connection.execute(query, [self._key(token)]).fetchone() == (True,)

    def _key(self, what: str) -> str:
        return f"dcrec-spark {self.namespace} {what}"
