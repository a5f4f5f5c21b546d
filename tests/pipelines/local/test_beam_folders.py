"""Beam's temporary folder, which belongs to the whole process."""

from __future__ import annotations

import os
import tempfile

from generic_trainer.pipelines.local.beam_folders import temporary_beam_folder


def test_two_pipelines_share_it_until_the_last_one_ends() -> None:
    before = tempfile.tempdir
    first, second = temporary_beam_folder(), temporary_beam_folder()
    first.__enter__()
    second.__enter__()
    folder = tempfile.gettempdir()
    first.__exit__(None, None, None)
    assert tempfile.gettempdir() == folder
    assert os.path.isdir(folder)
    second.__exit__(None, None, None)
    assert tempfile.tempdir == before
    assert not os.path.exists(folder)
