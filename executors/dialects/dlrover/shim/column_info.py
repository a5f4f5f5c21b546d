"""`Column`: a conf's definition of one field of a row.

Usage:

    Column.create(name="age", dtype="float32", is_sparse=False, is_label=False)
"""

from __future__ import annotations

from ....errors import did_you_mean


class Column:
    """One field of a row. A conf's columns are in the order of the fields in a row.

    Attributes:
      dtype: The type's name, such as "float32", "int64" or "string".
      name: The name of the feature or label.
      is_sparse: Whether the field has a variable number of values.
      is_label: True for the label.
    """

    added_prop = ("dtype", "name", "is_sparse", "is_label")

    dtype: str | None = None
    name: str | None = None
    is_sparse: bool | None = None
    is_label: bool | None = None

    @staticmethod
    def create(**properties: object) -> Column:
        """Creates a column.

        Args:
          **properties: The attributes; name and dtype are required, others default to None.

        Raises:
          ValueError: When a property is unknown, the name is missing or empty, or the dtype is not a string.
        """
        known = list(Column.added_prop)
        for key in properties:
            if key not in known:
                raise ValueError(f"Unknown property:{key}, valid properties: {known}.{did_you_mean(key, known)}")
        column = Column()
        vars(column).update(properties)
        if not isinstance(column.name, str) or not column.name:
            raise ValueError(
                f"The column {column} has no name: name={column.name!r} must be a string that is not empty."
            )
        if not isinstance(column.dtype, str):
            raise ValueError(
                f"Column {column.name!r}: dtype={column.dtype!r} must be a type's name, such as 'float32', 'int64' or "
                "'string'."
            )
        return column

    @property
    def keys(self) -> list[str]:
        """The names of a column's properties."""
        return list(self.added_prop)

    def __str__(self) -> str:
        return "{" + ";".join(f"{key}={getattr(self, key)}" for key in self.keys) + "}"

    __repr__ = __str__
