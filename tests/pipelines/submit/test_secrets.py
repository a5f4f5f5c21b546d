"""What looks like a secret does not get into a manifest."""

from __future__ import annotations

import pytest

from generic_trainer import InputError
from generic_trainer.pipelines.submit.secrets import require_no_secrets


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"password": "hunter2"}', "password"),
        ('{"warehouse": [{"api_key": "abc"}]}', "api_key"),
        ('{"credentials": {"user": "me"}}', "credentials"),
        ("columns=['a']; access_key=abc", "access_key"),
        ("token=abc", "token"),
    ],
)
def test_it_is_named_but_not_shown(text: str, name: str) -> None:
    with pytest.raises(InputError, match=f"--custom-config contains '{name}', which looks like a secret") as raised:
        require_no_secrets("--custom-config", text, ())
    assert "hunter2" not in str(raised.value)
    assert "abc" not in str(raised.value)
    require_no_secrets("--custom-config", text, (name,))


def test_a_password_in_a_url() -> None:
    with pytest.raises(InputError, match="--metadata contains a password in a URL") as raised:
        require_no_secrets("--metadata", "mysql://me:hunter2@host:3306/mlmd", ())
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        '{"num_tokens": 512, "token_dim": "64", "epochs": 3}',
        '{"password": ""}',
        "token_dim=64; units=32",
        "gs://bucket/secrets/train*",
        "mysql://host:3306/mlmd",
        "taxi.py",
        "",
        "[1, 2]",
    ],
)
def test_what_is_no_secret_may_stay(text: str) -> None:
    require_no_secrets("--custom-config", text, ())
