"""CsvExampleGen writes the examples that TFX's writes, byte by byte and in the same splits, or names the bad row."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pytest

from generic_trainer.components.csv_example_gen import CsvExampleGen
from generic_trainer.executors.compat.beam import IN_PROCESS_RUNNER, reshuffle_buckets
from generic_trainer.executors.errors import InputError
from generic_trainer.executors.inputs.csv import example_rows
from generic_trainer.executors.inputs.csv.example_rows import column_names, column_types, examples_in, merged_types

NAMES = ["id", "Ä name", "x", "b10", "b2", "nothing", "big", "mixed", "digits", "first", "only in b"]


def row(chance: random.Random, file: str) -> list[str]:
    """Returns cells of each type, of types that change within a column, with quotes, line ends and odd numbers."""
    return [
        str(chance.randrange(-(10**18), 10**18)),
        chance.choice(["é", '"a,b"', '"two\nlines"', '"q""q"', "", " 5 ", "in 5\u00a0m"]),
        repr(chance.gauss(0, 1e5)) if chance.random() < 0.8 else "",
        chance.choice(["1e39", "-1e400", "nan", "inf", "-0.0", "1e-46"]),
        chance.choice(["1", "2.5"]),
        "",
        chance.choice([str(2**63), str(2**63 - 1)]),
        chance.choice(["1_000", "5", " 7", "+3"]),
        chance.choice(["5", "٣"]),
        "text" if file == "a" else "1",
        "" if file == "a" else "7",
    ]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    chance = random.Random(1)
    data = tmp_path / "data"
    data.mkdir()
    for file in ("a", "b"):
        lines = [",".join(NAMES), *(",".join(row(chance, file)) for _ in range(200)), ""]
        lines.insert(50, "")
        (data / f"{file}.csv").write_text("\n".join(lines), encoding="utf-8", newline="")
    return data


def of_tfx(paths: list[str], names: list[str]) -> list[bytes]:
    """Returns the examples of TFX's conversion, serialized as for its assignment to splits."""
    from tfx.components.example_gen.csv_example_gen import executor
    from tfx_bsl.coders import csv_decoder

    parser, convert = csv_decoder.ParseCSVLine(","), executor._ParsedCsvToTfExample()
    parser.setup()
    texts = [text for path in paths for text in executor._ReadCsvRecordsFromTextFile().process(path)]
    rows = [cells for text in texts for cells, _ in parser.process(text)]
    inferrer = csv_decoder.ColumnTypeInferrer(names, skip_blank_lines=True)
    types = inferrer.create_accumulator()
    for cells in rows:
        types = inferrer.add_input(types, cells)
    infos = inferrer.extract_output(types)
    return [one.SerializeToString(deterministic=True) for cells in rows for one in convert.process(cells, infos)]


@pytest.mark.parametrize("known", [1 << 16, 2], ids=["each cell is known", "known cells are forgotten"])
def test_examples_have_the_same_bytes(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, known: int) -> None:
    monkeypatch.setattr(example_rows, "_MAX_KNOWN", known)
    paths = [str(folder / "a.csv"), str(folder / "b.csv")]
    names = column_names(paths)
    types = merged_types([column_types(path, names) for path in paths])
    examples = [example for path in paths for example in examples_in(path, names, types)]
    assert len(examples) == 400
    assert examples == of_tfx(paths, NAMES)


@pytest.mark.parametrize(
    "content",
    [
        b'a,b\r\n1,"x\r\ny"\r\n2,\r\n\r\n3,z',
        b"\xef\xbb\xbfa,b\n1,2\n",
        b'a,b c ,"d"\n1,2,3\n,,\n-5,1e5,x',
        b"a,b\n",
    ],
    ids=["carriage returns", "byte order mark", "odd names", "no rows"],
)
def test_other_files_have_the_same_bytes(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    names = column_names([str(path)])
    assert list(examples_in(str(path), names, column_types(str(path), names))) == of_tfx([str(path)], names)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "id"], ids=["split by all features", "split by one"])
def test_splits_and_their_order_are_the_same(folder: pathlib.Path, tmp_path: pathlib.Path, by: str) -> None:
    from tfx import v1 as tfx

    found = []
    for kind in (CsvExampleGen, tfx.components.CsvExampleGen):
        split = tfx.proto.SplitConfig.Split
        config = tfx.proto.SplitConfig(
            splits=[split(name="train", hash_buckets=3), split(name="eval", hash_buckets=1)],
            partition_feature_name=by or None,
        )
        step = kind(input_base=str(folder), output_config=tfx.proto.Output(split_config=config))
        found.append(run(step, tmp_path / f"root-{len(found)}"))
    assert found[0] == found[1]
    assert min(map(len, found[0].values())) > 50


def run(step: Any, root: pathlib.Path) -> dict[str, list[bytes]]:
    """Runs a pipeline of one step; returns the examples of each split."""
    import tensorflow as tf
    from tfx import v1 as tfx

    pipeline = tfx.dsl.Pipeline(
        pipeline_name="examples",
        pipeline_root=str(root),
        components=[step],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{root}/store.sqlite"),
        beam_pipeline_args=[f"--runner={IN_PROCESS_RUNNER}", "--direct_running_mode=in_memory"],
    )
    with reshuffle_buckets(2**62):
        tfx.orchestration.LocalDagRunner().run(pipeline)
    return {
        split: [
            tf.train.Example.FromString(record).SerializeToString(deterministic=True)
            for file in sorted(root.glob(f"CsvExampleGen/examples/*/Split-{split}/*"))
            for record in tf.data.TFRecordDataset(str(file), "GZIP").as_numpy_iterator()
        ]
        for split in ("train", "eval")
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n\n3,4,5\n", "line 4: it has 3 values, but the header has 2 columns. The row is '3,4,5'."),
        (b'a,b\n1,"2\n3,4\n', "line 3: the file ends inside a value; a quote is unclosed."),
        (b"a,b\n1,2\n3,\xe9\n", "line 3 is not UTF-8: invalid continuation byte at byte 2."),
        (b"a,\xff\n1,2\n", "line 1 is not UTF-8"),
        (b"a,b,a\n1,2,3\n", "two columns are named 'a'; column names must be unique."),
        (b"a,b\n1,2\r3,4\n", "line 2 cannot be read as CSV: new-line character seen in unquoted field"),
    ],
)
def test_the_line_of_a_bad_row_is_named(content: bytes, said: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        column_types(str(path), column_names([str(path)]))
    assert str(raised.value).startswith(str(path))
    assert said in str(raised.value)


def test_other_columns_in_another_file_are_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,c\n1,2\n")
    with pytest.raises(InputError, match=r"b\.csv has the columns a, c, but .*a\.csv has a, b\."):
        column_names([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
