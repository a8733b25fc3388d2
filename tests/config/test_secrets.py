"""Passwords in names and texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcrec_spark.config import RetrainConfig, load_config
from dcrec_spark.config.secrets import is_secret_name, mask_secrets


@pytest.mark.parametrize("name", ["input.options.password", "fs.s3a.secret.key", "apiKey", "sas", "db_token"])
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
