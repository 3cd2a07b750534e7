"""SINGA's operator classes, each derived from the function that bears its functional name.

`@operator_class("Elu")` makes the class of a function: the function's first parameter is the input, the others are
the constructor's arguments. A call of the class is a call of the function, and what the function returns has an
instance of the class as its creator.

>>> import singax as sx
>>> x = sx.Tensor(data=[-1.0, 2.0])
>>> sx.autograd.LeakyRelu(0.5)(x)[0].to_numpy()
array([-0.5,  2. ], dtype=float32)
>>> sx.autograd.leakyrelu(x, 0.5).creator.a
0.5
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import BoundArguments, Parameter, Signature
from typing import Any, ClassVar

from singax import mode
from singax.autograd.node import Node
from singax.autograd.recorder import node
from singax.errors import ArgumentError
from singax.mode import local
from singax.ops.explain import named_in_errors
from singax.tensor import Tensor

Function = Callable[..., Any]


class Derived(Node):
    """Base of SINGA's operator classes. Constructor arguments become attributes; a call returns a tuple of Tensors.

    Once called, the object is the `creator` of what it returned, and `creator.backward(*dys)` gives raw gradients.
    An object that is called again stays the creator of its first results; later ones have a copy of it.
    """

    function: ClassVar[Function]
    parameters: ClassVar[Signature]  # of the function
    defaults: ClassVar[Mapping[str, Any]]  # of its parameters
    counts: ClassVar[range]  # how many positional arguments it takes; empty: any number
    input_names: ClassVar[tuple[str, ...]]
    many: ClassVar[bool]  # the only input is a sequence of Tensors
    argument_names: ClassVar[Mapping[str, str]]  # the function's parameter → the constructor's
    __signature__: ClassVar[Signature]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = type(self).__signature__.bind(*args, **kwargs)
        bound.apply_defaults()
        self._set(bound.arguments)

    def _set(self, arguments: Mapping[str, Any]) -> None:
        super().__init__(type(self).__name__)
        self.name = arguments.get("name") or self.name
        self._describe({key: value for key, value in arguments.items() if key != "name"})

    def _describe(self, arguments: Mapping[str, Any], called: bool = False) -> None:
        self.arguments, self.called = arguments, called
        self.__dict__.update(arguments)

    def __call__(self, *xs: Any) -> tuple[Any, ...]:
        if local.frame is None and not all(isinstance(x, Tensor) for x in xs):
            kinds = ", ".join(type(x).__name__ for x in xs)
            raise ArgumentError(f"{type(self).__name__} is called with Tensors outside a layer. Received: {kinds}")
        made = self.forward(*xs)
        outputs = made if isinstance(made, tuple) else (made,)
        if local.frame is None and not _passed_on(xs, outputs):
            operator = _made(type(self), self.arguments) if self.called else self
            operator.called = True
            operator.take_over(_recorded_node(outputs), _noted(xs), outputs)
        return outputs

    def forward(self, *xs: Any) -> Any:
        """The function of these inputs and the constructor's arguments."""
        kind = type(self)
        if not kind.many and len(xs) > len(kind.input_names):
            raise ArgumentError(
                f"{kind.__name__} takes {len(kind.input_names)} inputs ({', '.join(kind.input_names)}). "
                f"Received: {len(xs)}"
            )
        given = {name: self.arguments[ours] for name, ours in kind.argument_names.items()}
        given |= {kind.input_names[0]: xs} if kind.many else dict(zip(kind.input_names, xs, strict=False))
        bound = BoundArguments(kind.parameters, given)
        return kind.function(*bound.args, **bound.kwargs)


def _made(kind: type[Derived], arguments: Mapping[str, Any]) -> Derived:
    """An operator as the constructor would make it of complete arguments."""
    operator = kind.__new__(kind)
    operator._set(arguments)
    return operator


def _passed_on(xs: tuple[Any, ...], outputs: tuple[Any, ...]) -> bool:
    """Whether the function has returned an input as it is."""
    return any(made is x for made in outputs for x in xs)


def _noted(xs: tuple[Any, ...]) -> list[Tensor]:
    """The inputs that a creator remembers: none if nothing is recorded, so that nothing is kept alive."""
    return [x for x in xs if isinstance(x, Tensor)] if mode.training else []


def _recorded_node(outputs: tuple[Tensor, ...]) -> Node | None:
    return next((made._creator for made in outputs if isinstance(made._creator, Node)), None)


