"""Inspects and checks the signatures of a training module's functions, and calls them with matching arguments."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TypeVar

from ..errors import ModuleError

Result = TypeVar("Result")

# Parameters of functions that return an Estimator.
_FACTORY_PARAMETERS = frozenset({"config", "run_config", "params", "model_dir", "warm_start_from"})
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
    """Returns whether a function can be called like `trainer_fn(fn_args, schema)`.

    It must have exactly two parameters without a default, and not be a model function (`features`, `labels`).
    """
    if not callable(function) or takes_features_and_labels(function):
        return False
    try:
        inspect.signature(function).bind(object(), object())
    except (TypeError, ValueError):
        return False
    return len(required_parameters(function)) == 2


def takes_factory_arguments(required: Iterable[str]) -> bool:
    """Whether a function that requires these parameters can be called to create an Estimator."""
    return set(required) <= _FACTORY_PARAMETERS


def required_parameters(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's parameters without a default.

    Raises:
      ValueError: For a callable that is implemented in C and has no signature.
    """
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]


def require_plain_call(function: Callable[..., object], where: str) -> None:
    """Checks that a call of a function runs its body.

    Args:
      function: A function, a `functools.partial`, or an object with `__call__`.
      where: The module and function, for error messages.

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


def function_in(module: ModuleType, name: str, needs: str) -> Callable[..., object]:
    """Returns a module's function by name.

    Args:
      module: The imported training module.
      name: The function's name.
      needs: The dialect's `needs`, for the error message.

    Raises:
      ModuleError: When it is missing, or is a coroutine function or generator, so that calling it runs nothing.
    """
    function = getattr(module, name, None)
    if not callable(function):
        raise ModuleError(f"Training module {module.__file__} has no function {name!r}; the dialect needs {needs}.")
    require_plain_call(function, f"{module.__file__}: {name}")
    result: Callable[..., object] = function
    return result


def require_has_run(returned: object, where: str) -> None:
    """Checks that a function did not return an unstarted coroutine or generator instead of doing its work.

    Args:
      returned: The function's return value.
      where: The module and function, for error messages.

    Raises:
      ModuleError: When it returned a coroutine or generator that has not started, or an asynchronous generator.
    """
    if inspect.iscoroutine(returned) and inspect.getcoroutinestate(returned) == inspect.CORO_CREATED:
        returned.close()  # avoids Python's "was never awaited" warning
        raise ModuleError(f"{where} returned a coroutine that was not awaited, so nothing ran. {_PLAIN_REMEDY}")
    is_generator = inspect.isgenerator(returned) and inspect.getgeneratorstate(returned) == inspect.GEN_CREATED
    if is_generator or inspect.isasyncgen(returned):
        raise ModuleError(f"{where} returned a generator that was not iterated, so nothing ran. {_PLAIN_REMEDY}")


def takes_features_and_labels(function: object) -> bool:
    """Returns whether a function is a model function: its first two parameters are `features` and `labels`."""
    return inspect.isfunction(function) and parameter_names(function)[:2] == ["features", "labels"]


def required_parameters_of(definition: ast.stmt) -> list[str] | None:
    """Returns the parameters without a default of a function's syntax tree, by name; None for other statements."""
    if not isinstance(definition, ast.FunctionDef):
        return None
    given = definition.args
    positional = [*given.posonlyargs, *given.args]
    required = positional[: len(positional) - len(given.defaults)]
    keywords = [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [one.arg for one in (*required, *keywords)]


def parameters_of(definition: ast.stmt) -> list[str]:
    """Returns the names of a function's positional parameters from its syntax tree; [] for other statements."""
    return [one.arg for one in definition.args.args] if isinstance(definition, ast.FunctionDef) else []


def parameter_names(function: Callable[..., object]) -> list[str]:
    """Returns the names of a function's parameters that can be passed as keyword arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in inspect.signature(function).parameters.items() if parameter.kind in kinds]


def call_by_name(function: Callable[..., Result], known: Mapping[str, object], where: str) -> Result:
    """Calls a function with those of the known keyword arguments that it has parameters for.

    Args:
      function: Any callable with a signature.
      known: Values by parameter name.
      where: The module and function, for error messages.

    Raises:
      ModuleError: When it has a parameter without a default that is not in `known`.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic and name not in known:
            raise ModuleError(
                f"{where} has the unknown parameter {name!r}. Allowed are "
                f"{', '.join(known)}, and parameters with defaults."
            )
    return function(**{name: known[name] for name in parameter_names(function) if name in known})


def require_call(
    module: ModuleType, name: str, function: object, count: int, form: str, optional: tuple[str, ...] = ()
) -> None:
    """Checks that a function can be called with `count` positional arguments.

    Args:
      module: The module that contains it, for error messages.
      name: The function's name in the module.
      function: The module's attribute of that name; need not be callable.
      count: The number of positional arguments.
      form: The required signature, for error messages, such as "trainer_fn(fn_args, schema)".
      optional: Names of keyword arguments that are passed if the function has parameters for them.

    Raises:
      ModuleError: When it is not callable or does not accept the arguments; names its signature and the required one.
    """
    if not callable(function):
        raise ModuleError(f"{module.__file__}: {name} is {function!r}; write it as def {form}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # callables implemented in C may have no signature
        return
    more = {one: object() for one in optional if one in list(signature.parameters)[count:]}
    try:
        signature.bind(*[object()] * count, **more)
    except TypeError as error:
        raise ModuleError(
            f"{module.__file__}: {name}{shown_signature(function)} cannot be called with the required arguments "
            f"({error}). Write it as def {form}."
        ) from None


def shown_signature(function: Callable[..., object]) -> str:
    """Returns a signature without annotations, such as "(fn_args, schema=None)"; "(…)" if it is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    return f"({', '.join(str(one.replace(annotation=one.empty)) for one in parameters)})"
