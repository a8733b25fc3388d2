"""Addresses of PostgreSQL servers and their passwords."""

from pathlib import Path

import pytest

from dcrec_spark.errors import ConfigError
from dcrec_spark.publish.server import Server


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/db",
        "jdbc:postgresql://bob:hunter2@host/db",
        "jdbc:postgresql://host/db?sslmode=require&user=bob&password=hunter2",
        "jdbc:mysql://host/hunter2",
    ],
)
def test_an_address_of_another_form_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(
        ConfigError, match=r"setting warehouses\.postgresql\.url: expected jdbc:postgresql://"
    ) as refusal:
        Server.open(url, None, None, "warehouses.postgresql")
    assert "hunter2" not in str(refusal.value)


def test_executors_and_driver_get_the_same_address_and_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("first line\nsecond\n")
    monkeypatch.setenv("PGPASSWORD", "from outside")
    url = "jdbc:postgresql://[::1]:5432/shop?sslmode=require"
    server = Server.open(url, "bob", str(file), "w")
    assert server.jdbc() == {"url": url, "user": "bob", "password": "first line", "driver": "org.postgresql.Driver"}
    assert "first line" not in repr(server)
    assert server.without_secret("it is first line.") == "it is ***."
    assert Server.open(url, None, None, "w").jdbc()["password"] == "from outside"
    monkeypatch.delenv("PGPASSWORD")
    assert Server.open(url, None, None, "w").jdbc().keys() == {"url", "driver"}


@pytest.mark.parametrize(("content", "message"), [(None, "cannot be read"), ("\nx", "the first line of .* is empty")])
def test_a_password_file_without_a_password_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=rf"setting w\.password_file: .*{message}"):
        Server.open("jdbc:postgresql://host/db", None, str(file), "w")
