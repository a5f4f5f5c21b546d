"""Secrets of a configuration do not occur in any file, log or output of a run, whatever their name."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from generic_trainer.cli.main import cli
from generic_trainer.executors.preflight.verdicts import FAILED, Report, Verdict
from generic_trainer.executors.runtime.logs import setup
from generic_trainer.executors.runtime.logs.redaction import masked, masked_text, remember_secrets, secret_names
from generic_trainer.executors.runtime.logs.secret_names import MASK

Leaks = Callable[[Mapping[str, str]], list[str]]


def test_a_run_writes_and_prints_no_secrets(hostile: Any) -> None:
    assert hostile.code == 0, hostile.printed
    assert hostile.leaks() == []
    kept = hostile.record["arguments"]["custom_config"]
    assert kept["database"] == {"Password": MASK, "host": "db.example.com"}
    assert kept["arguments"] == ["--client-secret", MASK, "--verbose"]
    assert kept["tracking"] == f"https://me:{MASK}@tracking.example.com/path"
    assert kept["num_tokens"] == 512
    assert f"the key is {MASK}" in hostile.printed  # printed by the module
    assert f"'api_key': '{MASK}'" in hostile.printed  # and logged by it


def test_a_run_that_fails_with_secrets_in_its_message_leaks_none(hostile_failure: Any) -> None:
    assert hostile_failure.code == 1, hostile_failure.printed
    assert hostile_failure.leaks() == []
    assert hostile_failure.record["error"]["type"] == "ConnectionError"
    assert f'"api_key": "{MASK}"' in hostile_failure.record["error"]["message"]
    assert f'"api_key": "{MASK}"' in hostile_failure.printed


def test_a_run_without_secrets_redacts_nothing(iris: Any, command: Any, tmp_path: pathlib.Path) -> None:
    module = pathlib.Path(__file__).parents[2] / "module_files" / "iris_keras.py"
    files = ("--train-files", iris.train, "--eval-files", iris.eval, "--train-steps", "20")
    done = command("-v", "train", module, *files, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    written = [path for path in (tmp_path / "model_run").rglob("*") if path.suffix in (".json", ".log", ".py")]
    assert {"run.json", "iris_keras.py"} <= {path.name for path in written}
    for text in (done.stdout, done.stderr, *(path.read_text() for path in written)):
        assert masked_text(text) == text
        assert MASK not in text


@pytest.mark.parametrize("line", ["show OUT", "show OUT --json", "diff OUT OTHER", "lineage OUT", "runs OUT --json"])
def test_commands_print_no_secrets(line: str, hostile: Any, hostile_failure: Any, leaks_in: Leaks) -> None:
    places = {"OUT": str(hostile.folder), "OTHER": str(hostile_failure.folder)}
    done = CliRunner().invoke(cli, [places.get(word, word) for word in line.split()], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert leaks_in({line: done.output}) == []


def test_print_config_shows_no_secrets(
    config: dict[str, Any], secrets: dict[str, str], leaks_in: Leaks, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "taxi.yaml"
    url = f"mysql://me:{secrets['in a URL']}@host/db"
    path.write_text(yaml.safe_dump({"custom-config": config, "metadata": url}))
    line = ["run", "--config", str(path), "--data", "d", "--module-file", "m", "--label", "x", "--print-config"]
    done = CliRunner().invoke(cli, line, catch_exceptions=False)
    assert f"mysql://me:{MASK}@host/db" in done.output
    assert leaks_in({"--print-config": done.output}) == []


def test_configuration_errors_print_no_secrets(
    command: Any, secrets: dict[str, str], leaks_in: Leaks, tmp_path: pathlib.Path
) -> None:
    text = json.dumps({"api_key": secrets["under a name"]}).removesuffix("}")
    done = command("train", "m.py", "--train-files", "x", "--output", tmp_path, "--custom-config", text)
    assert done.returncode == 2
    assert "JSON" in done.stderr
    assert leaks_in({"error": done.stdout + done.stderr}) == []


# TFX logs the whole pipeline, including the account of its database.
PROTO = 'connection_config { mysql { host: "db" user: "me" password: "hunter2!" } }'


def test_log_lines_of_other_packages_contain_no_secrets(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("GENERIC_TRAINER_LOGS", "people")
    monkeypatch.setenv(setup.LOG_FILE, str(tmp_path / "kept.log"))
    root = logging.getLogger()
    try:
        setup.inherit_log_file(native=False)
        root.warning("Using deployment config:\n%s", PROTO)
    finally:
        monkeypatch.delenv(setup.LOG_FILE)
        setup.inherit_log_file(native=False)
    kept = (tmp_path / "kept.log").read_text()
    assert f'user: "me" password: "{MASK}"' in kept


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open mysql://me:hunter2@host/db", "cannot open mysql://me:***@host/db"),
        ("{'password': 'hunter2', 'a': 1}", "{'password': '***', 'a': 1}"),
        (r"{\"api_key\": \"abc\", \"b\": 2}", r"{\"api_key\": \"***\", \"b\": 2}"),
        ('{"secret": "x\\"y", "b": 2}', '{"secret": "***", "b": 2}'),
        ("secret_key=b'abc'", "secret_key=b'***'"),
        ("train --api-key=abc --epochs=3", "train --api-key=*** --epochs=3"),
        ("Authorization: Bearer abcdefghij1", "Authorization: Bearer ***"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb", "a\n***\nb"),
        ("id AKIAIOSFODNN7EXAMPLE of", "id *** of"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "***"),
        ("?X-Goog-Signature=00ff&x=1", "?X-Goog-Signature=***&x=1"),
    ],
)
def test_texts_are_masked_by_name_place_and_shape(text: str, shown: str) -> None:
    assert masked_text(text) == shown
    assert masked_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "give a file, or mysql://user:password@host:port/database",
        "num_tokens=512, token_dim=64, tokenizer=bert",
        "the token is gone: 'x' is missing",
        "basic understanding of bearer bonds",
        "s3://bucket/a:b/c@d",
        "Step 5 of 10, loss 0.1, secret: no",
        "12:30:01 http://host:8080/path?signal=1",
    ],
)
def test_non_secrets_are_not_redacted(text: str) -> None:
    assert masked_text(text) == text


def test_numbers_are_shown_under_safe_names() -> None:
    assert masked({"num_tokens": 512, "max_token_length": "64", "use_token": True}) == {
        "num_tokens": 512,
        "max_token_length": "64",
        "use_token": True,
    }
    assert masked({"password": 1234, "access_key": "42"}) == {"password": MASK, "access_key": MASK}


def test_the_location_of_a_secret_is_reported_without_the_secret(config: dict[str, Any]) -> None:
    assert list(secret_names(config)) == [
        "api_key",
        "database.Password",
        "accounts.0.auth_token",
        "arguments.1",
        "tracking",
        "signed",
        "reader",
        "note",
        "env.0.value",
    ]
    assert list(secret_names({"epochs": 3, "layers": [1, 2], "name": "x"})) == []


def test_short_and_common_words_are_not_redacted() -> None:
    remember_secrets({"token": "train", "password": "abc", "api_key": "k3y-of-a-run"})
    assert masked_text("train abc with k3y-of-a-run") == f"train abc with {MASK}"


def test_check_prints_no_secrets(tmp_path: pathlib.Path) -> None:
    report = Report("taxi.py")
    report.verdicts.append(Verdict("load", FAILED, "no", traceback="ValueError: {'password': 'hunter2'}"))
    from generic_trainer.cli.verdict_format import format_verdict

    assert "hunter2" not in "".join(format_verdict(report.verdicts[0], verbose=True))


_HOSTILE_PARTS = (
    "token", "a", "A.", "=", "a:", "a=", "'", "token='", "://a:", "password=\\", 'token:"\\"', "?sig=", "eyJ", "eyJ-",
    "password: {", "password=(", '{"password": "', "secret:\n ", "x\npassword: 'a\n", "<token ", "name: token\n",
    "- - token\n", "('password','", "login a ", "set token ", "https://a/a/", "http://a:b@c ", "Bearer ",
    "Digest a=", "password      ", "-----BEGIN PRIVATE KEY-----", "password=[x\n", "glpat-a.", "sk-", "---",
    'File "', "<a ", "<token>x", "-u ", "basic abcd", 'Cookie: a="', "https:\\/\\/", "no_auth_", "token=['",
)  # fmt: skip


@pytest.mark.parametrize("part", _HOSTILE_PARTS)
def test_redaction_ends_for_any_text_size(part: str) -> None:
    masked_text(part * (300_000 // len(part)))  # takes minutes if it is quadratic
