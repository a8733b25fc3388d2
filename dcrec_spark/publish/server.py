"""A PostgreSQL server: one address for executors (JDBC) and for the driver, and a password that is written nowhere."""

import os
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from dcrec_spark.errors import ConfigError, require_extra
from dcrec_spark.publish.warehouse import password_in

require_extra("warehouse")

import psycopg

URL = re.compile(
    r"jdbc:postgresql://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[A-Za-z0-9_.-]+)(?:\?(?P<options>.*))?"
)
# What the driver's library and the executors' both know, by the same name.
OPTIONS = frozenset({"sslmode", "sslrootcert"})
PASSWORD_VARIABLE = "PGPASSWORD"
CONNECT_SECONDS = 15


@dataclass(frozen=True)
class Server:
    """Where the database is, and who asks."""

    url: str
    user: str | None
    password: str | None = field(repr=False)

    @classmethod
    def open(cls, url: str, user: str | None, password_file: str | None, setting: str) -> "Server":
        """Read the password from its file, or from the environment.

        url : ``jdbc:postgresql://host:port/database``, and sslmode and sslrootcert if need be.
        user : none: that of this process.
        password_file : its first line is the password. None: the environment variable PGPASSWORD. Without that, none is
        given.
        setting : section of the settings, for errors.
        Raises ConfigError: the url is of another form, or the file cannot be read. Neither is repeated: they may hold a
        secret.
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
        """Connect from the driver. Each statement is a transaction unless one is begun.

        Raises ConfigError: the server refuses, or is not there.
        """
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
            raise ConfigError(
                f"setting {setting} is {self.url!r}: {self.without_secret(' '.join(str(error).split()))}"
            ) from error

    def jdbc(self) -> dict[str, str]:
        """Options of Spark's JDBC source. Spark masks the password wherever it shows options."""
        given = {"user": self.user, "password": self.password}
        options = {name: value for name, value in given.items() if value is not None}
        return {"url": self.url, "driver": "org.postgresql.Driver", **options}

    def without_secret(self, text: str) -> str:
        """Mask the password in a text."""
        return text.replace(self.password, "***") if self.password else text
