"""Shows where the time goes from a worker's death to the next step that counts, on a local Ray cluster.

    python benchmarks/recovery.py --deaths 5

Two workers train the loop of `workers.py`. Each death is a SIGKILL of worker 1 at another distance from the last
checkpoint. The table has the median seconds from one event to the next.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import statistics
import sys
import tempfile

import workers

EVENTS = (
    "process started",
    "training function called",
    "group formed",
    "model built",
    "checkpoint restored",
    "traced, first step",
)
_COUNTS = "next step that counts"


def stages(folder: pathlib.Path, steps: list[tuple[float, int]], count: int = 2) -> dict[str, list[float]]:
    """Returns the seconds of each stage for each death; a stage ends when all workers have reached its event."""
    events = [_events(folder, worker) for worker in range(count)]
    counted = {number: when for when, number in steps}
    found = collections.defaultdict(list)
    for death in map(float, (folder / "kills").read_text().split()):
        last = death
        for event in EVENTS:
            when = max(min(time for time, name in one if name == event and time > death) for one in events)
            found[event].append(when - last)
            last = when
        end = min(when for when in counted.values() if when > death)
        found[_COUNTS].append(end - last)
        found["total"].append(end - death)
    return found


def _events(folder: pathlib.Path, worker: int) -> list[tuple[float, str]]:
    rows = (row.split(" ", 1) for row in (folder / f"events-{worker}").read_text().splitlines())
    return [(float(when), name) for when, name in rows]


def main() -> None:
    """Trains with deaths and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deaths", type=int, default=3)
    parser.add_argument("--every", type=float, default=40.3, help="Seconds between deaths.")
    parser.add_argument("--plain", action="store_true", help="Measure plain Ray Train instead.")
    options = parser.parse_args()
    side = workers.plain if options.plain else workers.ours
    steps = int((options.deaths + 1) * options.every / 0.05)
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        deaths = workers.Deaths(5, options.every, options.deaths)
        done = side(workers.Loop(name, steps, 0.05), 2, deaths)
        found = stages(pathlib.Path(name), done)
        sys.stdout.write(f"goodput {workers.goodput(done):.3f} with a death every {options.every:g} s\n")
    for event, seconds in found.items():
        sys.stdout.write(f"{event:26} {statistics.median(seconds):6.2f} s\n")


if __name__ == "__main__":
    main()
