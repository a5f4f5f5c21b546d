"""What the signatures of a user's functions tell: which dialect one belongs to, and what it wants to be given."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeVar

from ..errors import ModuleError

Result = TypeVar("Result")

_PLAIN_REMEDY = (
    "Write it as a plain function. To run asynchronous code, call asyncio.run(main(fn_args)) in it; to run a "
    "generator, iterate over it there."
)
_LAZY_FUNCTIONS: dict[str, Callable[[object], bool]] = {
    "an `async def`": inspect.iscoroutinefunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
    "a generator (it has a `yield`)": inspect.isgeneratorfunction,
}


def takes_fn_args_and_schema(function: object) -> bool:
    """Returns whether a function takes two positional arguments, as `trainer_fn` does."""
    if not callable(function) or takes_features_and_labels(function):
        return False
    try:
        signature = inspect.signature(function)
        signature.bind(object(), object())
    except (TypeError, ValueError):
        return False
    required = [p for p in signature.parameters.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    return len(required) == 2


def require_plain_call(function: Callable[..., object], where: str) -> None:
    """Makes sure that calling a function runs it.

    Args:
      function: A function, a partial, or an object with `__call__`.
      where: The module and function, for messages.

    Raises:
      ModuleError: When a call would only create a coroutine or a generator.
    """
    code = inspect.unwrap(function)
    while isinstance(code, functools.partial):
        code = inspect.unwrap(code.func)
    if not (inspect.isroutine(code) or inspect.isclass(code)):
        code = inspect.unwrap(type(code).__call__)
    for kind, is_one in _LAZY_FUNCTIONS.items():
        if is_one(code):
            raise ModuleError(f"{where} is {kind}: calling it runs nothing. {_PLAIN_REMEDY}")


def require_has_run(returned: object, where: str) -> None:
    """Makes sure that a function has not returned a coroutine or generator that holds all of its work.

    Raises:
      ModuleError: When it has.
    """
    if inspect.iscoroutine(returned) and inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
        returned.close()  # or Python warns that it was never awaited
        raise ModuleError(f"{where} returned a coroutine that was not awaited, so nothing ran. {_PLAIN_REMEDY}")
    is_generator = inspect.isgenerator(returned) and inspect.getgeneratorstate(returned) == inspect.GEN_CREATED
    if is_generator or inspect.isasyncgen(returned):
        raise ModuleError(f"{where} returned a generator that was not iterated, so nothing ran. {_PLAIN_REMEDY}")


def takes_features_and_labels(function: object) -> bool:
    """Returns whether a function is a model function by the names of its first two parameters."""
    return inspect.isfunction(function) and parameter_names(function)[:2] == ["features", "labels"]


def parameters_of(definition: ast.stmt) -> list[str]:
    """Returns the names of a function's positional parameters, read off its syntax tree; [] of anything else."""
    return [one.arg for one in definition.args.args] if isinstance(definition, ast.FunctionDef) else []


def parameter_names(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's parameters that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds]


def call_by_name(function: Callable[..., Result], known: Mapping[str, object], where: str) -> Result:
    """Calls a function with those of the known arguments that it has parameters for.

    Args:
      function: Any callable with a signature.
      known: Values by parameter name.
      where: The module and function, for messages.

    Raises:
      ModuleError: When it has a parameter without a default that is not among the known ones.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic and name not in known:
            raise ModuleError(
                f"{where} has the parameter {name!r}, for which there is nothing to give. It may have "
                f"{', '.join(known)}, and others that have defaults."
            )
    return function(**{name: known[name] for name in parameter_names(function) if name in known})


def require_call(
    module: ModuleType, name: str, function: object, count: int, form: str, optional: tuple[str, ...] = ()
) -> None:
    """Makes sure that a function can be called with so many positional arguments.

    Args:
      module: The module that holds it, for messages.
      name: Its name there.
      function: What the module has by that name.
      count: How many positional arguments it is given.
      form: How it is written, for messages.
      optional: Arguments that it is given by name if it has them.

    Raises:
      ModuleError: With its signature and the form that it has to have.
    """
    if not callable(function):
        raise ModuleError(f"{module.__file__}: {name} is {function!r}; write it as def {form}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a callable in C
        return
    more = {one: object() for one in optional if one in list(signature.parameters)[count:]}
    try:
        signature.bind(*[object()] * count, **more)
    except TypeError as error:
        raise ModuleError(
            f"{module.__file__}: {name}{shown_signature(function)} cannot be called as it will be ({error}). "
            f"Write it as def {form}."
        ) from None


def shown_signature(function: Callable[..., object]) -> str:
    """Returns a signature without annotations: "(fn_args, schema=None)"."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    return f"({', '.join(str(one.replace(annotation=one.empty)) for one in parameters)})"
