"""Errors from below as errors of ours, which name the operation or layer and what it received."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from singax.errors import DTypeError, ShapeError, SingaxError

FROM_BELOW = (TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError, AttributeError)
NOT_ABOUT_INPUTS = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)


def explained(name: str, arguments: Any, options: dict[str, Any], error: Exception) -> SingaxError:
    """`error`, raised by JAX or NumPy, as a `ShapeError` or `DTypeError` that says what `name` received."""
    arrays_only = all(hasattr(leaf, "dtype") or isinstance(leaf, int | float) for leaf in jax.tree.leaves(arguments))
    kind = ShapeError if arrays_only and "dtype" not in str(error) else DTypeError
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    received = ", ".join(filter(None, [described(arguments), given]))
    return kind(f"{name} cannot take these inputs. Received: {received}. {type(error).__name__}: {_first_line(error)}")


def named_in_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which is made of operations, under its own name in the errors that come out of it."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except SingaxError as error:
            error.operation = function.__name__
            raise
        except NOT_ABOUT_INPUTS:
            raise
        except FROM_BELOW as error:
            raise explained(function.__name__, args, kwargs, error) from error

    return guarded


def described(arguments: Any) -> str:
    """Shapes and dtypes of everything array-like in `arguments`, for messages."""
    leaves = jax.tree.leaves(arguments, is_leaf=lambda leaf: leaf is None)
    return ", ".join(f"{v.dtype}{list(v.shape)}" if hasattr(v, "dtype") else repr(v) for v in leaves) or "nothing"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
