"""A Redis server: one address for executors and for the driver, and a password that is written nowhere."""

import os
import re
from dataclasses import dataclass, field

from dcrec_spark.errors import ConfigError, require_extra
from dcrec_spark.publish.password import password_in

require_extra("redis")

import redis
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

URL = re.compile(r"rediss?://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[0-9]{1,4})?")
# That of redis-cli.
PASSWORD_VARIABLE = "REDISCLI_AUTH"
CONNECT_SECONDS = 15.0
# Tries of one command, up to 2 s apart: a server that restarts is back by then, or is named.
_TRIES = 15
_TRANSIENT = (redis.ConnectionError, redis.TimeoutError, redis.BusyLoadingError)


@dataclass(frozen=True)
class RedisServer:
    """Where the server is, and who asks."""

    url: str
    user: str | None
    password: str | None = field(repr=False)

    @classmethod
    def open(cls, url: str, user: str | None, password_file: str | None, setting: str) -> "RedisServer":
        """Read the password from its file, or from the environment.

        Parameters
        ----------
        url : str
            ``redis://host:port/number``, or ``rediss://`` for TLS.
        user : str, optional
            None: Redis' default user.
        password_file : str, optional
            Its first line is the password. None: the environment variable REDISCLI_AUTH; without that, none is given.
        setting : str
            Section of the settings, for errors.

        Raises
        ------
        ConfigError
            The url is of another form, or the file cannot be read. Neither is repeated: they may hold a secret.
        """
        if URL.fullmatch(url) is None:
            raise ConfigError(
                f"setting {setting}.url: expected redis://host:port/number, or rediss:// for TLS, without user and "
                "password"
            )
        password = os.environ.get(PASSWORD_VARIABLE) if password_file is None else password_in(password_file, setting)
        return cls(url, user, password)

    def connect(self) -> "redis.Redis":
        """Make a client; it connects when it is first used, and tries again where a server restarts."""
        retry = Retry(ExponentialBackoff(cap=2.0, base=0.1), _TRIES, supported_errors=_TRANSIENT)
        return redis.Redis.from_url(
            self.url,
            username=self.user,
            password=self.password,
            decode_responses=True,
            socket_connect_timeout=CONNECT_SECONDS,
            retry=retry,
            retry_on_error=list(_TRANSIENT),
        )
