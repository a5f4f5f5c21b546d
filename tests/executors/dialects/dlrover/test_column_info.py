from __future__ import annotations

import re

import numpy as np
import pytest

from generic_trainer.executors.dialects.dlrover.shim.column_info import Column


def test_a_column_has_four_properties() -> None:
    column = Column.create(name="age", dtype="float32", is_sparse=False, is_label=True)
    assert column.keys == ["dtype", "name", "is_sparse", "is_label"]
    assert (column.dtype, column.name, column.is_sparse, column.is_label) == ("float32", "age", False, True)
    assert str(column) == repr(column) == "{dtype=float32;name=age;is_sparse=False;is_label=True}"


def test_what_is_left_out_is_none() -> None:
    column = Column.create(name="age", dtype="float32")
    assert column.is_sparse is None
    assert column.is_label is None
    assert str(Column()) == "{dtype=None;name=None;is_sparse=None;is_label=None}"


def test_columns_can_be_changed_and_do_not_share_anything() -> None:
    one, other = Column.create(name="a", dtype="string"), Column.create(name="b", dtype="string")
    one.is_label = True
    assert (other.is_label, other.name) == (None, "b")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"name": "x", "dtype": "int32", "is_labl": True},
            "Unknown property:is_labl, valid properties: ['dtype', 'name', 'is_sparse', 'is_label']. Did you mean "
            "'is_label'?",
        ),
        ({"name": "x", "dtype": "int32", "shape": 1}, "Unknown property:shape, valid properties: ['dtype', 'name'"),
        ({"dtype": "int32"}, "name=None must be a string that is not empty"),
        ({"dtype": "int32", "name": ""}, "name='' must be a string that is not empty"),
        ({"dtype": "int32", "name": 3}, "name=3 must be"),
        ({"name": "x"}, "Column 'x': dtype=None must be a type's name, such as 'float32'"),
        ({"name": "x", "dtype": np.float32}, "Column 'x': dtype=<class 'numpy.float32'> must be a type's name"),
    ],
)
def test_bad_columns_are_refused_where_they_are_made(properties: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Column.create(**properties)
