"""The built site: its pages that are generated from the code, and that it loads nothing from other hosts."""

from __future__ import annotations

import html
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The site, built in strict mode: broken links and unreachable pages are errors."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def _words(path: pathlib.Path) -> str:
    text = path.read_text(encoding="utf-8")
    article = text[text.index("<article") : text.index("</article")]
    return html.unescape(re.sub(r"<[^>]+>", " ", article))


def test_pages_request_nothing_from_other_hosts(site: pathlib.Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        asked = re.findall(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//[^ >]+", text)
        asked += re.findall(r"<link\b[^>]*\bhref=\"?(?:https?:)?//[^ >]+", text)
        assert asked == [], page
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(.?(?:https?:)?//[^)]*", styles) == []


def test_every_command_and_option_is_in_the_reference(site: pathlib.Path) -> None:
    import click

    from generic_trainer.cli.main import cli

    words = _words(site / "reference" / "commands.html")

    def require(command: click.Command, path: str) -> None:
        context = click.Context(command)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                require(command.get_command(context, name), f"{path} {name}")
            return
        if command.hidden:
            return
        assert path in words
        shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert [option.opts[0] for option in shown if option.opts[0] not in words] == []

    require(cli, "generic-trainer")


def test_every_public_name_is_in_the_reference(site: pathlib.Path) -> None:
    import generic_trainer

    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    names = set(generic_trainer.__all__) - {"__version__"}
    assert {name for name in names if f'id="generic_trainer.{name}"' not in text} == set()


def test_the_tutorial_is_a_page_with_outputs_and_a_picture(site: pathlib.Path) -> None:
    words = _words(site / "tutorial.html")
    assert "The model loads in a fresh process" in words
    assert re.search(r"accuracy\s+1\s+0\.9\d+", words)
    assert 'src="images/tutorial-report.png"' in (site / "tutorial.html").read_text(encoding="utf-8")
    assert (site / "tutorial.ipynb").exists()
    assert 'href="tutorial.html"' in (site / "start.html").read_text(encoding="utf-8")


def test_pages_show_the_version_and_link_to_their_neighbors(site: pathlib.Path) -> None:
    import generic_trainer

    text = (site / "start.html").read_text(encoding="utf-8")
    assert f"Generic Trainer {generic_trainer.__version__}" in text
    assert re.search(r'<a href="?tutorial\.html"? class="md-footer__link md-footer__link--next"', text)


@pytest.mark.parametrize(
    ("remote", "page"),
    [
        ("https://code.example/team/trainer.git", "https://code.example/team/trainer"),
        ("https://user:secret@code.example/team/trainer", "https://code.example/team/trainer"),
        ("git@code.example:team/trainer.git", "https://code.example/team/trainer"),
        ("ssh://git@code.example/team/trainer.git", "https://code.example/team/trainer"),
        ("/srv/git/trainer", None),
        ("", None),
    ],
)
def test_the_repository_link_comes_from_the_remote(remote: str, page: str | None) -> None:
    spec = importlib.util.spec_from_file_location("site_pages", REPOSITORY / "scripts" / "site_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.web_address(remote) == page
