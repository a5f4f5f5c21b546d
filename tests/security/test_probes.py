"""Redaction of secrets in texts of every class, and texts that are not changed."""

from __future__ import annotations

import ast
import dataclasses
import json
import pathlib
import re
import sys
import threading
from collections.abc import Iterator

import pytest

from generic_trainer.executors.errors import InputError
from generic_trainer.executors.runtime.logs.redaction import (
    mask_known,
    masked,
    masked_source,
    masked_text,
    remember_secrets,
    unfinished_secret,
)
from generic_trainer.executors.runtime.logs.secret_names import MASK
from generic_trainer.executors.runtime.logs.secret_prefixes import ISSUERS, PATTERN
from generic_trainer.pipelines.submit.secrets import require_no_secrets

sys.path.append(str(pathlib.Path(__file__).parent))
from probes import HARMLESS, ISSUED, SECRETS

sys.path.pop()

NAMES = """
    password passwd pwd db_pass dbPass DB_PASS passcode passphrase secret client_secret clientSecret auth jwt dsn token
    authToken api_key apiKey API_KEY x-api-key X_API_KEY secret_key encryption_key signingKey storage_key ssh_key
    private_key access_key account_key credentials cookie set-cookie authorization webhook_url bearer otp userPassword
    PGPASSWORD mysqlPwd connection_string SECRET_KEY_BASE license_key openai_key wandb_api_key
"""


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=lambda one: one[:60].encode("unicode_escape").decode())
def test_a_secret_is_redacted(text: str, secret: str) -> None:
    shown = masked_text(text)
    assert secret not in shown
    assert MASK in shown
    assert masked_text(shown) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_lookalikes_of_secrets_are_kept(text: str) -> None:
    assert masked_text(text) == text


@pytest.mark.parametrize("name", NAMES.split())
def test_values_under_such_a_name_are_secrets_at_any_depth(name: str) -> None:
    assert masked({"a": [{name: "tulip-7Hf3qZ"}], "b": name}) == {"a": [{name: MASK}], "b": name}


@pytest.mark.parametrize(
    "config",
    [
        {"label_key": "tips", "feature_key": "fare", "key_features": ["a", "b"], "primary_key": "id"},
        {"tokenizer": "bert", "max_tokens": 512, "oov_token": "<OOV>", "tokens": ["the", "cat"], "token_dim": 64},
        {
            "auth": "none",
            "author": "Jane",
            "auth_rate": 0.93,
            "password": "",
            "secret": None,
            "use_auth": True,
            "env_secrets": ["db"],
        },
        {"cache_key": "b1946ac92492d2347c6235b4d2611184", "sort_keys": True, "keys": {"train": 3}, "pass": 2},
    ],
)
def test_configurations_without_secrets_are_unchanged(config: dict[str, object]) -> None:
    assert masked(config) == config


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=lambda one: one[:60].encode("unicode_escape").decode())
def test_a_manifest_contains_no_secrets(text: str, secret: str) -> None:
    for value in (text, json.dumps({"note": text})):
        with pytest.raises(InputError) as raised:
            require_no_secrets("--custom-config", value, ())
        assert secret not in str(raised.value)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_manifest_may_contain_declared_non_secrets(text: str) -> None:
    require_no_secrets("--custom-config", text, ())
    require_no_secrets("--custom-config", json.dumps({"note": text, "batch_size": 32}), ())


def test_secrets_are_redacted_in_every_encoding_longest_first() -> None:
    remember_secrets({"password": 'quo"te\\and/sl@sh', "token": "tulip-garden", "api_key": "tulip-garden-at-night"})
    for text in (
        'x quo"te\\and/sl@sh',
        json.dumps(['quo"te\\and/sl@sh']),
        repr('quo"te\\and/sl@sh'),
        "https://host/?p=quo%22te%5Cand%2Fsl%40sh",
        "a tulip-garden-at-night b tulip-garden",
    ):
        shown = mask_known(text)
        assert MASK in shown
        assert [part for part in ("sl@sh", "sl%40sh", "garden", "night") if part in shown] == []


def test_a_stream_holds_back_a_possible_prefix_of_a_secret() -> None:
    remember_secrets({"password": "lilac-by-the-gate", "token": "lilac-by-the-gate-or-not", "api_key": "xy1-rose-xy1"})
    text = "one lilac-by-the-gate two lilac-by-the-wall xy1-rose-xy1 lilac-by-the-gate-or-not"
    for size in range(1, len(text)):
        rest, shown = "", ""
        for start in range(0, len(text), size):
            rest += text[start : start + size]
            cut = len(rest) - unfinished_secret(rest)
            shown, rest = shown + mask_known(rest[:cut]), rest[cut:]
        assert shown + mask_known(rest) == f"one {MASK} two lilac-by-the-wall {MASK} {MASK}"


