"""The messages in docs/reference/errors.md occur in the code."""

from __future__ import annotations

import ast
import pathlib
import re

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "errors.md"


def _text(node: ast.expr) -> str:
    """Returns a string of the code, with `…` for inserted values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return "…"


def _strings_of_the_code() -> list[str]:
    files = [
        path for name in ("executors", "components", "pipelines", "cli") for path in (REPOSITORY / name).rglob("*.py")
    ]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    return [_text(node) for node in nodes if isinstance(node, (ast.Constant, ast.JoinedStr))]


def test_each_documented_message_occurs_in_the_code() -> None:
    tables = re.findall(r"^\| message .*?(?=\n\n|\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    messages = [match[1] for table in tables for match in re.finditer(r"^\| `([^`]+)`", table, re.MULTILINE)]
    assert len(messages) > 30
    strings = _strings_of_the_code()
    unknown = [message for message in messages if not any(message in string for string in strings)]
    assert not unknown


def test_every_error_is_explained() -> None:
    import generic_trainer

    page = PAGE.read_text(encoding="utf-8")
    errors = [name for name in generic_trainer.__all__ if name.endswith("Error") or name == "Preempted"]
    assert [name for name in errors if f"`{name}`" not in page and f"generic_trainer.{name}`" not in page] == []
