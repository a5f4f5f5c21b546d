"""The flag --cluster is read, and each mistake in it is named."""

from __future__ import annotations

import pytest

from generic_trainer import InputError
from generic_trainer.cli import cluster_flag
from generic_trainer.cli.cluster_flag import parse_counts


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("chief=1,workers=2", "'workers' is not one of chief, worker, ps, evaluator, master. Did you mean 'worker'?"),
        ("chief", "give the number of chief tasks"),
        ("worker=1,worker=2", "set each role once"),
        (f"worker={2**70}", "give the number of worker tasks, an integer from 0 to 1,000,000"),
        ("chief=2", "there can be only one chief"),
        ("ps=1,evaluator=1", "the cluster needs a chief or a worker"),
        ("chief=0", "the cluster needs a chief or a worker"),
    ],
)
def test_invalid_clusters(text: str, what: str) -> None:
    with pytest.raises(InputError, match="--cluster") as caught:
        parse_counts(text)
    assert what in str(caught.value)


def test_counts_by_role() -> None:
    assert parse_counts("chief=1, worker=2,ps=0") == {"chief": 1, "worker": 2}
    assert parse_counts("worker=2,ps=1") == {"worker": 2, "ps": 1}


def test_without_the_engine_of_such_clusters_the_flag_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_flag, "_LOCAL_CLUSTERS", "generic_trainer.clusters_of_no_package")
    with pytest.raises(InputError, match="no installed package registers an entry point in generic_trainer"):
        cluster_flag.local_cluster()
