"""Tests of the container image without building it; scripts/check-image.sh builds and tests its content."""

from __future__ import annotations

import configparser
import os
import pathlib
import re
import shutil
import subprocess

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "scripts"


def locked(name: str) -> dict[str, str]:
    """Returns {package: version} of a lock."""
    text = (REPOSITORY / "requirements" / f"{name}.txt").read_text()
    return dict(re.findall(r"(?m)^([\w.-]+)(?:\[[^]]*\])?==(\S+)", text))


def test_its_packages_have_the_versions_that_the_tests_run_with() -> None:
    image, tested = locked("image"), locked("py313")
    assert {name: image[name] for name in image if name in tested} == {
        name: tested[name] for name in tested if name in image
    }
    assert {"tensorflow", "tfx", "ray", "kfp", "tensorflow-estimator", "pyodps"} <= set(image)
    assert set(image).isdisjoint({"pytest", "mypy", "ruff", "pre-commit", "build"})


def test_the_gpu_variant_adds_tensorflows_cuda_libraries_and_no_more() -> None:
    added = locked("image-cuda")
    assert {"nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12"} <= set(added)
    assert {name.partition("-")[0] for name in added} == {"nvidia"}
    assert set(added).isdisjoint(locked("image"))


def test_the_slim_variant_has_the_same_versions_without_clusters() -> None:
    image, slim = locked("image"), locked("image-slim")
    assert slim.items() <= image.items()
    assert {"ray", "kfp", "pyodps"} <= set(image) - set(slim)


def test_the_build_sees_every_package_and_whatever_it_copies() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    seen = {line[1:] for line in lines if line.startswith("!")}
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    packages = {name.split(".")[1] for name in config["options"]["packages"].split() if "." in name}
    assert packages <= seen
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    copied = {path for line in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", dockerfile) for path in line.split()}
    assert copied - {"."} <= seen
    for path in seen - {"*.py"}:
        assert (REPOSITORY / path).exists(), path


def tools(folder: pathlib.Path, *names: str) -> dict[str, str]:
    """Returns an environment whose PATH has these programs and no others."""
    folder.mkdir()
    for name in names:
        program = shutil.which(name)
        assert program, name
        (folder / name).symlink_to(program)
    return {**os.environ, "PATH": str(folder)}


def test_without_an_engine_the_build_reports_what_to_install(tmp_path: pathlib.Path) -> None:
    environment = tools(tmp_path / "bin", "bash", "env", "dirname", "sed")
    script = [str(SCRIPTS / "build-image.sh")]
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert "error: no container engine on this machine: install docker, podman or buildah" in done.stderr
    assert "make check-image" in done.stderr

    # Only a client, as on machines where the daemon does not run.
    client = tmp_path / "bin" / "docker"
    client.write_text("#!/bin/sh\nexit 1\n")
    client.chmod(0o755)
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert "docker is installed, but its engine does not respond" in done.stderr


def test_the_image_check_without_root_is_an_error() -> None:
    user = {"user": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    if user and not all(folder.stat().st_mode & 0o005 == 0o005 for folder in (SCRIPTS, *SCRIPTS.parents)):
        pytest.skip("the repository lies where another user cannot read it")
    line = ["bash", str(SCRIPTS / "check-image.sh")]
    done = subprocess.run(line, capture_output=True, text=True, check=False, **user)
    assert done.returncode == 1
    assert "entering them by chroot needs root" in done.stderr
