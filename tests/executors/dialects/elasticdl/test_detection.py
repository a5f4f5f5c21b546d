from __future__ import annotations

import pathlib

import pytest

from generic_trainer import FnArgs, InputError
from generic_trainer.executors.dialects.elasticdl.detection import find_elasticdl_use
from generic_trainer.executors.dialects.needs import reads_any_origin
from generic_trainer.executors.training.preconditions import require_inputs


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "import os\nfrom elasticdl.python.common.constants import Mode\n",
            (2, "from elasticdl.python.common.constants import Mode"),
        ),
        (
            "def feed(d):\n    import elasticdl_preprocessing.layers as layers\n",
            (2, "import elasticdl_preprocessing.layers as layers"),
        ),
        ("from elasticai_api.common import constants\n", (1, "from elasticai_api.common import constants")),
        ("import elasticdl\n\nimport elasticdl_client\n", (1, "import elasticdl")),
        ("import elasticdl_of_mine\nfrom . import elasticdl\nfrom .elasticdl import Mode\n", None),
        ("x = 'import elasticdl'\n", None),
        ("import elasticdl\n this does not parse", None),
    ],
)
def test_elasticdl_is_found_by_its_imports(source: str, expected: object, tmp_path: pathlib.Path) -> None:
    (tmp_path / "model.py").write_text(source)
    assert find_elasticdl_use(str(tmp_path / "model.py")) == expected


def test_the_data_of_a_file_with_its_own_reader_need_not_be_files(tmp_path: pathlib.Path) -> None:
    with_reader, without = tmp_path / "with_reader.py", tmp_path / "without.py"
    without.write_text("from elasticdl.python.common.constants import Mode\n")
    with_reader.write_text(f"{without.read_text()}def custom_data_reader(data_origin, **kwargs): ...\n")
    fn_args = FnArgs(train_files=["project.table"])

    require_inputs(fn_args, reads_any_origin([str(without), str(with_reader)]))
    with pytest.raises(InputError, match=r"no file matches 'project\.table'"):
        require_inputs(fn_args, reads_any_origin([str(without)]))
