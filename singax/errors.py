"""The exceptions of singax: one class per frequent mistake.

Every class derives from `SingaxError` and from the built-in exception that Python programmers would expect, so that
both `except SingaxError` and `except ValueError` work. The first line of a message says what is wrong and what to
do; the path of the layer is put in front once, at the border (`located`).
"""

from __future__ import annotations


class SingaxError(Exception):
    """Base class. `where` is the path of the layer that raised, `operation` the operation, once they are known."""

    where: str = ""
    operation: str = ""

    def located(self, where: str) -> SingaxError:
        """Remember the layer path `where`, unless a deeper layer has been named already."""
        if not self.where:
            self.where = where
        return self

    def inside(self, operation: str) -> SingaxError:
        """Remember the operation, unless an inner one has been named already."""
        if not self.operation:
            self.operation = operation
        return self

    def __str__(self) -> str:
        message = super().__str__()
        origin = self.where or ("" if self.operation in message else self.operation)
        return f"{origin}: {message}" if origin else message


class ShapeError(SingaxError, ValueError):
    """An input has a rank or a size that the operation cannot take."""


class DTypeError(SingaxError, TypeError):
    """An input has a dtype that the operation cannot take, or a dtype name is unknown."""


class ArgumentError(SingaxError, ValueError):
    """A constructor or call argument has a value outside what is documented."""


class UnfilledError(SingaxError, ValueError):
    """A placeholder without values was read."""


class TracedValueError(SingaxError, TypeError):
    """A Python number was asked of a Tensor whose value exists only in a program that is being compiled."""


class RawCallError(SingaxError, RuntimeError):
    """A raw JAX function was called on a Tensor outside a layer, where its gradient would be lost.

    No TypeError, although it would fit: JAX replaces those by a message of its own.
    """


class StaticArgumentError(SingaxError, TypeError):
    """An argument that selects a program is not hashable."""


class UninitializedError(SingaxError, RuntimeError):
    """Parameters were asked of a layer or model that has not seen an input yet."""


class UnusedLayerError(SingaxError, ValueError):
    """A layer that owns parameters is never called by the model."""


class StateError(SingaxError, ValueError):
    """A state changed in a way that a compiled step cannot carry over to the next step."""


class NameMismatchError(SingaxError, KeyError):
    """A parameter, state or initializer name is unknown."""

    __str__ = SingaxError.__str__


class StateMismatchError(SingaxError, ValueError):
    """A file of states is of another model; nothing was changed.

    `missing`, `unexpected`, `wrong_shape` and `wrong_dtype` map paths to what was wanted and found.
    """

    def __init__(self, message: str, **kinds: dict[str, str]) -> None:
        super().__init__(message)
        self.missing = kinds.get("missing", {})
        self.unexpected = kinds.get("unexpected", {})
        self.wrong_shape = kinds.get("wrong_shape", {})
        self.wrong_dtype = kinds.get("wrong_dtype", {})


class DeviceNotFoundError(SingaxError, RuntimeError):
    """The device asked for is not on this machine."""


class FileFormatError(SingaxError, ValueError):
    """A file does not hold what its format promises, or a value does not fit the format."""


class DataError(SingaxError, RuntimeError):
    """A worker that prepares data failed or has ended."""


class ModelFileError(SingaxError, ValueError):
    """A model file that is broken, hostile, or beyond what is supported.

    `file` is its path, `where` the node or tensor, `field` what of it, `wanted` and `found` what was expected and what
    came.
    """

    def __init__(self, file: str, where: str, field: str, wanted: str, found: str) -> None:
        super().__init__(f"{field}: expected {wanted}. Received: {found}")
        self.file, self.part, self.field, self.wanted, self.found = file, where, field, wanted, found

    def in_file(self, file: str) -> ModelFileError:
        """Remember the path of the file."""
        self.file = self.file or file
        return self

    def __str__(self) -> str:
        origin = ": ".join(part for part in (self.file, self.part) if part)
        return f"{origin}: {Exception.__str__(self)}" if origin else Exception.__str__(self)


class ExportError(SingaxError, ValueError):
    """A forward holds something that no ONNX file can say, or that is not supported there."""
