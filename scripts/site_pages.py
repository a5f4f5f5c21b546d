"""mkdocs hook that generates pages of the documentation site (see mkdocs.yml).

* reference/commands.md: every command with its options, from click's parameters;
* reference/modules.md: the example modules;
* tutorial.md: the notebook with its stored outputs;
* benchmarks.md and changelog.md: from the files in benchmarks/ and CHANGELOG.md.

The footer has the package's version. The header links to the repository if the clone's remote `origin` has a web page.
"""

from __future__ import annotations

import ast
import html
import importlib.metadata
import inspect
import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import click

from generic_trainer.cli.main import cli
from generic_trainer.executors.option import GROUPS
from generic_trainer.executors.options import declared_options

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
_TRAINING = {option.name: option.group for option in declared_options()}
_TRAINING_LINK = "The [training options](#training-options) apply, too.\n\n"


def on_startup(**_: Any) -> None:
    """Links the repository's files, which are the package, in a folder `generic_trainer` for mkdocstrings."""
    linked = REPOSITORY / "build" / "site" / "generic_trainer"
    shutil.rmtree(linked, ignore_errors=True)
    linked.mkdir(parents=True)
    for path in (*REPOSITORY.glob("*.py"), *(found.parent for found in REPOSITORY.glob("[a-z]*/__init__.py"))):
        (linked / path.name).symlink_to(path)


def on_config(config: Any) -> Any:
    """Sets the version and the link to the repository."""
    config.copyright = f"Generic Trainer {importlib.metadata.version('generic-trainer')}, {config.copyright}"
    line = ["git", "config", "--get", "remote.origin.url"]
    found = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    config.repo_url = config.repo_url or web_address(found.stdout.strip())
    return config