def test_threads_mask_while_others_add_secrets() -> None:
    over = threading.Event()
    failed: list[BaseException] = []

    def mask() -> None:
        try:
            while not over.is_set():
                masked_text("a line with rose-0-garden in it, and password=x1y2z3")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=mask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(300):
        remember_secrets({"password": f"rose-{number}-garden"})
    over.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert masked_text("rose-0-garden rose-299-garden") == f"{MASK} {MASK}"


def test_each_issuer_has_an_example_that_only_its_pattern_matches() -> None:
    assert len(ISSUERS) <= 30
    for issuer, pattern in ISSUERS:
        matching = [name for name, token in ISSUED.items() if re.fullmatch(pattern, token)]
        assert matching == [issuer]
    assert re.compile(PATTERN).groups == 0


@dataclasses.dataclass
class Account:
    user: str
    password: str


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([["password", "tulip"], ["user", "me"]], [["password", MASK], ["user", "me"]]),
        ([("api_key", "tulip")], [["api_key", MASK]]),
        ([(b"authorization", b"Bearer tulip")], [[b"authorization", MASK]]),
        ([{"key": "password", "value": "tulip"}], [{"key": "password", "value": MASK}]),
        ({"header": "X-Api-Key", "value": "tulip"}, {"header": "X-Api-Key", "value": MASK}),
        ({"account": Account("me", "tulip")}, {"account": {"user": "me", "password": MASK}}),
        ({"https://me:tulip@host/": 1}, {f"https://me:{MASK}@host/": 1}),
        ({"credentials": {"user": "me"}, "token": [1, 2]}, {"credentials": MASK, "token": [1, 2]}),
        (["--token", "tulip", "x"], ["--token", MASK, "x"]),
        (["curl", "-u", "me:tulip", "-u", "1000:1000"], ["curl", "-u", f"me:{MASK}", "-u", "1000:1000"]),
    ],
)
def test_secrets_in_structures_are_redacted(value: object, shown: object) -> None:
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ('API_KEY = "tulip"\nfirst = tokens[0]\n', f'API_KEY = "{MASK}"\nfirst = tokens[0]\n'),
        ('connect("h", password="tulip", token=token)', f'connect("h", password="{MASK}", token=token)'),
        ('password: str = "tulip"', f'password: str = "{MASK}"'),
        ('{"token": r"tulip", "n": 1}', f'{{"token": r"{MASK}", "n": 1}}'),
        ('open("mysql://me:tulip@host/db")', f'open("mysql://me:{MASK}@host/db")'),
        ('x = "' + ISSUED["GitHub"] + '"', f'x = "{MASK}"'),
    ],
)
def test_only_literals_of_source_are_redacted(code: str, shown: str) -> None:
    assert masked_source(code) == shown


@pytest.mark.parametrize(
    "code",
    [
        "token = tokens[i]",
        "password = getpass()",
        "password = os.environ['DB_PASSWORD']",
        "def login(user, password, token=None): ...",
        'headers = {"Authorization": f"Bearer {token}"}',
        "tokens: list[str] = []",
        "# token: the access token, see secret.py\npassword: str",
        'LABEL_KEY = "tips"; oov_token = "<OOV>"; max_tokens = 512',
        "secrets = [read(name) for name in names]",
    ],
)
def test_source_without_secrets_is_unchanged(code: str) -> None:
    assert masked_source(code) == code


_ROOT = pathlib.Path(__file__).parents[2]
_CODE = [path for folder in ("cli", "components", "executors", "pipelines") for path in (_ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("path", [*_ROOT.glob("*.md"), *_ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_pages_are_unchanged(path: pathlib.Path) -> None:
    text = path.read_text()
    assert masked_text(text) == text


def test_recorded_lines_of_libraries_are_unchanged() -> None:
    """Lines of TensorFlow, Keras, TFX, Beam and Ray, tracebacks, and the output of `train` and of a pipeline."""
    text = (_ROOT / "tests/security/recorded_lines.txt").read_text()
    assert masked_text(text) == text


def test_messages_are_unchanged() -> None:
    changed = {text: masked_text(text) for path in _CODE for text in _messages(path) if masked_text(text) != text}
    assert changed == {}


def _messages(path: pathlib.Path) -> Iterator[str]:
    """Yields the texts of a module with at least three words, with a word for each value; not docstrings."""
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [part.value if isinstance(part, ast.Constant) else "tulip-7" for part in parts]
        text = "".join(text for text in texts if isinstance(text, str))
        is_pattern = "(?" in text or "[\\" in text
        if isinstance(node, (ast.JoinedStr, ast.Constant)) and id(node) not in statements and not is_pattern:
            yield text
