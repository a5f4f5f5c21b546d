"""Dialect selection for an imported module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from ..errors import ModuleError, did_you_mean
from ..options import TrainingOptions
from ..spelling import nearest
from .base import Dialect
from .registry import call_dialect, require_installed


def choose(
    module: ModuleType, function: str | None, options: TrainingOptions, dialects: Mapping[str, Dialect]
) -> tuple[str, str]:
    """Selects the dialect of an imported module.

    An explicit `options.dialect` is used without checking the module. With "auto", dialects whose `yields` is true are
    considered only if no other dialect matches.

    Args:
      module: The imported module.
      function: The function name that the user requested, or None.
      options: The training options.
      dialects: The result of `registry.adapters`.

    Returns:
      The dialect's name, and the reason for the choice.

    Raises:
      InputError: When `options.dialect` is not the name of an installed dialect.
      ModuleError: When no dialect matches, or more than one.
    """
    if options.dialect != "auto":
        require_installed(options.dialect, dialects)
        return options.dialect, f"dialect={options.dialect!r} was requested"
    reasons = {name: call_dialect(dialect, Dialect.matches, module, function) for name, dialect in dialects.items()}
    evidence = {name: reason for name, reason in reasons.items() if reason}
    first = {name: reason for name, reason in evidence.items() if not dialects[name].yields(function)} or evidence
    if len(first) != 1:
        raise ModuleError(_explain_no_match(module, function, first, dialects))
    [choice] = first.items()
    return choice


def _explain_no_match(
    module: ModuleType, function: str | None, evidence: Mapping[str, str], dialects: Mapping[str, Dialect]
) -> str:
    where = f"Training module {module.__file__}"
    if evidence:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in sorted(evidence.items()))
        return f"{where} matches more than one dialect: {reasons}. Choose one with the option dialect."
    own = sorted(name for name, value in vars(module).items() if callable(value) and not name.startswith("__"))
    hint = did_you_mean(function or "run_fn", own) or _misspelled(own, dialects)
    needs = "; ".join(f"{name} needs {dialect.needs}" for name, dialect in sorted(dialects.items()))
    hint += unmatched_hints(str(module.__file__), dialects)
    problem = f"no function {function!r}" if function else "no entry point of a known dialect"
    return f"{where} has {problem}.{hint} It defines {', '.join(own) or 'no functions or classes'}. {needs}."


def unmatched_hints(path: str, dialects: Mapping[str, Dialect]) -> str:
    """Returns how a file that matches no dialect can be run, if a dialect sees a way; see `Dialect.unmatched_hint`."""
    return "".join(call_dialect(dialect, Dialect.unmatched_hint, path) for dialect in dialects.values())


def _misspelled(own: Sequence[str], dialects: Mapping[str, Dialect]) -> str:
    known = [name for dialect in dialects.values() for name in dialect.entry_points]
    matches = ((name, nearest(name, known)) for name in own if name not in known)
    return next((f" Did you mean {name!r} to be {match!r}?" for name, match in matches if match), "")
