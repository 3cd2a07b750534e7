"""SINGA's operator classes and functional names: every name, its arguments and defaults; creators, handles, helpers."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import jax
import numpy as np
import pytest

import singax as sx
from singax import autograd, ops, singa_wrap
from singax.errors import ArgumentError, ShapeError
from singax.tensor import Tensor

# Class and constructor, function, as SINGA 5.1 has them.
NAMES = """
    ReLU()                                      relu(x)
    Sigmoid()                                   sigmoid(x)
    Tanh()                                      tanh(x)
    Cos()                                       cos(x)
    Cosh()                                      cosh(x)
    Acos()                                      acos(x)
    Acosh()                                     acosh(x)
    Sin()                                       sin(x)
    Sinh()                                      sinh(x)
    Asin()                                      asin(x)
    Asinh()                                     asinh(x)
    Tan()                                       tan(x)
    Atan()                                      atan(x)
    Atanh()                                     atanh(x)
    Abs()                                       abs(a)
    Exp()                                       exp(a)
    Log()                                       log(x)
    Sqrt()                                      sqrt(x)
    Sign()                                      sign(a)
    Negative()                                  negative(x)
    Reciprocal()                                reciprocal(x)
    Ceil()                                      ceil(x)
    Floor()                                     floor(x)
    Round()                                     round(x)
    Rounde()                                    rounde(x)
    Erf()                                       erf(x)
    Identity()                                  identity(x)
    Elu(alpha=1.)                               elu(x, alpha=1)
    SeLU(alpha=1.67326, gamma=1.0507)           selu(x, alpha=1.67326, gamma=1.0507)
    LeakyRelu(a)                                leakyrelu(x, a=0.01)
    HardSigmoid(alpha=0.2, gamma=0.5)           hardsigmoid(x, alpha=0.2, gamma=0.5)
    SoftPlus()                                  softplus(x)
    SoftSign()                                  softsign(x)
    Clip(min, max)                              clip(x, min=None, max=None)
    Not()                                       _not(x)
    Cast(to)                                    cast(x, to)
    Dropout(seed=0, ratio=0.5)                  dropout(x, seed=0, ratio=0.5)
    Add()                                       add(a, b)
    Sub()                                       sub(a, b)
    Mul()                                       mul(x, y)
    Div()                                       div(a, b)
    Pow()                                       pow(a, b)
    PRelu()                                     prelu(x, slope)
    Less()                                      less(x, y)
    Greater()                                   greater(x, y)
    Equal()                                     equal(x, y)
    And()                                       _and(a, b)
    Or()                                        _or(a, b)
    Xor()                                       _xor(a, b)
    Min()                                       min(*l)
    Max()                                       max(*l)
    Sum()                                       sum(*l)
    Mean()                                      mean(*l)
    Where(condition)                            where(x, y, condition)
    CosSim()                                    cossim(a, b)
    Matmul()                                    matmul(x, w)
    Gemm(alpha=1.0, beta=1.0, transA=0, transB=0) gemm(A, B, C=None, alpha=1.0, beta=1.0, transA=0, transB=0)
    AddBias(axis=0)                             add_bias(x, b, axis=0)
    Embedding()                                 embedding(x, w)
    Reshape(shape)                              reshape(x, shape)
    Flatten(axis=1)                             flatten(x, axis=1)
    Transpose(perm)                             transpose(x, shape)
    Squeeze(axis=[])                            squeeze(x, axis=[])
    Unsqueeze(axis)                             unsqueeze(x, axis=-1)
    Concat(axis=0)                              cat(xs, axis=0)
    Split(axis, parts, num_output=None)         split(x, axis, parts, num_output=None)
    Slice(starts, ends, axes=None, steps=None)  slice(x, starts, ends, axes=None, steps=None)
    Gather(axis, indices)                       gather(x, axis, indices)
    ScatterElements(indices, updates, axis=0)   scatter_elements(x, indices, updates, axis=0)
    Tile(repeats)                               tile(x, repeats)
    Expand(shape)                               expand(x, shape)
    Pad(mode, pads, constant=0.)                pad(x, mode, pads, constant=0.)
    UpSample(mode, scales)                      upsample(x, mode, scales)
    DepthToSpace(blocksize, mode="DCR")         depth_to_space(x, blocksize, mode)
    SpaceToDepth(blocksize, mode="DCR")         space_to_depth(x, blocksize, mode)
    OneHot(axis, depth, values)                 onehot(axis, indices, depth, values)
    NonZero()                                   nonzero(x)
    Shape()                                     shape(x)
    ConstantOfShape(value=0.)                   constant_of_shape(x, value=0)
    ReduceSum(axes=None, keepdims=1)            reduce_sum(x, axes=None, keepdims=1)
    ReduceMean(axes=None, keepdims=1)           reduce_mean(x, axes=None, keepdims=1)
    SoftMax(axis=1)                             softmax(x, axis=1)
    GlobalAveragePool(data_format='channels_first') globalaveragepool(x, data_format='channels_first')
    _Conv2d(handle, odd_padding=(0,0,0,0))      conv2d(handle, x, W, b=None, odd_padding=(0,0,0,0))
    _Pooling2d(handle, odd_padding=(0,0,0,0))   pooling_2d(handle, x, odd_padding=(0,0,0,0))
    _BatchNorm2d(handle, running_mean, running_var, name=None)\
        batchnorm_2d(handle, x, scale, bias, running_mean, running_var)
    SoftMaxCrossEntropy(t)                      softmax_cross_entropy(x, t)
    MeanSquareError(t)                          mse_loss(x, t)
    CrossEntropy(t)                             cross_entropy(x, t)
    BinaryCrossEntropy(t)                       binary_cross_entropy(x, t)
    RankingLoss(M=0.2)                          ranking_loss(pos, neg, M=0.2)
