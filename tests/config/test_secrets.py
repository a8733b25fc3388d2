"""Passwords in names and texts."""

import json
import string
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dcrec_spark.config.jobs import AllSettings, RetrainConfig
from dcrec_spark.config.load import load_config
from dcrec_spark.config.secrets import (
    forget_secrets,
    is_secret_name,
    mask_secrets,
    mask_values,
    masked_all,
    remember_secrets,
    secrets_in,
)
from dcrec_spark.errors import ConfigError


def test_names_that_speak_of_secrets() -> None:
    secret = ["input.options.password", "fs.s3a.secret.key", "apiKey", "sas", "db_token", "REDISCLI_AUTH"]
    assert list(filter(is_secret_name, [*secret, "input.path", "exposure.rank", "sasquatch", "key.prefix"])) == secret


# What stands between two halves of a password, neither of which may be left.
SIGNS = st.text(string.punctuation + " ", min_size=1, max_size=3)
SIGNS_OF_A_VALUE = st.text("".join(set(string.punctuation) - {"="}), min_size=1, max_size=3)
LETTERS = st.text(st.characters(categories=["L", "N"]))


def halves_left(masked: str) -> list[str]:
    return [half for half in ("hun", "8020", "ter2") if half in masked]


@given(LETTERS, SIGNS, SIGNS_OF_A_VALUE, st.sampled_from(["password", "pwd", "apiKey", "x_token", "sig"]))
def test_masking_leaves_nothing_of_a_password(letters: str, signs: str, others: str, name: str) -> None:
    """Of one that nobody has told of: in an address up to its last @, after a name up to a space."""
    in_address, named = f"hun{letters}{signs}ter2", f"hun{letters}{others}ter2"
    text = f"cannot open https://user:{in_address}@host/?{name}={named}&a=b: refused"
    assert halves_left(mask_secrets(text)) == []
    assert halves_left(mask_secrets(f"{name}={named} user=b")) == []


@given(
    st.sampled_from(["hun", "8020"]),
    SIGNS,
    st.sampled_from(["ftp://bob:%s@host/x.csv", "jdbc:oracle:thin:bob/%s@host:1521", "jdbc:x://bob:%s@h/db?user=a@b"]),
)
def test_a_password_in_the_address_of_a_setting_is_known(half: str, signs: str, address: str) -> None:
    """Even one that begins like a port: the setting is taken apart from its beginning to its end."""
    assume("=" not in signs)  # host:8020/?a=b, a port with options
    password = f"{half}{signs}ter2"
    assert_known(password, address % password)


@given(
    SIGNS, st.sampled_from(["jdbc:x://h/db?password=%s&ssl=true", "-Dx.trustStorePassword=%s -Dx=1", "password: %s"])
)
def test_a_password_in_an_option_of_a_setting_is_known(signs: str, setting: str) -> None:
    assume("=" not in signs)
    password = f"hun{signs}ter2"
    assert_known(password, setting % password)


def assert_known(password: str, setting: str) -> None:
    """Masked in the setting as it is recorded, and where a server repeats it among other words."""
    forget_secrets()
    remember_secrets(secrets_in(setting))
    assert halves_left(mask_secrets(setting)) == []
    for spelled in (password, quote(password), json.dumps(password)):
        assert halves_left(mask_values(f"the server said {spelled} is wrong")) == []


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
        ("jdbc:sqlserver://h:1433;user=b;password={hun;ter2};x=1", "jdbc:sqlserver://h:1433;user=b;password=***;x=1"),
        ("password={hun}};ter2}", "password=***"),
        ("password='hun ter2' user=b", "password=*** user=b"),
        ("ftp://bob:8020/secret@host", "ftp://bob:***@host"),
        ("ftp://bob:hun'ter2@h", "ftp://bob:***@h"),
        ("jdbc:oracle:thin:bob/hun ter2@h:1521:x", "jdbc:oracle:thin:bob/***@h:1521:x"),
        (
            "https://account.blob.core.windows.net/x?sig=hun%2B2&se=2026",
            "https://account.blob.core.windows.net/x?sig=***&se=2026",
        ),
        ("https://hunter2:x-oauth-basic@h", "https://***:***@h"),
        ("password: hunter2", "password: ***"),
        ('{"password": "hun\\" ter2", "user": "b"}', '{"password": ***, "user": "b"}'),
        ("Map(password -> hunter2)", "Map(password -> ***"),
        ("Authorization: Bearer hunter2", "Authorization: Bearer ***"),
    ],
)
def test_secrets_are_found_by_what_is_around_them(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://namenode:8020/user/me@corp/ratings",
        "jdbc:sqlserver://host:1433;user=me@corp;encrypt=true",
        "jdbc:postgresql://host:5432/db?user=me@corp",
        "abfss://container@account.dfs.core.windows.net/ratings",
        "spark://CoarseGrainedScheduler@host:7077 of Endpoint@3f1a",
        "setting input.options.password: found a list, expected text",
        "no secret in here: a=1&b=2",
    ],
)
def test_ordinary_messages_stay_as_they_are(text: str) -> None:
    assert mask_secrets(text) == text


def test_what_came_from_the_environment_is_masked_wherever_it_turns_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "p@ss/wörd 'x'")
    monkeypatch.setenv("RANK", "20000")
    monkeypatch.setenv("DAY", "2026-11-22")
    monkeypatch.setenv("PGPASSWORD", "correct horse")
    monkeypatch.setenv("NO_BYPASS", "true")
    monkeypatch.setenv("PWD", "/srv/nights")
    monkeypatch.setenv("OLDPWD", "/srv/mornings")
    monkeypatch.setenv("PIN", "48151623")
    monkeypatch.setenv("ADDRESS", "ftp://bob:w0lf%2Bcub@host/x")
    load_config(
        AllSettings,
        None,
        [
            "input.options.custom=${env:SECRET_IN_ENV}",
            "outcome.max_iter=${env:RANK}",
            "output.path=/out/${env:DAY}",
            "input.options.dbtoken=${env:PIN}",
            "input.options.password=tiger",
            "input.options.apikey=2718281828",
            "input.options.url=jdbc:x://me:lion@h",
            "input.path=${env:ADDRESS}",
        ],
    )
    secret = "p@ss/wörd 'x'"
    for spelled in (secret, quote(secret), json.dumps(secret), repr(secret)):
        assert "rd" not in mask_values(f"the server said {spelled}.")
    assert mask_values("tiger and lion, tigers and 20000") == "*** and ***, tigers and 20000"
    assert mask_values("on 2026-11-22 by 48151623") == "on 2026-11-22 by ***"
    assert mask_values('FATAL: "correct horse" is wrong: true') == 'FATAL: "***" is wrong: true'
    assert mask_values("neither w0lf+cub nor 2718281828") == "neither *** nor ***"
    assert mask_values("/srv/nights/run.json, /srv/mornings") == "/srv/nights/run.json, /srv/mornings"
    assert masked_all({"a": ["tiger", 1, None, {"b": "(lion)"}]}) == {"a": ["***", 1, None, {"b": "(***)"}]}
    forget_secrets()
    assert mask_values("tiger") == "tiger"


@pytest.mark.parametrize(
    "text",
    [
        'input: {options: "password: hunter2"}',
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
