"""Training options as keyword arguments and execution parameters of a component.

The constructor takes `**options: Unpack[TrainerKeywords]`, which type checkers and editors expand by
`executors/option_types.pyi`. `takes_options` expands them for `inspect.signature`, `help` and notebooks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tfx.types.component_spec import ExecutionParameter

from ..executors.option import Option
from ..executors.options import TrainingOptions, declared_options

Constructor = TypeVar("Constructor", bound=Callable[..., None])


def execution_parameters(options: Sequence[Option]) -> dict[str, ExecutionParameter]:
    """Returns an optional execution parameter for each option."""
    return {option.name: ExecutionParameter(type=option.stored_type, optional=True) for option in options}


def takes_options(options: Sequence[Option]) -> Callable[[Constructor], Constructor]:
    """Returns a decorator that lists the `**options` of a constructor in its signature and rejects other keywords.

    The decorated constructor raises TypeError for an unknown keyword.
    """

    def decorate(constructor: Constructor) -> Constructor:
        signature = _with_options(inspect.signature(constructor), options)

        @functools.wraps(constructor)
        def construct(*arguments: object, **keywords: object) -> None:
            for name in keywords:
                if name not in signature.parameters:
                    raise TypeError(f"{constructor.__qualname__}() got an unexpected keyword argument {name!r}")
            constructor(*arguments, **keywords)

        lines = [f"          {option.name}: {option.help}" for option in options]
        construct.__doc__ = "\n".join([constructor.__doc__ or "", "        Options:", *lines, ""])
        construct.__signature__ = signature  # type: ignore[attr-defined]
        return cast(Constructor, construct)

    return decorate


def options_from_keywords(keywords: Mapping[str, object]) -> TrainingOptions:
    """Builds the options from keyword arguments; converts lists to tuples, and integers to strings (`workers=2`).

    Raises:
      InputError: When a value is not allowed.
    """
    given = {option.name: option for option in declared_options() if option.name in keywords}
    return TrainingOptions(**{name: _converted(keywords[name], option.kind) for name, option in given.items()})


def _converted(value: Any, kind: type) -> Any:
    return kind(value) if kind is tuple or (kind is str and type(value) is int) else value


def _with_options(signature: inspect.Signature, options: Sequence[Option]) -> inspect.Signature:
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    keywords = [
        inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.annotation
        )
        for option in options
    ]
    return signature.replace(parameters=[*own, *keywords])