"""
WITHOUT_FUNCTION = "_RNN(handle, return_sequences=False, use_mask=False, seq_lengths=None)"
PAIRS = [line.strip().replace(") ", ")\n", 1).split("\n") for line in NAMES.strip().splitlines()]
CLASSES = [*[theirs for theirs, _ in PAIRS], WITHOUT_FUNCTION]
FUNCTIONS = [theirs.strip() for _, theirs in PAIRS]


@pytest.fixture(autouse=True)
def recording() -> Any:
    autograd.training = True


def leaf(value: Any) -> Tensor:
    return Tensor(data=np.asarray(value, np.float32))


def test_their_number() -> None:
    assert (len(CLASSES), len(FUNCTIONS)) == (92, 91)


@pytest.mark.parametrize("theirs", [*CLASSES, *FUNCTIONS])
def test_arguments_are_singas(theirs: str) -> None:
    """The same names in the same order, and the same defaults; a function of ours may have more of these."""
    call = ast.parse(theirs, mode="eval").body
    assert isinstance(call, ast.Call)
    name = ast.unparse(call.func)
    defaults = {str(given.arg): _plain(ast.literal_eval(given.value)) for given in call.keywords}
    ours = [p for p in inspect.signature(getattr(autograd, name)).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    shown = ["*" + p.name if p.kind is p.VAR_POSITIONAL else p.name for p in ours]
    assert shown == [*map(ast.unparse, call.args), *defaults]
    found = {p.name: _plain(p.default) for p in ours if p.default is not p.empty}
    assert {key: found.get(key) for key in defaults} == defaults
    assert inspect.isfunction(getattr(autograd, name)) or found == defaults


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple | list) else default


@pytest.mark.parametrize("theirs", CLASSES)
def test_classes_are_documented_operators(theirs: str) -> None:
    kind = getattr(autograd, theirs.partition("(")[0])
    assert issubclass(kind, autograd.Operator)
    assert f"autograd.{kind.function.__name__}" in kind.__doc__


X = leaf([[-1.0, 2.0, 0.5], [3.0, -4.0, 1.5]])
IDS = Tensor(data=np.array([2, 0], np.int32))
ONE_HOT = leaf([[0, 0, 1], [1, 0, 0]])
PROBABILITIES = leaf([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])

# A class, its inputs, and the function's call that says the same.
CALLS: list[tuple[Any, list[Tensor], Any]] = [
    (lambda: autograd.ReLU(), [X], lambda x: autograd.relu(x)),
    (lambda: autograd.LeakyRelu(0.3), [X], lambda x: autograd.leakyrelu(x, 0.3)),
    (lambda: autograd.Clip(-1.0, 1.0), [X], lambda x: autograd.clip(x, -1.0, 1.0)),
    (lambda: autograd.Mul(), [X, X], lambda x, y: autograd.mul(y=y, x=x)),
    (lambda: autograd.Sum(), [X, X, X], lambda *xs: autograd.sum(*xs)),
    (lambda: autograd.Gemm(2.0, transB=1), [X, X], lambda a, b: autograd.gemm(a, b, alpha=2.0, transB=1)),
    (lambda: autograd.Where([[1, 0, 1]]), [X, X], lambda x, y: autograd.where(x, y, [[1, 0, 1]])),
    (lambda: autograd.Where(ONE_HOT), [X, X], lambda x, y: autograd.where(x, y, ONE_HOT)),
    (lambda: autograd.Gather(1, [0, 2]), [X], lambda x: autograd.gather(x, 1, [0, 2])),
    (lambda: autograd.Transpose((1, 0)), [X], lambda x: autograd.transpose(x, (1, 0))),
    (lambda: autograd.Concat(1), [X, X], lambda *xs: autograd.cat(xs, 1)),
    (lambda: autograd.Split(1, [1, 2]), [X], lambda x: autograd.split(x, 1, [1, 2])),
    (lambda: autograd.ReduceSum([0], 0), [X], lambda x: autograd.reduce_sum(x, [0], 0)),
    (lambda: autograd.OneHot(1, 3, [0, 1]), [IDS], lambda i: autograd.onehot(1, i, 3, [0, 1])),
    (lambda: autograd.NonZero(), [X], lambda x: autograd.nonzero(x)),
    (lambda: autograd.ConstantOfShape(2.0), [IDS], lambda x: autograd.constant_of_shape(x, 2.0)),
    (lambda: autograd.SoftMaxCrossEntropy(IDS), [X], lambda x: autograd.softmax_cross_entropy(x, IDS)),
    (lambda: autograd.MeanSquareError(ONE_HOT), [X], lambda x: autograd.mse_loss(x, ONE_HOT)),
    (lambda: autograd.CrossEntropy(ONE_HOT), [PROBABILITIES], lambda x: autograd.cross_entropy(x, ONE_HOT)),
    (
        lambda: autograd.BinaryCrossEntropy(ONE_HOT),
        [PROBABILITIES],
        lambda x: autograd.binary_cross_entropy(x, ONE_HOT),
    ),
    (lambda: autograd.RankingLoss(0.5), [X, X], lambda a, b: autograd.ranking_loss(a, b, 0.5)),
]


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_classes_compute_what_their_functions_do(index: int) -> None:
    make, inputs, function = CALLS[index]
    operator = make()
    ours, theirs = operator(*inputs), function(*inputs)
    assert isinstance(ours, tuple)
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())
        assert a.creator is operator
        assert type(b.creator) is type(operator)
    assert vars(theirs[0].creator).keys() == vars(operator).keys()
    dys = [np.ones(y.shape, np.float32) for y in ours]
    given, wanted = operator.backward(*dys), theirs[0].creator.backward(*dys)
    assert jax.tree.structure(given) == jax.tree.structure(wanted)
    jax.tree.map(np.testing.assert_array_equal, given, wanted)
    assert len(operator.src) == len(inputs)


def test_names_and_members_of_operators() -> None:
    first = autograd.Elu(0.5)
    assert first.name == f"Elu#{autograd.Operator.op_count - 1}"
    assert first.alpha == 0.5
    assert first.src == []
    assert not first.requires_grad
    y = first(X)[0]
    assert y.name == first.output_name(0) == f"{first.name}:0"
    assert first.grad_name(0) == f"{first.name}:0_g"
    assert first.y_id2idx == {id(y): 0}
    assert first.requires_grad
    assert first.get_params() == []
    assert first.src == [(X.creator, id(X), None, False)]
    again = first(X)[0]
    assert again.creator is not first
    assert again.creator.alpha == 0.5
    assert y.creator is first
    np.testing.assert_allclose(first.backward(1.0)[0], [0.5 * np.exp(-1), 1, 1], rtol=1e-6)
    w = Tensor(data=[1.0], stores_grad=True)
    assert autograd.relu(w).creator.src[0][2] is w
    with pytest.raises(TypeError, match="missing"):
        autograd.Clip(1.0)
    with pytest.raises(ArgumentError, match=r"Elu takes 1 inputs \(x\). Received: 2"):
        first(X, X)
    with pytest.raises(ArgumentError, match=r"Elu is called with Tensors outside a layer\. Received: float"):
        first(1.0)


def test_without_recording_there_is_a_creator_and_nothing_kept() -> None:
    autograd.training = False
    y = autograd.relu(X)
    assert isinstance(y.creator, autograd.ReLU)
    assert y.creator.src == []
    assert y.requires_grad  # as its input does
    with pytest.raises(ArgumentError, match="training is False"):
        autograd.backward(autograd.reduce_sum(X))
    assert autograd.dropout(X) is X
    assert isinstance(X.creator, autograd.Dummy)


def test_a_tensor_given_twice_has_two_gradients() -> None:
    da, db = autograd.sub(X, X).creator.backward(1.0)
    np.testing.assert_array_equal(da, np.ones((2, 3)))
    np.testing.assert_array_equal(db, -np.ones((2, 3)))


def test_gradients_of_shape_are_its_sizes() -> None:
    y = autograd.shape(X)
    assert y.creator.backward(X) == [2, 3]
    assert autograd.Shape()(X)[0].creator.backward(np.zeros((4, 5))) == [4, 5]


def test_losses_answer_for_their_input_only() -> None:
    teacher = Tensor(data=[[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]], stores_grad=True, name="teacher")
    student = Tensor(data=X.to_numpy(), stores_grad=True, name="student")
    loss = autograd.softmax_cross_entropy(student, autograd.mul(teacher, teacher))
    assert [p.name for p, _ in autograd.backward(loss)] == ["student"]
    np.testing.assert_allclose(loss.creator.backward(2.0), 2 * np.asarray(loss.creator.backward()), rtol=1e-6)

    class Inside(sx.layer.Layer):
        def forward(self, x: jax.Array, t: jax.Array) -> jax.Array:
            return autograd.mse_loss(x, t)

    found = {p.name for p, _ in autograd.backward(Inside()(student, teacher)) if p is student}
    assert found == {"student"}


def test_scattered_updates_have_gradients_on_the_tape() -> None:
    x, updates = (Tensor(data=np.ones((2, 3), np.float32), stores_grad=True, name=n) for n in ("x", "u"))
    y = autograd.scatter_elements(x, [[0, 0, 1]], autograd.slice(updates, [0], [1]), 0)
    np.testing.assert_array_equal(y.creator.backward(1.0), [[0, 0, 1], [1, 1, 0]])
    found = {p.name: g.to_numpy() for p, g in autograd.backward(autograd.reduce_sum(y))}
    np.testing.assert_array_equal(found["u"], [[1, 1, 1], [0, 0, 0]])


def test_classes_inside_layers_return_arrays() -> None:
    class Inside(sx.layer.Layer):
        def forward(self, x: jax.Array) -> jax.Array:
            made = autograd.LeakyRelu(0.1)(x)
            assert isinstance(made, tuple)
            assert isinstance(made[0], jax.Array)
            return autograd.add(made[0], b=made[0])

    np.testing.assert_allclose(Inside()(X).to_numpy()[0], [-0.2, 4.0, 1.0], rtol=1e-6)


def test_the_creator_of_a_users_operator_is_one() -> None:
    class Scale(autograd.Operation):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: jax.Array) -> jax.Array:
            return x * self.k

        def backward(self, dy: jax.Array) -> jax.Array:
            return dy * self.k

    y = Scale(3.0)(X)[0]
    assert isinstance(y.creator, Scale)
    assert y.creator.k == 3.0
    assert type(y.creator).__name__ == "Scale"
    assert y.creator.name.startswith("Scale#")
    np.testing.assert_array_equal(y.creator.backward(1.0), np.full((2, 3), 3.0))


def test_add_all_and_helpers() -> None:
    np.testing.assert_allclose(autograd.add_all(X, X, X).to_numpy(), 3 * X.to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(autograd.add_all(X).to_numpy(), X.to_numpy())
    y = autograd.mul(autograd.add(X, X), X)
    creators, tensors = autograd.infer_dependency(y.creator)
    assert creators == {X.creator: 3, y.creator.src[0][0]: 1}
    assert tensors[id(X)] == 3
    assert autograd.axis_helper((2, 3), (2, 3)) == ()
    assert autograd.axis_helper((4, 2, 3), (1, 3)) == (0, 1)
    reduced = autograd.back_broadcast((4, 2, 3), (1, 3), np.ones((4, 2, 3), np.float32))
    np.testing.assert_array_equal(reduced, np.full((1, 3), 8.0))
    with pytest.raises(ShapeError, match=r"back_broadcast expected .* Received shape \(4, 2\)"):
        autograd.back_broadcast((4, 2, 3), (1, 3), np.ones((4, 2)))
    np.testing.assert_array_equal(autograd.ctensor2numpy(X.data), X.to_numpy())


def test_layers_are_found_here_too() -> None:
    assert autograd.layer is sx.layer
    assert autograd.Linear is sx.layer.Linear
    assert autograd.Operation is autograd.Operator
    with pytest.raises(AttributeError, match=r"'singax\.autograd' has no attribute 'nonsense'"):
        autograd.nonsense  # noqa: B018


IMAGES = np.random.default_rng(0).normal(size=(2, 4, 5, 6)).astype(np.float32)


def test_conv2d_by_handle() -> None:
    x, weights = Tensor(data=IMAGES), Tensor(data=np.ones((6, 2, 3, 3), np.float32))
    bias = leaf(np.arange(6))
    handle = singa_wrap.ConvHandle(x, (3, 3), (2, 1), (1, 0), 4, 6, True, 2)
    assert (handle.batchsize, handle.channels, handle.num_filters, handle.group) == (2, 4, 6, 2)
    assert (handle.pad_h, handle.pad_w, handle.stride_h, handle.stride_w) == (1, 0, 2, 1)
    y = autograd.conv2d(handle, x, weights, bias, (0, 1, 2, 0))
    padding = ((1, 2), (2, 0))
    expected = ops.conv(x.data, weights.data, bias.data, stride=(2, 1), padding=padding, groups=2)
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-5)
    assert [g.shape for g in y.creator.backward(1.0)] == [x.shape, weights.shape, bias.shape]
    again = autograd._Conv2d(handle, (0, 1, 2, 0))(Tensor(data=IMAGES[:1, :, :4]), weights)
    assert again[0].shape == (1, 6, 3, 6)
    assert len(again[0].creator.backward(1.0)) == 2
    with pytest.raises(ArgumentError, match=r"conv2d expected an odd_padding .* Received: \(1, 2\)"):
        autograd.conv2d(handle, x, weights, odd_padding=(1, 2))
    with pytest.raises(ArgumentError, match="ConvHandle expected 4 input channels"):
        singa_wrap.ConvHandle(x, 3, 1, 0, 3, 6, True)
    with pytest.raises(ArgumentError, match="kernel must be an integer from 1 up"):
        singa_wrap.ConvHandle(x, 0, 1, 0, 4, 6)
    with pytest.raises(ShapeError, match="ConvHandle expected an input of 4 axes"):
        singa_wrap.ConvHandle(X, 3, 1, 0, 4, 6)


@pytest.mark.parametrize("is_max", [True, False])
def test_pooling_2d_by_handle(is_max: bool) -> None:
    x = Tensor(data=IMAGES)
    handle = singa_wrap.CudnnPoolingHandle(x, [2, 2], [2, 2], [0, 0], is_max)
    assert (handle.pooled_height, handle.pooled_width, handle.is_max_pooling) == (2, 3, is_max)
    y = autograd.pooling_2d(handle, x, (0, 1, 0, 0))
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (0, 1), (0, 0)), mode="edge").reshape(2, 4, 3, 2, 3, 2)
    np.testing.assert_allclose(y.to_numpy(), padded.max((3, 5)) if is_max else padded.mean((3, 5)), rtol=1e-5)
    assert autograd._Pooling2d(handle)(x)[0].shape == (2, 4, 2, 3)
    assert y.creator.backward(1.0).shape == x.shape


@pytest.mark.parametrize("shape", [(4, 3, 2, 2), (8, 3)])
def test_batchnorm_2d_by_handle(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).normal(2.0, 3.0, size=shape).astype(np.float32)
    x, scale, bias = Tensor(data=values), leaf([1.0, 2.0, 3.0]), leaf([0.0, 1.0, 2.0])
    mean, var = leaf(np.zeros(3)), leaf(np.ones(3))
    shared = mean.copy()
    handle = singa_wrap.BatchNormHandle(0.1, x)
    assert (handle.factor, handle.batchsize, handle.is_2d) == (0.1, shape[0], len(shape) == 2)
    y = autograd.batchnorm_2d(handle, x, scale, bias, mean, var)
    axes = (0, 2, 3)[: len(shape) - 1]
    batch_mean, batch_var = values.mean(axes), values.var(axes, ddof=1)
    np.testing.assert_allclose(mean.to_numpy(), 0.1 * batch_mean, rtol=1e-5)
    np.testing.assert_allclose(var.to_numpy(), 0.9 + 0.1 * batch_var, rtol=1e-5)
    np.testing.assert_array_equal(shared.to_numpy(), mean.to_numpy())
    np.testing.assert_allclose(y.to_numpy().mean(axes), [0, 1, 2], atol=1e-5)
    dx, dscale, dbias = y.creator.backward(1.0)
    np.testing.assert_allclose(dx, np.zeros(shape), atol=1e-5)
    np.testing.assert_allclose(dbias, np.full(3, values.size / 3), rtol=1e-5)
    assert dscale.shape == (3,)
    autograd.training = False
    held = mean.to_numpy()
    z = autograd._BatchNorm2d(handle, mean, var, name="bn")(x, scale, bias)[0]
    per_channel = (1, 3, 1, 1)[: len(shape)]
    centred = (values - mean.to_numpy().reshape(per_channel)) / np.sqrt(var.to_numpy().reshape(per_channel) + 1e-5)
    expected = centred * np.array([1, 2, 3]).reshape(per_channel) + np.array([0, 1, 2]).reshape(per_channel)
    np.testing.assert_allclose(z.to_numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mean.to_numpy(), held)
    assert z.creator.name == "bn"
    with pytest.raises(ArgumentError, match="batchnorm_2d expected running_mean and running_var as Tensors"):
        autograd.batchnorm_2d(handle, x, scale, bias, held, held)


@pytest.mark.parametrize(("mode", "name"), [(0, "relu"), (1, "tanh"), (2, "lstm"), (3, "gru")])
def test_rnn_by_handle(mode: int, name: str) -> None:
    rng = np.random.default_rng(0)
    x = Tensor(data=rng.normal(size=(4, 2, 3)).astype(np.float32))
    handle = singa_wrap.CudnnRNNHandle(x, 5, mode=mode, num_layers=2, bidirectional=True)
    assert (handle.seq_length, handle.batch_size, handle.feature_size) == (4, 2, 3)
    w = Tensor(data=rng.normal(size=(handle.weights_size,)).astype(np.float32), stores_grad=True)
    hx, cx = (Tensor(data=rng.normal(size=(4, 2, 5)).astype(np.float32)) for _ in range(2))
    lengths = np.array([4, 2], np.int32)
    y = autograd._RNN(handle, return_sequences=True, use_mask=True, seq_lengths=lengths)(x, hx, cx, w)[0]
    expected = ops.cudnn_rnn(
        x.data, hx.data, cx.data, w.data, lengths, hidden_size=5, rnn_mode=name, num_layers=2, bidirectional=True
    )
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-5, atol=1e-6)
    assert not y.to_numpy()[2:, 1].any()
    assert [g.shape for g in y.creator.backward(1.0)] == [x.shape, hx.shape, cx.shape, w.shape]
    last = autograd._RNN(handle)(x, hx, cx, w)[0]
    assert last.shape == (2, 10)
    assert [p is w for p, _ in autograd.backward(autograd.reduce_sum(last))] == [True]
    with pytest.raises(ArgumentError, match=r"_RNN expected seq_lengths with use_mask\. Received: None"):
        autograd._RNN(handle, use_mask=True)(x, hx, cx, w)
    with pytest.raises(ArgumentError, match=r"CudnnRNNHandle expected a mode .* Received: 4, 5, 1 and 0\.0"):
        singa_wrap.CudnnRNNHandle(x, 5, mode=4)


def test_dropout_of_rnn_draws_a_mask_while_training() -> None:
    x = Tensor(data=np.ones((2, 1, 3), np.float32))
    handle = singa_wrap.CudnnRNNHandle(x, 4, mode=1, num_layers=2, dropout=0.5)
    w = Tensor(data=np.linspace(-1, 1, handle.weights_size, dtype=np.float32))
    states = [Tensor(data=np.zeros((2, 1, 4), np.float32)) for _ in range(2)]
    run = lambda: autograd._RNN(handle)(x, *states, w)[0].to_numpy()  # noqa: E731
    assert len({run().tobytes() for _ in range(6)}) > 1
    autograd.training = False
    np.testing.assert_array_equal(run(), run())


class HandMade(sx.Module):
    """A model of functional names only, with its Tensors as attributes."""

    def __init__(self, batch: np.ndarray) -> None:
        super().__init__()
        self.scale = Tensor(data=np.ones(3, np.float32), stores_grad=True)
        self.bias = Tensor(data=np.zeros(3, np.float32), stores_grad=True)
        self.mean = Tensor(data=np.zeros(3, np.float32), requires_grad=False)
        self.var = Tensor(data=np.ones(3, np.float32), requires_grad=False)
        self.handle = singa_wrap.BatchNormHandle(0.5, batch)
        self.optimizer = sx.opt.SGD(lr=0.1)

    def forward(self, x: Any) -> Any:
        return autograd.batchnorm_2d(self.handle, x, self.scale, self.bias, self.mean, self.var)

    def train_one_batch(self, x: Any, t: Any) -> Any:
        loss = autograd.mse_loss(self.forward(x), t)
        self.optimizer(loss)
        return loss


def test_running_statistics_move_inside_a_compiled_step() -> None:
    values = np.random.default_rng(2).normal(1.0, 2.0, size=(8, 3)).astype(np.float32)
    found = []
    for use_graph in (True, False):
        net = HandMade(values)
        net.compile([sx.Placeholder(values.shape)], is_train=True, use_graph=use_graph)
        for _ in range(2):
            net(values, np.ones((8, 3), np.float32))
        found.append([net.mean.to_numpy(), net.var.to_numpy(), net.scale.to_numpy(), net.bias.to_numpy()])
    np.testing.assert_allclose(found[0][0], 0.75 * values.mean(0), rtol=1e-5)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not np.allclose(found[0][2], 1.0)


def test_flags_and_versions() -> None:
    flags = [singa_wrap.USE_CUDA, singa_wrap.USE_CUDNN, singa_wrap.USE_DNNL, singa_wrap.USE_OPENCL, singa_wrap.USE_DIST]
    assert flags == [0] * 5
    assert (singa_wrap.kFloat32, singa_wrap.kFloat16, singa_wrap.kInt) == (0, 1, 2)
    assert [singa_wrap.SINGA_MAJOR_VERSION, singa_wrap.SINGA_MINOR_VERSION, singa_wrap.SINGA_PATCH_VERSION] == [5, 1, 0]
    assert singa_wrap.NcclIdHolder() is not None


def test_names_that_singa_does_not_have() -> None:
    w = Tensor(data=X.to_numpy(), stores_grad=True)
    values, places = autograd.topk(w, k=1, axis=1)
    assert places.to_numpy().tolist() == [[1], [0]]
    ((_, gradient),) = autograd.backward(autograd.reduce_sum(autograd.mul(values, values)))
    np.testing.assert_array_equal(gradient.to_numpy(), [[0, 4, 0], [6, 0, 0]])
    np.testing.assert_allclose(autograd.silu(X).to_numpy(), X.to_numpy() / (1 + np.exp(-X.to_numpy())), rtol=1e-5)
    assert autograd.reduce_max(X, axes=(1,)).shape == (2, 1)
