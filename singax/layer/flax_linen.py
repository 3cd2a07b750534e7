"""Flax Linen modules as `FromFlax` wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from singax.errors import ArgumentError, ShapeError
from singax.layer.flax_values import Drawn, JointDraw, Plan, Values, Variable
from singax.ops.explain import described

PARAMETERS = "params"


class LinenAdapter:
    """A `flax.linen.Module`.

    Variables of the collection "params" are named by their path (`Dense_0.kernel`), others by collection and path
    (`batch_stats.BatchNorm_0.mean`). What `sow` collects is dropped.
    """

    def __init__(self, module: Any, method: str | None, streams: Sequence[str]) -> None:
        self.module, self.method, self.streams = module, method, tuple(streams)
        self.function: Callable[..., Any] = getattr(module, method or "__call__")

    def __deepcopy__(self, memo: dict[int, Any]) -> LinenAdapter:
        return self

    def plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
        """The variables for these inputs, of which only the shapes count."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype) if hasattr(v, "dtype") else v for v in leaves]
        places: dict[str, tuple[str, ...]] = {}

        def draw(key: jax.Array) -> Values:
            zeros = [jnp.zeros(v.shape, v.dtype) if isinstance(v, jax.ShapeDtypeStruct) else v for v in shapes]
            args, kwargs = jax.tree.unflatten(tree, zeros)
            keys = {name: jax.random.fold_in(key, k) for k, name in enumerate((PARAMETERS, *self.streams))}
            found = list(_flat(self._run(self.module.init, keys, *args, **kwargs)))
            places.update({name: place for name, place, _ in found})
            return {name: value for name, _, value in found}

        joint = JointDraw(draw)
        shaped = jax.eval_shape(lambda: draw(jax.random.key(0)))
        return Plan(
            {n: Variable(v.shape, v.dtype, places[n][0] == PARAMETERS, Drawn(joint, n)) for n, v in shaped.items()},
            places,
        )

    def apply(
        self, plan: Plan, values: Values, keys: Sequence[jax.Array], training: bool, args: Any, kwargs: Any
    ) -> tuple[Any, Values]:
        """The outputs, and new values of variables."""
        from flax.traverse_util import unflatten_dict

        variables = unflatten_dict({plan.details[name]: value for name, value in values.items()})
        states = [collection for collection in variables if collection != PARAMETERS]
        rngs = dict(zip(self.streams, keys, strict=True))
        out, new = self._run(self.module.apply, variables, *args, rngs=rngs, mutable=states, **kwargs)
        return out, {name: value for name, _, value in _flat(new) if name in values}

    def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        from flax.errors import InvalidRngError, ScopeParamShapeError

        try:
            return function(*args, method=self.method, **kwargs)
        except InvalidRngError as error:
            raise ArgumentError(
                f"{type(self.module).__name__} draws from a stream of random numbers that FromFlax does not provide: "
                f"name all of them in rngs. Received: rngs={self.streams!r}. {str(error).splitlines()[0]}"
            ) from error
        except ScopeParamShapeError as error:
            raise ShapeError(
                f"{type(self.module).__name__} was built for other inputs. Received: {described(args[1:])}. {error}"
            ) from error


def _flat(variables: Any) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """(name, collection and path, value) of every variable that holds one array."""
    from flax.core import meta, unfreeze
    from flax.traverse_util import flatten_dict

    for place, value in flatten_dict(unfreeze(meta.unbox(variables))).items():
        if hasattr(value, "dtype"):
            yield ".".join(place[1:] if place[0] == PARAMETERS else place), place, value
