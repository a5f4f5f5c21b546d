"""`generic-trainer init`: its output and files, and that the other commands accept them."""

from __future__ import annotations

import pathlib
import random
import subprocess
from collections.abc import Callable

import pytest
import yaml

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, command: Command) -> tuple[pathlib.Path, str]:
    """A folder with sales.csv and the generated project `shop`, and the output of `init`."""
    folder = tmp_path_factory.mktemp("home")
    choose = random.Random(0)
    lines = ["id,price,city,paid_at,[bold]note,sold"]
    for row in range(300):
        sold = row % 9 == 0
        price = "" if row % 8 == 0 else f"{choose.gauss(10 - 3 * sold, 1):.2f}"
        lines.append(
            f"s{row},{price},{choose.choice(['Ulm', 'Bonn'])},2024-01-{row % 28 + 1:02},,{'yes' if sold else 'no'}"
        )
    (folder / "sales.csv").write_text("\n".join(lines) + "\n")
    done = command("init", "shop", "--data", "sales.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder, done.stdout


def test_it_prints_the_columns_their_preprocessing_and_the_next_steps(shop: tuple[pathlib.Path, str]) -> None:
    _, said = shop
    lines = said.splitlines()
    assert lines[0] == "sales.csv: 300 rows, 6 columns"
    columns = {line.split()[0]: " ".join(line.split()) for line in lines[2:8]}
    assert columns == {
        "id": "id text 300 left out: identifier, by name and values",
        "price": columns["price"],
        "city": "city text 2 category with 2 values: embedding",
        "paid_at": "paid_at text 28 date: hour, weekday, month and trend",
        "[bold]note": "[bold]note no values 300 left out: no values",
        "sold": columns["sold"],
    }
    assert columns["price"].startswith("price numbers 38 ")  # every eighth of 300 is missing
    assert columns["sold"].startswith("sold text 2 label (last column; none is named label")
    assert "Task: binary classification: no, yes; yes is the positive class" in lines
    assert "89% of the rows are 'no': always predicting it gives an accuracy of 0.89." in lines
    assert lines[-4:] == [
        "  cd shop",
        "  generic-trainer check --config pipeline.yaml",
        "  generic-trainer run --config pipeline.yaml",
        "  pytest test_shop.py",
    ]


def test_every_command_accepts_a_configuration_in_another_folder(
    shop: tuple[pathlib.Path, str], command: Command, tmp_path: pathlib.Path
) -> None:
    folder, _ = shop
    config = folder / "shop" / "pipeline.yaml"
    values = {}
    for name in ("run", "check", "train"):
        shown = command(name, "--config", config, "--print-config", cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        values[name] = yaml.safe_load(shown.stdout)
    run, check, train = values["run"], values["check"], values["train"]
    assert run["data"] == check["data"] == str(folder / "sales.csv")
    assert run["module-file"] == check["module"] == train["module"] == str(folder / "shop" / "shop.py")
    assert (run["label"], run["task"], run["seed"]) == ("sold", "binary", 1)
    assert run["pipeline-root"] == str(folder / "shop" / "pipeline")
    assert train["transform-graph"] == str(folder / "shop" / "pipeline" / "Transform" / "transform_graph" / "latest")


def test_init_writes_exactly_the_listed_files(shop: tuple[pathlib.Path, str]) -> None:
    folder, said = shop
    [listed] = [line for line in said.splitlines() if line.startswith("Written to shop: ")]
    files = sorted(str(path.relative_to(folder / "shop")) for path in (folder / "shop").rglob("*") if path.is_file())
    assert listed == f"Written to shop: {', '.join(files)}"
    assert files == [
        ".gitignore",
        "README.md",
        "pipeline.yaml",
        "sample.csv",
        "shop.py",
        "test_shop.py",
    ]
    readme = (folder / "shop" / "README.md").read_text()
    assert "generic-trainer run --config pipeline.yaml" in readme
    assert "| `price` | number: scaled |" in readme


@pytest.mark.thorough
@pytest.mark.slow
def test_check_passes_as_written(shop: tuple[pathlib.Path, str], command: Command) -> None:
    """It runs Transform, training, export and the model check on a sample with dates and missing values."""
    folder, _ = shop
    done = command("check", "--config", "pipeline.yaml", cwd=folder / "shop")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
@pytest.mark.slow
def test_tune_searches_before_the_training(
    shop: tuple[pathlib.Path, str], command: Command, tmp_path: pathlib.Path
) -> None:
    folder, _ = shop
    steps = ("--tune-steps", 4, "--train-steps", 4)
    root = ("--pipeline-root", tmp_path, "--no-check", "--no-push")
    done = command("run", "--config", "pipeline.yaml", "--tune", *steps, *root, cwd=folder / "shop")
    assert done.returncode == 0, done.stderr[-3000:]
    search = done.stderr.partition("node Trainer is running")[0]
    assert [line.split()[1:4] for line in search.splitlines() if " Trial " in line] == [
        ["Trial", str(number), "of"] for number in range(1, 11)
    ]
    assert "Epoch" not in search  # one line for each trial
    chosen = done.stdout.partition("Hyperparameters:\n")[2].split()[:8:2]
    assert chosen == ["units", "layers", "dropout", "learning_rate"]
    [report] = tmp_path.glob("Trainer/model_run/*/report.html")
    assert "val_loss by trial" in report.read_text()


def test_a_second_init_needs_force_and_keeps_other_files(
    shop: tuple[pathlib.Path, str], command: Command, tmp_path: pathlib.Path
) -> None:
    folder, _ = shop
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pipeline.yaml").write_text("label: amount")
    arguments = ["init", ".", "--data", folder / "sales.csv", "--label", "city"]
    refused = command(*arguments, cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "generic-trainer: . is not empty. Choose another folder, or overwrite its files with --force."
    )
    assert (tmp_path / "pipeline.yaml").read_text() == "label: amount"
    assert len(list(tmp_path.iterdir())) == 2
    done = command(*arguments, "--force", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "  cd " not in done.stdout
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert yaml.safe_load((tmp_path / "pipeline.yaml").read_text())["label"] == "city"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "sale.csv"], "generic-trainer: --data sale.csv does not exist."),
        (["--data", "sales.csv", "--label", "sol"], "Did you mean 'sold'?"),
        (["--data", "sales.csv", "--dialect", "model_fn"], "Omit --dialect to generate a module with a run_fn."),
        ([], "generic-trainer: Missing option '--data'."),
    ],
)
def test_errors_are_in_the_last_line_and_nothing_is_written(
    shop: tuple[pathlib.Path, str], command: Command, arguments: list[str], message: str
) -> None:
    folder, _ = shop
    done = command("init", "other", *arguments, cwd=folder)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(message)
    assert not (folder / "other").exists()


