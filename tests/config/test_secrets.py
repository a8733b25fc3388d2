"""Passwords in names and texts, and what of a configuration is recorded and hashed."""

import json
import string
import time
import traceback
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dcrec_spark.config.jobs import AllSettings
from dcrec_spark.config.load import config_hash, load_config, resolved
from dcrec_spark.config.secrets import (
    forget_secrets,
    is_secret_name,
    mask_secrets,
    mask_values,
    masked_leaves,
    remember_secrets,
    secrets_in,
)
from dcrec_spark.errors import ConfigError


@pytest.mark.parametrize("part", ["password", "pwd={ ", "://a:1/", ":thin:", "api-key", "token.", "&", 'pwd="a', "://"])
@pytest.mark.parametrize("end", ["", "@", "=x"])
def test_masking_takes_time_in_proportion_to_the_text(part: str, end: str) -> None:
    """Scanned from each of its parts to the end, a text 16 times as long would take 256 times as long."""

    def seconds(length: int) -> float:
        text, start = part * (length // len(part)) + end, time.process_time()
        mask_secrets(text)
        return time.process_time() - start

    shorter = min(seconds(10_000) for _ in range(3))
    assert min(seconds(160_000) for _ in range(2)) < 64 * max(shorter, 1e-3)


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


ADDRESSES = ["ftp://bob:%s@host/x.csv", "jdbc:oracle:thin:bob/%s@host:1521", "jdbc:x://bob:%s@h/db?user=a@b"]
OPTIONS = ["jdbc:x://h/db?password=%s&ssl=true", "-Dx.trustStorePassword=%s -Dx=1", "password: %s"]


@given(SIGNS, st.sampled_from([*(("8020", of) for of in ADDRESSES), *(("hun", of) for of in (*ADDRESSES, *OPTIONS))]))
def test_a_password_in_an_address_or_option_of_a_setting_is_known(signs: str, where: tuple[str, str]) -> None:
    """As recorded, and where a server repeats it; even in an address, where it may begin like a port."""
    assume("=" not in signs)  # host:8020/?a=b, a port with options
    half, setting = where
    password = f"{half}{signs}ter2"
    forget_secrets()
    remember_secrets(secrets_in(setting % password))
    assert halves_left(mask_secrets(setting % password)) == []
    for spelled in (password, quote(password), json.dumps(password)):
        assert halves_left(mask_values(f"the server said {spelled} is wrong")) == []


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
        ("https://a.blob.core.windows.net/x?sig=hun%2B2&se=2026", "https://a.blob.core.windows.net/x?sig=***&se=2026"),
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


ENVIRONMENT = {
    "SECRET_IN_ENV": "p@ss/wörd 'x'", "RANK": "20000", "DAY": "2026-11-22", "PGPASSWORD": "correct horse",
    "NO_BYPASS": "true", "PWD": "/srv/nights", "OLDPWD": "/srv/mornings", "PIN": "48151623",
    "ADDRESS": "ftp://bob:w0lf%2Bcub@host/x",
}  # fmt: skip
OF_ENVIRONMENT = (
    *("input.options.custom=${env:SECRET_IN_ENV}", "outcome.max_iter=${env:RANK}", "output.path=/out/${env:DAY}"),
    *("input.options.dbtoken=${env:PIN}", "input.options.password=tiger", "input.options.apikey=2718281828"),
    *("input.options.url=jdbc:x://me:lion@h", "input.path=${env:ADDRESS}"),
)


def test_what_came_from_the_environment_is_masked_wherever_it_turns_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    load_config(AllSettings, None, OF_ENVIRONMENT)
    secret = ENVIRONMENT["SECRET_IN_ENV"]
    for spelled in (secret, quote(secret), json.dumps(secret), repr(secret)):
        assert "rd" not in mask_values(f"the server said {spelled}.")
    for text, masked in {
        "tiger and lion, tigers and 20000": "*** and ***, tigers and 20000",
        "on 2026-11-22 by 48151623": "on 2026-11-22 by ***",
        'FATAL: "correct horse" is wrong: true': 'FATAL: "***" is wrong: true',
        "neither w0lf+cub nor 2718281828": "neither *** nor ***",
        "/srv/nights/run.json, /srv/mornings": "/srv/nights/run.json, /srv/mornings",
    }.items():
        assert mask_values(text) == masked
    assert masked_leaves({"a": ["tiger", 1, None, {"b": "(lion)"}]}) == {"a": ["***", 1, None, {"b": "(***)"}]}
    forget_secrets()
    assert mask_values("tiger") == "tiger"


@pytest.mark.parametrize(
    "text",
    [
        "--set input.options.password hunter2",
        "--set input.options.password=[hunter2",
        "--set x=hunter2 ${",
        'input: {options: "password: hunter2"}',
        'input:\n  options:\n    password: "hunter2\n',
        "input:\n  options: {password: hunter2\n  path: x\n",
        "input: {path: {password: hunter2}}",
    ],
)
def test_an_error_on_the_command_line_or_in_a_file_does_not_show_its_secrets(text: str, tmp_path: Path) -> None:
    _, is_override, override = text.partition("--set ")
    (tmp_path / "mine.yaml").write_text("" if is_override else text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(AllSettings, tmp_path / "mine.yaml", [override] if is_override else [])
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_secrets_are_neither_recorded_nor_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_IN_ENV", "hunter1")
    overrides = [
        "input.options.custom=${env:SECRET_IN_ENV}",
        "input.options.password=hunter2",
        "input.options.url=jdbc:postgresql://me:hunter3@h/db?user=a&password=hunter4&ssl=true",
        "spark.conf.spark.hadoop.fs.s3a.secret.key=hunter5",
        "spark.conf.spark.driver.extraJavaOptions=-Djavax.net.ssl.trustStorePassword=hunter6 -Dx=1",
        "input.path=https://h/x?sas_token=hunter7",
        "warehouses.other.redis={url: 'redis://:hunter8@h', password: hunter9}",
    ]
    config = load_config(AllSettings, None, overrides)
    assert (config.input.options["custom"], config.input.options["password"]) == ("hunter1", "hunter2")
    recorded = resolved(config)
    for shown in (json.dumps(recorded), repr(config), str(config), f"{config.input}"):
        assert "hunter" not in shown
        assert "me:***@h/db" in shown
    assert recorded["input"]["options"]["custom"] == "${env:SECRET_IN_ENV}"
    assert recorded["input"]["options"]["url"] == "jdbc:postgresql://me:***@h/db?user=a&password=***&ssl=true"
    assert recorded["warehouses"]["other"] == {"redis": {"url": "redis://:***@h", "password": "***"}}
    assert recorded["spark"]["conf"]["spark.driver.extraJavaOptions"].endswith("=*** -Dx=1")


BLIND = (
    *("run.name=other", "run.run_date=2020-01-01", "spark.master=local[7]", "input.path=/x", "engine.num_blocks=7"),
    *("input.options.password=hunter2", "input.options.url=jdbc:x", "model.path=/x", "recommend.users=/x"),
    *("evaluation.test_path=/x", "warehouses.hive=x", "audit.max_churn=0.5", "output.path=/x"),
)
DECIDING = (
    *("run.seed=1", "input.format=csv", "input.columns.user=u", "input.options.quote=x", "validation.scale_max=5"),
    *("exposure.rank=11", "engine.precision=float64", "recommend.top_n=11"),
)


def test_the_hash_is_of_the_settings_that_can_change_the_result() -> None:
    default = config_hash(load_config(AllSettings))
    same = {override: config_hash(load_config(AllSettings, None, [override])) for override in (*BLIND, *DECIDING)}
    assert [override for override, found in same.items() if found == default] == list(BLIND)


def test_names_that_speak_of_secrets() -> None:
    secret = ["input.options.password", "fs.s3a.secret.key", "apiKey", "sas", "db_token", "REDISCLI_AUTH"]
    assert list(filter(is_secret_name, [*secret, "input.path", "exposure.rank", "sasquatch", "key.prefix"])) == secret
