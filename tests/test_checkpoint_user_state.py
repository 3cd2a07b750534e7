"""The user's state: what goes in comes out, and nothing else is read."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import MLP, blobs

import singax as sx
from singax.checkpoint.user_state import decoded, encoded
from singax.errors import ArgumentError, FileFormatError
from singax.files import strict_json

X, Y = blobs()

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.booleans(), st.floats(allow_nan=False)), inner)
    ),
    max_leaves=20,
)


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types all the way down, NaN equal to NaN, −0 other than 0."""
    return repr(a) == repr(b)


@settings(deadline=None, max_examples=150)
@given(PLAIN)
def test_any_plain_state_comes_back(state: Any) -> None:
    """Through JSON, with the types that it had."""
    import json

    tree, arrays = encoded(state)
    assert arrays == {}
    text = json.dumps(tree, allow_nan=False).encode()
    assert same(decoded(strict_json(text), arrays.__getitem__), state)


def test_arrays_tensors_and_optimizers(tmp_path: pathlib.Path) -> None:
    """Each comes back as what it was; an optimizer as its get_states(), which a new one takes."""
    net = MLP(sx.opt.Adam(0.01))
    net.compile([X])
    for _ in range(3):
        net(X, Y)
    state = {
        "losses": np.array([1.5, np.nan]),
        "wide": np.array([1 + 2j], np.complex128),
        "count": np.int64(2**40),
        "device": jnp.arange(3),
        "key": jax.random.key(3),
        "h": sx.Tensor(data=np.ones((2, 1), np.float32), requires_grad=False, name="hx"),
        "a/b": {"c": np.zeros(1)},
        "a": {"b/c": np.ones(1)},
        "adam": net.optimizer,
    }
    net.save(tmp_path / "net", state=state, onnx=False)
    found = MLP(sx.opt.Adam(0.01)).load(tmp_path / "net")
    assert list(found) == list(state)
    for name in ("losses", "wide"):
        assert isinstance(found[name], np.ndarray)
        assert found[name].dtype == state[name].dtype
        np.testing.assert_array_equal(found[name], state[name])
    assert type(found["count"]) is np.int64
    assert found["count"] == 2**40
    assert isinstance(found["device"], jax.Array)
    assert (jax.random.key_data(found["key"]) == jax.random.key_data(state["key"])).all()
    assert isinstance(found["h"], sx.Tensor)
    assert (found["h"].name, found["h"].requires_grad, found["h"].shape) == ("hx", False, (2, 1))
    assert (found["a/b"]["c"][0], found["a"]["b/c"][0]) == (0, 1)
    adam = sx.opt.Adam(0.01)
    adam.set_states(found["adam"])
    assert int(adam.step_counter) == 3
    assert sorted(adam.get_states()) == sorted(net.optimizer.get_states())


class Odd(dict):  # type: ignore[type-arg]
    """A dict of a class of its own."""


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, "state/x is a set"),
        (b"bytes", "state/x is a bytes"),
        (Odd(), "state/x is a Odd"),
        (object(), "state/x is a object"),
        (math.sin, "state/x is a builtin"),
        (np.array([None]), "state/x is a ndarray"),
        (HOLDS_ITSELF, "holds itself"),
        (sx.Tensor((2,)), "no values yet"),
        (1 << 5000, "state/x is a int"),
    ],
)
def test_what_no_file_holds(value: Any, message: str) -> None:
    """Refused with its place."""
    with pytest.raises(ArgumentError, match=message):
        encoded({"x": value})


@pytest.mark.parametrize(
    "tree",
    [{}, {"eval": "1"}, {"float": []}, {"float": "x"}, {"dict": 3}, {"dict": [[1]]}, {"dict": [[[], 1]]},
     {"array": "none"}, {"array": []}, {"tensor": "t"}, {"complex": ["1"]}, {"tuple": None}],
)  # fmt: skip
def test_states_that_were_never_encoded(tree: Any) -> None:
    """A file that says strange things is refused."""
    with pytest.raises(FileFormatError):
        decoded(tree, {"t": np.zeros(1, np.float32)}.__getitem__)


def test_64_bits_are_not_narrowed() -> None:
    """JAX arrays that were saved under x64 need x64 again."""
    with pytest.raises(FileFormatError, match="jax_enable_x64"):
        decoded({"jax": "a"}, {"a": np.zeros(1)}.__getitem__)