def write_excel_export(path: pathlib.Path) -> None:
    """Writes 300 rows as Excel does in a country with decimal commas."""
    lines = ["Größe;Preis;Stück"]
    for row in range(300):
        lines.append(f"{row % 7},5;1.{row % 9}00,25;{2 * (row % 7) + row % 9}")
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))


@pytest.mark.slow
def test_an_export_of_excel_becomes_a_project(command: Command, tmp_path: pathlib.Path) -> None:
    write_excel_export(tmp_path / "Umsätze.csv")
    done = command("init", "shop", "--data", "Umsätze.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "Umsätze.csv: it was not UTF-8 and was read as Latin-1 (Windows-1252); fields were separated by semicolons; "
        "decimal commas in Größe, Preis were replaced by points",
        "Umsätze.csv: 300 rows, 3 columns",
    ]
    project = tmp_path / "shop"
    assert yaml.safe_load((project / "pipeline.yaml").read_text())["data"] == "plain_csv/Umsätze.csv"
    assert (project / "plain_csv" / "Umsätze.csv").read_text().splitlines()[:2] == [
        "Größe,Preis,Stück",
        "0.5,1000.25,0",
    ]
    assert "plain_csv/" in (project / "README.md").read_text()


@pytest.mark.thorough
@pytest.mark.slow
def test_a_pipeline_converts_an_export_of_excel_in_its_root(command: Command, tmp_path: pathlib.Path) -> None:
    write_excel_export(tmp_path / "Umsätze.csv")
    assert command("init", "shop", "--data", "Umsätze.csv", cwd=tmp_path).returncode == 0
    project = tmp_path / "shop"
    line = ["--config", project / "pipeline.yaml", "--data", tmp_path / "Umsätze.csv"]
    checked = command("check", *line, "--pipeline-root", tmp_path / "root")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    copy = tmp_path / "root" / "plain_csv" / "Umsätze.csv"
    assert f"were replaced by points. The pipeline reads a converted copy: {copy}" in checked.stdout
    ran = command("run", *line, "--pipeline-root", tmp_path / "root", "--train-steps", "5", "--no-push")
    assert ran.returncode == 0, ran.stderr
    assert f"The pipeline reads a converted copy: {copy}" in ran.stderr
    assert "Checked in" not in ran.stderr  # the same check has passed before