def operator_class(
    name: str,
    inputs: str = "x",
    *,
    required: str = "",
    renamed: Mapping[str, str] | None = None,
    named: bool = False,
    base: type[Derived] = Derived,
) -> Callable[[Function], Function]:
    """Make the class `name` of the decorated function and keep it as the function's attribute `operator`.

    `inputs` are the function's parameters that are no constructor arguments; with a star it is one, a sequence.
    `required` arguments have no default in the constructor, `renamed` ones have another name there. `named`: the
    constructor takes a name.
    """

    def decorate(function: Function) -> Function:
        function = named_in_errors(function)
        kind = _class_of(function, name, inputs, required.split(), renamed or {}, named, base)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) not in kind.counts:
                bound = kind.parameters.bind(*args, **kwargs)
                args, kwargs = bound.args, bound.kwargs
            made = function(*args, **kwargs)
            if local.frame is None:
                _note_call(kind, args, kwargs, made)
            return made

        call.operator = kind  # type: ignore[attr-defined]
        call.__signature__ = kind.parameters  # type: ignore[attr-defined]
        return call

    return decorate


def _note_call(kind: type[Derived], args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> None:
    outputs = made if isinstance(made, tuple) else (made,)
    if isinstance(outputs[0], Tensor):
        values = {**kind.defaults, **dict(zip(kind.parameters.parameters, args, strict=False)), **kwargs}
        if kind.many:
            xs = args if not kind.counts else tuple(values[kind.input_names[0]])
        else:
            xs = tuple(values[name] for name in kind.input_names)
        arguments = {ours: values[name] for name, ours in kind.argument_names.items()}
        if not _passed_on(xs, outputs):
            _creator(kind, arguments, _recorded_node(outputs)).take_over(None, _noted(xs), outputs)


def _creator(kind: type[Derived], arguments: Mapping[str, Any], node: Node | None) -> Derived:
    """The operator of a call: what was recorded, turned into one, or one that has recorded nothing."""
    if node is None:
        return _made(kind, arguments)
    node.__class__ = kind
    node.name = kind.__name__ + node.name[node.name.rindex("#") :]
    node._describe(arguments, called=True)  # type: ignore[attr-defined]
    return node  # type: ignore[return-value]


def _class_of(
    function: Function,
    name: str,
    inputs: str,
    required: list[str],
    renamed: Mapping[str, str],
    named: bool,
    base: type[Derived],
) -> type[Derived]:
    signature = inspect.signature(function)
    given = list(signature.parameters.values())
    defaults = {p.name: p.default for p in given if p.default is not p.empty}
    placed = [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
    needed = [name for name in placed if name not in defaults]
    names = tuple(inputs.removeprefix("*").split())
    arguments = [p for p in given if p.name not in names and p.kind is not p.KEYWORD_ONLY]
    taken = {p.name: renamed.get(p.name, p.name) for p in arguments}
    made = [p.replace(name=taken[p.name], default=p.empty if p.name in required else p.default) for p in arguments]
    if named:
        made.append(Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, default=None))
    body = {
        "function": staticmethod(function),
        "parameters": signature,
        "defaults": defaults,
        "counts": range(len(needed), len(placed) + 1) if placed else range(0),
        "input_names": names,
        "many": inputs.startswith("*"),
        "argument_names": taken,
        "__signature__": Signature(made),
        "__doc__": f"SINGA's operator class of `autograd.{function.__name__}`: {function.__doc__}",
        "__module__": "singax.autograd",
    }
    return type(name, (base,), body)


def operator_of(function: Function) -> type[Derived]:
    """The operator class of one of SINGA's functional names."""
    return function.operator  # type: ignore[attr-defined]


def recorded(
    name: str, operation: Function, inputs: str = "x", *, called: str | None = None, differs: str = ""
) -> Function:
    """A functional name, with its operator class, for an operation without attributes.

    `inputs` are SINGA's names of the arrays, `called` the functional name if it is not the operation's; `differs` says
    what differs from SINGA.
    """
    function = node(operation)
    function.__name__ = called or function.__name__
    if differs:
        function.__doc__ = f"{inspect.cleandoc(operation.__doc__ or '')}\n\n*Differences from SINGA*: {differs}."
    many = inputs.startswith("*")
    kind = Parameter.VAR_POSITIONAL if many else Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(key, kind) for key in inputs.removeprefix("*").split()]
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return operator_class(name, inputs)(function)