def web_address(remote: str) -> str | None:
    """Returns the web page of a git remote such as `git@host:owner/name.git`; None for a folder."""
    found = re.fullmatch(r"(?:https://(?:[^@/]*@)?|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?", remote)
    return f"https://{found[1]}/{found[2]}" if found else None


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to the tutorial's page where the repository's files link to the notebook."""
    return markdown.replace("](tutorial.ipynb)", "](tutorial.md)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the generated pages to the site."""
    from mkdocs.structure.files import File

    pages = {
        "reference/commands.md": commands_page(),
        "reference/modules.md": modules_page(),
        "tutorial.md": tutorial_page(),
        "benchmarks.md": benchmarks_page(),
        "changelog.md": (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def commands_page() -> str:
    """Returns the page on the command line: a section per command, and one for the shared training options."""
    top = click.Context(cli, info_name="generic-trainer", **cli.context_settings)
    sections = [f"# Command line\n\n{_help(cli)}\n\n{_table(_shown(cli), top)}"]
    shared = ""
    for command, context in _commands(cli, top):
        own, training = _options(command)
        text = f"## {context.command_path}\n\n{_usage(command, context)}{_help(command)}\n\n{_table(own, context)}"
        sections.append(f"{text}{_TRAINING_LINK if training else ''}{_variables(own, context)}")
        shared = shared or _grouped(training, context)
    sections.append(f"## Training options\n\nThese are also options of the `Trainer` component.\n\n{shared}")
    return "\n\n".join(sections)


def _commands(group: click.Group, parent: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, parent=parent, info_name=name)
        if isinstance(command, click.Group):
            yield from _commands(command, context)
        elif not command.hidden:
            yield command, context


def _options(command: click.Command) -> tuple[list[click.Option], list[click.Option]]:
    """Returns a command's own options and its training options; the latter are [] unless it has all of them."""
    shown = _shown(command)
    training = [one for one in shown if one.name in _TRAINING]
    if len(training) < len(_TRAINING):
        return shown, []
    return [one for one in shown if one.name not in _TRAINING], training


def _shown(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _usage(command: click.Command, context: click.Context) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    return f"```text\n{context.command_path} {pieces}\n```\n\n"


def _help(command: click.Command) -> str:
    r"""Returns a command's help in Markdown; paragraphs after click's no-rewrap mark "\b" become code blocks."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        "\n".join(["```text", *text.split("\n")[1:], "```"]) if text.startswith("\b") else _prose(text)
        for text in paragraphs
    )


def _grouped(options: list[click.Option], context: click.Context) -> str:
    """Returns a table for each group of training options."""
    groups = {
        group: [one for one in options if _TRAINING[str(one.name)] == group] for group in (*GROUPS, *_TRAINING.values())
    }
    return "".join(f"### {group}\n\n{_table(members, context)}" for group, members in groups.items() if members)


def _table(options: list[click.Option], context: click.Context) -> str:
    rows = ["| option | default | description |", "| --- | --- | --- |"]
    for option in options:
        names = "<br>".join(f'<code class="option">{name}</code>' for name in (*option.opts, *option.secondary_opts))
        kind, choices = _kind(option, context)
        notes = " ".join(
            filter(None, [_prose(option.help or ""), choices, option.envvar and f"Variable: `{option.envvar}`."])
        )
        rows.append(f"| {names}{kind and f' <code>{kind}</code>'} | {_default(option)} | {_cell(notes)} |")
    return "\n".join(rows) + "\n\n" if options else ""


def _kind(option: click.Option, context: click.Context) -> tuple[str, str]:
    """Returns an option's metavar as HTML, and a sentence with its choices."""
    if option.is_flag:
        return "", ""
    if isinstance(option.type, click.Choice):
        return "", f"One of {', '.join(f'`{choice}`' for choice in option.type.choices)}."
    words = {"INTEGER": "N", "INTEGER RANGE": "N", "FLOAT": "X", "FLOAT RANGE": "X"}
    metavar = option.make_metavar(context)
    return html.escape(words.get(metavar.partition("<")[0].split(" [")[0], metavar)).replace("|", "&#124;"), ""


def _variables(options: list[click.Option], context: click.Context) -> str:
    """Returns a sentence with the names of the environment variables of a command's options."""
    prefix, named = context.auto_envvar_prefix, [one.name for one in options if one.name]
    if not prefix or not named:
        return ""
    return f"Environment variables: `{prefix}_` and the option's name, as in `{prefix}_{named[0].upper()}`."


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    default = option.default() if callable(option.default) else option.default
    if option.multiple or default is None or "UNSET" in repr(default) or default == "":
        return ""
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"`{_cell(str(default))}`"


def _prose(text: str) -> str:
    """Escapes help text for Markdown, except backticks."""
    return text.replace("*", "\\*").replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def modules_page() -> str:
    """Returns the page on the example modules: first docstring line and source of each."""
    lines = ["# Example modules", "", "Training modules to read and copy from, in `module_files/`.", ""]
    for path in sorted((REPOSITORY / "module_files").glob("[a-z]*.py")):
        source = path.read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]
        lines += [f"## {path.name} {{ #{path.stem} }}", "", title, "", f'??? abstract "{path.name}"', ""]
        lines += [f"    {line}".rstrip() for line in ("```python", *source.rstrip().split("\n"), "```")] + [""]
    return "\n".join(lines)


def tutorial_page() -> str:
    """Returns the notebook as Markdown: its texts, code, and stored outputs."""
    notebook = json.loads((REPOSITORY / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    title, *cells = map(_notebook_cell, notebook["cells"])
    download = '[Download this notebook](tutorial.ipynb){ download="tutorial.ipynb" }'
    return "\n\n".join([title, download, *cells])


def _notebook_cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *map(_notebook_output, cell["outputs"])])


def _notebook_output(output: dict[str, Any]) -> str:
    """Returns an output in the richest of its forms: HTML without its own style, or text."""
    data = output.get("data", {})
    if "text/html" not in data:
        return f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```"
    table = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
    table = re.sub(r' border="1"| class="dataframe"', "", " ".join(table.split()))
    return f'<div class="output">{table}</div>'


def benchmarks_page() -> str:
    """Returns benchmarks/README.md followed by benchmarks/RESULTS.md."""
    folder = REPOSITORY / "benchmarks"
    how, results = ((folder / name).read_text(encoding="utf-8") for name in ("README.md", "RESULTS.md"))
    results = re.sub(r" \[README\.md\]\(README\.md\) explains the table\.", "", results)
    return f"{how}\n{results.replace('# Results of the benchmarks', '## Results')}"
