"""A strategic merge patch merges objects and the lists that Kubernetes merges by a key, and replaces other lists."""

from __future__ import annotations

from typing import Any

import pytest

from generic_trainer import InputError
from generic_trainer.pipelines.submit.strategic_merge import merged

POD = {
    "spec": {
        "containers": [
            {"name": "node", "image": "i", "env": [{"name": "A", "value": "1"}], "args": ["a", "b"]},
            {"name": "proxy", "image": "p"},
        ],
        "tolerations": [{"key": "gpu"}],
        "nodeSelector": {"zone": "a", "disk": "ssd"},
    }
}


def spec_with(patch: dict[str, Any]) -> dict[str, Any]:
    before = repr(POD)
    result: dict[str, Any] = merged(POD, {"spec": patch})["spec"]
    assert repr(POD) == before
    return result


def test_items_are_merged_by_their_key_at_every_level() -> None:
    patch = {
        "name": "node",
        "imagePullPolicy": "Always",
        "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}],
    }
    node, proxy = spec_with({"containers": [patch]})["containers"]
    assert node["env"] == [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]
    assert (node["image"], node["imagePullPolicy"], proxy) == ("i", "Always", {"name": "proxy", "image": "p"})


def test_new_items_are_appended() -> None:
    names = [one["name"] for one in spec_with({"containers": [{"name": "log", "image": "l"}]})["containers"]]
    assert names == ["node", "proxy", "log"]
    assert spec_with({"initContainers": [{"name": "copy"}]})["initContainers"] == [{"name": "copy"}]


def test_lists_without_a_key_are_replaced() -> None:
    assert spec_with({"tolerations": [{"key": "spot"}]})["tolerations"] == [{"key": "spot"}]
    assert spec_with({"containers": [{"name": "node", "args": ["c"]}]})["containers"][0]["args"] == ["c"]


def test_null_and_directives_remove() -> None:
    assert spec_with({"nodeSelector": {"zone": None}})["nodeSelector"] == {"disk": "ssd"}
    assert spec_with({"nodeSelector": {"$patch": "replace", "zone": "b"}})["nodeSelector"] == {"zone": "b"}
    assert [
        one["name"] for one in spec_with({"containers": [{"name": "proxy", "$patch": "delete"}]})["containers"]
    ] == ["node"]
    assert spec_with({"containers": [{"$patch": "replace"}, {"name": "only"}]})["containers"] == [{"name": "only"}]


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"spec": {"containers": {"name": "x"}}}, r"spec.containers: an object cannot be merged into list"),
        ({"spec": {"nodeSelector": ["a"]}}, r"spec.nodeSelector: a list cannot be merged into dict"),
        ({"spec": {"containers": "x"}}, r"spec.containers: 'x' cannot replace an array"),
        ({"spec": {"containers": [{"image": "x"}]}}, r"spec.containers\[0\]: name is missing"),
        ({"spec": {"containers": ["node"]}}, r"spec.containers\[0\]: expected an object with name, not 'node'"),
        (
            {"spec": {"containers": [{"name": "node", "env": [{"value": "x"}]}]}},
            r"spec.containers\[0\].env\[0\]: name is missing",
        ),
        ({"spec": {"$patch": "remove"}}, r"spec: \$patch 'remove' is not supported"),
    ],
)
def test_a_patch_that_does_not_fit_is_rejected_with_its_place(patch: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        merged(POD, patch)
