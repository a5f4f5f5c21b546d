"""Fuzzes one parser with atheris: `python -m fuzz.run recordio -max_total_time=600`; flags are those of libFuzzer.

A harness is a file in this folder with SEEDS, the initial corpus, and `check(data)`, which raises if a reader crashes
or returns wrong rows. Failing inputs are written to the current folder. After the fix, move them to
`regressions/PARSER/`, which tests/fuzz runs in every build.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
import tempfile

import atheris

_HERE = pathlib.Path(__file__).resolve().parent
_LIMITS = ("-timeout=20", "-rss_limit_mb=3000", "-max_len=4096", "-print_final_stats=1", "-verbosity=0")


def main() -> None:
    """Fuzzes the parser given as first argument, with seeds and regressions as corpus."""
    name, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=["generic_trainer", "fuzz"]):
        parser = importlib.import_module(f"fuzz.{name}")
    with tempfile.TemporaryDirectory(prefix=f"corpus-{name}-") as corpus:
        regressions = sorted((_HERE / "regressions" / name).glob("*"))
        for number, seed in enumerate([*parser.SEEDS, *(file.read_bytes() for file in regressions)]):
            pathlib.Path(corpus, str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], *_LIMITS, *flags, corpus], parser.check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
