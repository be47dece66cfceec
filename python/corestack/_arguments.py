"""Functions with the arguments of another one: they are written down there alone, and help() shows them for both."""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")


def like(other: Callable[P, Any], without: str = "") -> Callable[[Callable[..., R]], Callable[P, R]]:
    """For `def function(**given)`: it takes what `other` takes except the names in `without`, and gets all by name."""
    return functools.partial(_completed, [other], without)


def taking(*others: Callable[..., Any], without: str = "") -> Callable[[F], F]:
    """For `def function(its, own, **arguments)`: in `arguments` it takes what others take except the names in `without`."""
    return functools.partial(_completed, others, without)


def _completed(others: Any, without: str, function: Any) -> Any:
    own = inspect.signature(function)
    found = {name: one for name, one in own.parameters.items() if one.kind is not one.VAR_KEYWORD}
    for other in others:
        for name, one in inspect.signature(other).parameters.items():
            if name not in without.split():
                found.setdefault(name, one)
    shown = own.replace(parameters=sorted(found.values(), key=lambda one: one.kind))

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            given = shown.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        given.apply_defaults()
        return function(**given.arguments)

    called.__signature__ = shown  # type: ignore[attr-defined]
    return called
