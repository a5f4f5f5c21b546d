"""Where a pipeline's CSV is copied to, and where nothing is written."""

from __future__ import annotations

import pathlib

from generic_trainer.pipelines.definition.pipeline_root import PLAIN_DATA, ROOT_MARKER, plain_in_root


def test_a_copy_lies_in_a_root_that_is_new_or_a_pipelines_and_nothing_is_written_elsewhere(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    data = str(tmp_path / "a.csv")
    for name, marks in {"new": [], "checked": ["generic_trainer_check.json"], "own": [ROOT_MARKER, "logs"]}.items():
        root = tmp_path / name
        for mark in marks:
            (root / mark).mkdir(parents=True)
        copy = root / PLAIN_DATA / "a.csv"
        said = f"a.csv: it was separated by semicolons. A copy is read: {copy}"
        assert plain_in_root(data, str(root)) == (str(copy), [said])

    (tmp_path / "others" / "thesis").mkdir(parents=True)
    for root in (str(tmp_path / "others"), "gs://bucket/root"):
        assert plain_in_root(data, root) == (data, [])
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["thesis"]
    assert plain_in_root("gs://bucket/a.csv", str(tmp_path / "new")) == ("gs://bucket/a.csv", [])
