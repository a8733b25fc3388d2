"""Passwords in names and texts."""

import json
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.config import AllSettings, RetrainConfig, forget_secrets, load_config, masked_all
from dcrec_spark.config.secrets import is_secret_name, mask_known, mask_secrets
from dcrec_spark.errors import ConfigError


@pytest.mark.parametrize(
    "name", ["input.options.password", "fs.s3a.secret.key", "apiKey", "sas", "db_token", "REDISCLI_AUTH"]
)
def test_names_that_speak_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["input.path", "exposure.rank", "sasquatch", "spark.key.prefix"])
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=1),
    st.sampled_from(["password", "pwd", "apiKey", "x_token"]),
)
def test_masking_leaves_nothing_of_a_password(secret: str, name: str) -> None:
    marked = f"<{secret}>"
    assert marked not in mask_secrets(f"https://user:{marked}@host/?{name}={marked}&a=b")


def test_a_configuration_that_ends_up_in_a_log_shows_no_secret() -> None:
    """Neither printed nor in a traceback; what it was read for has it."""
    overrides = [
        "input.options.password=hunter1",
        "input.options.url=jdbc:postgresql://me:hunter2@host/db",
        "input.path=https://host/x?sas_token=hunter3",
    ]
    config = load_config(RetrainConfig, None, overrides)
    assert config.input.options["password"] == "hunter1"
    for shown in (repr(config), str(config), f"{config.input}"):
        assert "hunter" not in shown
        assert "me:***@host/db" in shown


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("cannot open ftp://bob:hunter2@host/x.csv", "cannot open ftp://bob:***@host/x.csv"),
        ("jdbc:postgresql://bob:hun/ter2@h/db", "jdbc:postgresql://bob:***@h/db"),
        ("jdbc:postgresql://bob:hun@ter2@h", "jdbc:postgresql://bob:***@h"),
        ("redis://:hunter2@h", "redis://:***@h"),
        ("jdbc:sqlserver://h:1433;user=b;password={hun;ter2};x=1", "jdbc:sqlserver://h:1433;user=b;password=***;x=1"),
        ("password={hun}};ter2}", "password=***"),
        ("password='hun ter2' user=b", "password=*** user=b"),
        ("hdfs://namenode:8020/user/me@corp/ratings", "hdfs://namenode:8020/user/me@corp/ratings"),
        ("no secret in here: a=1&b=2", "no secret in here: a=1&b=2"),
    ],
)
def test_secrets_are_found_by_what_is_around_them(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


def test_what_came_from_the_environment_is_masked_wherever_it_turns_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "p@ss/wörd 'x'")
    monkeypatch.setenv("RANK", "20000")
    monkeypatch.setenv("DAY", "2026-11-22")
    monkeypatch.setenv("PGPASSWORD", "correct horse")
    monkeypatch.setenv("NO_BYPASS", "true")
    monkeypatch.setenv("PIN", "48151623")
    load_config(
        AllSettings,
        None,
        [
            "input.options.custom=${oc.env:SECRET_IN_ENV}",
            "outcome.max_iter=${oc.env:RANK}",
            "output.path=/out/${oc.env:DAY}",
            "input.options.dbtoken=${oc.env:PIN}",
            "input.options.password=tiger",
            "input.options.url=jdbc:x://me:lion@h",
        ],
    )
    secret = "p@ss/wörd 'x'"
    for spelled in (secret, quote(secret), json.dumps(secret), repr(secret)):
        assert "rd" not in mask_known(f"the server said {spelled}.")
    assert mask_known("tiger and lion, tigers and 20000") == "*** and ***, tigers and 20000"
    assert mask_known("on 2026-11-22 by 48151623") == "on 2026-11-22 by ***"
    assert mask_known('FATAL: "correct horse" is wrong: true') == 'FATAL: "***" is wrong: true'
    assert masked_all({"a": ["tiger", 1, None, {"b": "(lion)"}]}) == {"a": ["***", 1, None, {"b": "(***)"}]}
    forget_secrets()
    assert mask_known("tiger") == "tiger"


@pytest.mark.parametrize(
    "text",
    [
        'input: {options: "password: hunter2"}',
        "input: {options: [password, hunter2]}",
        'input:\n  options:\n    password: "hunter2\n',
        "input:\n  options: {password: hunter2\n  path: x\n",
        "input: {path: {password: hunter2}}",
    ],
)
def test_an_error_in_a_file_does_not_show_its_secrets(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, tmp_path / "mine.yaml")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "override", ["input.options.password hunter2", "input.options.password=[hunter2", "x=hunter2 ${"]
)
def test_an_error_on_the_command_line_does_not_show_its_secrets(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, None, [override])
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))
