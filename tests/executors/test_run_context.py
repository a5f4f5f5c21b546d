from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator

from generic_trainer.executors import run_context


class Part:
    def __init__(self, name: str) -> None:
        self.name = name


def name() -> str:
    found = run_context.part(Part)
    return found.name if found else ""


def in_a_thread() -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(name()))
    thread.start()
    thread.join()
    return found[0]


def test_a_part_is_there_while_its_block_runs() -> None:
    assert name() == ""
    with run_context.extended(Part("a")):
        assert name() == "a"
        with run_context.extended(Part("b")):
            assert name() == "b"
        with run_context.extended(without=Part):
            assert name() == ""
        assert name() == "a"
    assert name() == ""


def test_threads_that_a_run_starts_are_in_its_context() -> None:
    with run_context.extended(Part("a")):
        assert in_a_thread() == "a"
        with run_context.extended(Part("b")):
            assert in_a_thread() == "b"
    assert in_a_thread() == ""


def test_runs_in_threads_do_not_see_each_other() -> None:
    entered, over = threading.Event(), threading.Event()
    seen: list[str] = []

    def run() -> None:
        with run_context.extended(Part("other")):
            entered.set()
            over.wait()
            seen.append(name())

    thread = threading.Thread(target=run)
    with run_context.extended(Part("own")):
        thread.start()
        entered.wait()
        assert name() == "own"
    over.set()
    thread.join()
    assert seen == ["other"]
    assert name() == ""


def test_a_reader_is_in_the_context_that_it_was_built_in() -> None:
    def names() -> Iterator[str]:
        while True:
            yield name()

    with run_context.extended(Part("own")):
        read = run_context.bound(names)()
        with run_context.extended(Part("later")):
            seen: list[str] = []
            thread = threading.Thread(target=lambda: seen.extend(itertools.islice(read, 2)))
            thread.start()
            thread.join()
            assert (seen, next(read), name()) == (["own", "own"], "own", "later")


def test_a_forked_child_can_enter_a_context() -> None:
    with run_context.extended(Part("a")):
        child = os.fork()
        if child == 0:
            with run_context.extended(Part("b")):
                os._exit(0 if name() == "b" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
