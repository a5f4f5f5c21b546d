"""Abbreviated flags, as argparse accepts them in the command lines of other projects.

@click.command(context_settings=abbreviations(["num_ps_pods", "num_workers"]))      # --num_ps=2
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_SHORTEST = 2  # characters; click passes the letters of short options such as -h, too


def abbreviations(names: Collection[str]) -> dict[str, Callable[[str], str]]:
    """Returns the context settings of a command that accepts each unique beginning of some of its flags.

    Args:
      names: The flags of the other project, without dashes. The command's own flags cannot be abbreviated.
    """

    def full_name(given: str) -> str:
        if given in names or len(given) < _SHORTEST:
            return given
        matches = [name for name in names if name.startswith(given)]
        return matches[0] if len(matches) == 1 else given

    return {"token_normalize_func": full_name}
