"""DistOpt: one rank as SINGA computes it, eight ranks along an axis, two processes."""

from __future__ import annotations

import math
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from models import MLP, blobs, states

import singax as sx
from singax import autograd, opt
from singax.opt import compression
from singax.tensor import Tensor


class Distributed(MLP):
    """SINGA's dispatch on `dist_option`, as its examples write it."""

    def train_one_batch(self, x: Any, y: Any, dist_option: str = "plain", spars: float | None = None) -> Any:
        out = self.forward(x)
        loss = self.loss(out, y)
        if dist_option == "plain":
            self.optimizer(loss)
        elif dist_option == "half":
            self.optimizer.backward_and_update_half(loss)
        elif dist_option == "partialUpdate":
            self.optimizer.backward_and_partial_update(loss)
        elif dist_option == "sparseTopK":
            self.optimizer.backward_and_sparse_update(loss, topK=True, spars=spars)
        elif dist_option == "sparseThreshold":
            self.optimizer.backward_and_sparse_update(loss, topK=False, spars=spars)
        return out, loss


def train(optimizer: Any, *options: Any, use_graph: bool = True, steps: int = 3) -> dict[str, np.ndarray]:
    x, y = blobs()
    sx.device.set_seed(0)
    net = Distributed(optimizer)
    net.compile([x], use_graph=use_graph)
    for _ in range(steps):
        net(x, y, *options)
    assert len(net.compilations) == use_graph
    return states(net)


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("option", ["plain", "partialUpdate"])
def test_one_rank_is_the_wrapped_optimizer(option: str, use_graph: bool) -> None:
    expected = train(opt.SGD(0.1, momentum=0.9))
    found = train(opt.DistOpt(opt.SGD(0.1, momentum=0.9)), option, use_graph=use_graph)
    assert set(found) == set(expected)
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, rtol=1e-4, atol=1e-6, err_msg=path)


Compress = Callable[[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]


def by_hand(compress: Compress, steps: int = 3) -> dict[str, np.ndarray]:
    """The MLP under SGD(0.1), with gradients that go through `compress(gradients, residuals)`."""
    x, y = blobs()
    sx.device.set_seed(0)
    net = MLP(opt.SGD(0.1))
    net.compile([x])
    residuals: dict[str, np.ndarray] = {}
    for _ in range(steps):
        loss = net.loss(net.forward(sx.from_numpy(x)), y)
        pairs = [(p, g.to_numpy()) for p, g in autograd.backward(loss)]
        held = [residuals.setdefault(p.name, np.zeros_like(g)) for p, g in pairs]
        for (p, _), g in zip(pairs, compress([g for _, g in pairs], held), strict=True):
            p.copy_from_numpy(p.to_numpy() - np.float32(0.1) * g)
    return {path: p.to_numpy() for path, p in net.get_params().items()} | {
        f"optimizer.residual.{path}": value for path, value in residuals.items()
    }


def through_half(grads: list[np.ndarray], residuals: list[np.ndarray]) -> list[np.ndarray]:
    return [g.astype(np.float16).astype(np.float32) for g in grads]


def top_k(fraction: float) -> Compress:
    def compress(grads: list[np.ndarray], residuals: list[np.ndarray]) -> list[np.ndarray]:
        flat = np.concatenate([(g + r).ravel() for g, r in zip(grads, residuals, strict=True)])
        keep = np.argsort(-np.abs(flat), kind="stable")[: math.ceil(fraction * flat.size)]
        kept = np.zeros_like(flat)
        kept[keep] = flat[keep]
        rest, start = flat - kept, 0
        for r in residuals:
            r[...] = rest[start : start + r.size].reshape(r.shape)
            start += r.size
        ends = np.cumsum([g.size for g in grads])[:-1]
        return [part.reshape(g.shape) for part, g in zip(np.split(kept, ends), grads, strict=True)]

    return compress


def threshold(limit: float) -> Compress:
    def compress(grads: list[np.ndarray], residuals: list[np.ndarray]) -> list[np.ndarray]:
        values = [g + r for g, r in zip(grads, residuals, strict=True)]
        kept = [np.where(np.abs(v) >= limit, v, 0) for v in values]
        for r, v, k in zip(residuals, values, kept, strict=True):
            r[...] = v - k
        return kept

    return compress


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize(
    ("options", "compress"),
    [
        (("half",), through_half),
        (("sparseTopK", 0.1), top_k(0.1)),
        (("sparseThreshold", 0.02), threshold(0.02)),
    ],
    ids=["half", "topK", "threshold"],
)
def test_one_rank_compresses_as_singa(options: tuple[Any, ...], compress: Compress, use_graph: bool) -> None:
    expected = by_hand(compress)
    found = train(opt.DistOpt(opt.SGD(0.1)), *options, use_graph=use_graph)
    for path in found:
        if path in expected:
            np.testing.assert_allclose(found[path], expected[path], rtol=1e-4, atol=1e-6, err_msg=path)
    assert any("residual" in path for path in found) == options[0].startswith("sparse")


def test_clipping_and_no_feedback() -> None:
    w = Tensor(data=[0.0, 0.0], stores_grad=True, name="w")
    autograd.training = True
    dist = opt.DistOpt(opt.SGD(1.0))
    loss = autograd.reduce_sum(w * Tensor(data=[3.0, 0.5]))
    dist.backward_and_update_half(loss, clipping=True, clip_Value=2)
    np.testing.assert_array_equal(w.to_numpy(), [-2.0, -0.5])
    loss = autograd.reduce_sum(w * Tensor(data=[3.0, 0.5]))
    dist.backward_and_sparse_update(loss, spars=1.0, corr=False)
    np.testing.assert_array_equal(w.to_numpy(), [-5.0, -0.5])
    assert [name for name, _ in dist.state_tensors()] == ["step", "lr"]
    assert dist.opt.get_states()["step_counter"] == 2


def test_groups_are_singas() -> None:
    assert compression.groups([5, 20, 4, 8, 1], 10) == [[1], [0, 2, 3], [4]]
    assert compression.groups([3], 10) == [[0]]
    assert compression.groups([], 10) == []


def test_single_reductions_work_in_place() -> None:
    dist = opt.DistOpt(opt.SGD(0.1))
    assert (dist.world_size, dist.global_rank, dist.local_rank) == (1, 0, 0)
    assert hasattr(dist, "communicator")
    t, rest = Tensor(data=[1.0001, -3.0, 0.1]), Tensor(data=[0.0, 0.0, 0.5])
    dist.all_reduce(t.data)
    dist.all_reduce_half(t)
    np.testing.assert_array_equal(t.to_numpy(), np.array([1.0001, -3, 0.1], np.float16).astype(np.float32))
    dist.sparsification(t, rest, 1.0, False)
    np.testing.assert_allclose(t.to_numpy(), [1, -3, 0], rtol=1e-3)
    np.testing.assert_allclose(rest.to_numpy(), [0, 0, 0.6], rtol=1e-3)
    a, b = Tensor(data=[1.0, -2.0]), Tensor(data=[[5.0]])
    dist.fused_sparsification([a, b], None, 0.5, True)
    np.testing.assert_array_equal(np.append(a.to_numpy(), b.to_numpy()), [0, -2, 5])
    dist.fused_all_reduce([a], send=False)
    dist.fused_all_reduce([b], send=False)
    dist.fused_all_reduce([a, b])
    dist.wait()
    dist.fused_all_reduce_half([a], send=False)
    with pytest.raises(sx.errors.ArgumentError, match="buffered since the last time"):
        dist.fused_all_reduce_half([b])
    with pytest.raises(sx.errors.ArgumentError, match="pass the Tensor itself"):
        dist.all_reduce_half(a.data)


def sharded(net: MLP, ranks: int, method: str = "train_one_batch", check_vma: bool = False, axis: str = "batch") -> Any:
    mesh = Mesh(np.array(jax.devices()[:ranks]), (axis,))
    step, whole, part = net.functional_step(method), PartitionSpec(), PartitionSpec(axis)

    def body(state: Any, x: Any, y: Any) -> Any:
        new, (_, loss) = step(state, x, y)
        return new, jax.lax.pmean(loss, axis)

    return step, jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=(whole, part, part), out_specs=(whole, whole), check_vma=check_vma)
    )


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.5, "accumulate": 2, "average": 0.9}], ids=["plain", "options"])
def test_eight_devices_equal_one(options: dict[str, Any]) -> None:
    x, y = blobs()
    net = MLP(opt.DistOpt(opt.Adam(0.05, **options), axis_name="batch"))
    step, parallel = sharded(net, 8)
    one = many = step.init(0, x, y)
    for _ in range(4):
        one, (_, loss) = step(one, x, y)
        many, mean = parallel(many, x, y)
        np.testing.assert_allclose(mean, loss, rtol=1e-4)
    for path, value in one.items():
        np.testing.assert_allclose(many[path], value, rtol=2e-3, atol=1e-5, err_msg=path)


def test_half_and_sparse_along_an_axis() -> None:
    class Half(MLP):
        @sx.step
        def half(self, x: Any, y: Any) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            self.optimizer.backward_and_update_half(loss)
            return out, loss

        @sx.step
        def sparse(self, x: Any, y: Any) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            self.optimizer.backward_and_sparse_update(loss, spars=0.0, corr=False)
            return out, loss

        @sx.step
        def feedback(self, x: Any, y: Any) -> Any:
            out = self.forward(x)
            loss = self.loss(out, y)
            self.optimizer.backward_and_sparse_update(loss)
            return out, loss

    x, y = blobs()
    net = Half(opt.DistOpt(opt.SGD(0.1), axis_name="batch"))
    _, plain = sharded(net, 4)
    state = net.functional_step().init(0, x, y)
    expected, _ = plain(state, x, y)
    for method, tolerance in (("half", 1e-3), ("sparse", 1e-5)):
        found, _ = sharded(net, 4, method)[1](state, x, y)
        np.testing.assert_allclose(found["fc1.W"], expected["fc1.W"], atol=tolerance)
        assert not np.array_equal(found["fc1.W"], state["fc1.W"])
    with pytest.raises(sx.errors.StateError, match="corr=True keeps other states on every rank"):
        sharded(net, 4, "feedback")[1](state, x, y)


def test_what_an_axis_refuses() -> None:
    x, y = blobs()
    net = MLP(opt.DistOpt(opt.SGD(0.1), axis_name="batch"))
    state = net.functional_step().init(0, x, y)
    with pytest.raises(sx.errors.ArgumentError, match="check_vma=False"):
        sharded(net, 2, check_vma=True)[1](state, x, y)
    with pytest.raises(sx.errors.ArgumentError, match=r"axis 'batch', which is not bound here.*\['other'\]"):
        sharded(net, 2, axis="other")[1](state, x, y)


def test_what_is_refused() -> None:
    for make, words in (
        (lambda: opt.DistOpt(3), "wraps an Optimizer"),
        (lambda: opt.DistOpt(opt.SGD(), world_size=4), "JAX knows 1 .* world_size=4"),
        (lambda: opt.DistOpt(opt.SGD(), world_size=2, axis_name="batch"), "the axis 'batch' says"),
    ):
        with pytest.raises(sx.errors.ArgumentError, match=words):
            make()
    w = Tensor(data=[0.0], stores_grad=True, name="w")
    autograd.training = True
    dist, loss = opt.DistOpt(), w * 2.0
    for spars, k in ((0.0, True), (1.5, True), (-1.0, False)):
        with pytest.raises(sx.errors.ArgumentError, match="spars is"):
            dist.backward_and_sparse_update(loss, spars=spars, topK=k)


PROCESS = """
import sys
import jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank = int(sys.argv[1])
jax.distributed.initialize("127.0.0.1:" + sys.argv[2], 2, rank)
import numpy as np
import singax as sx
from singax import autograd, opt
from models import MLP, blobs, states

dist = opt.DistOpt(opt.SGD(0.1), world_size=2, local_rank=rank)
assert (dist.world_size, dist.global_rank, dist.local_rank) == (2, rank, rank)
t = sx.Tensor(data=[1.0 + rank]); dist.all_reduce(t)
assert float(t) == 3.0
try:
    dist.all_reduce(t.data)
except sx.errors.ArgumentError:
    pass
else:
    raise SystemExit("an array was accepted")
x, y = blobs()
half = slice(8 * rank, 8 * rank + 8)
net = MLP(dist)
net.compile([x[half]], use_graph=False)
for _ in range(3):
    net(x[half], y[half])
sx.device.set_seed(0)
alone = MLP(opt.SGD(0.1))
alone.compile([x])
for _ in range(3):
    alone(x, y)
np.testing.assert_allclose(net.fc1.W.to_numpy(), alone.fc1.W.to_numpy(), rtol=1e-4, atol=1e-6)
autograd.training = True
w, v = (sx.Tensor(data=[float(rank)], stores_grad=True, name=n) for n in "wv")
for n in range(2):
    dist.backward_and_partial_update(w * 1.0 + v * 1.0, threshold=0)
np.testing.assert_allclose([float(w), float(v)], [0.3, 0.3], rtol=1e-5)
dist.backward_and_sparse_update(w * (1.0 + rank), spars=1.5)
np.testing.assert_allclose(float(w), 0.3 - 0.1 * (2.0 / 2), rtol=1e-5)
np.testing.assert_allclose(float(dist._residuals.held["residual"]["w"]), 1.0 - rank, rtol=1e-5)
net.graph(True)
try:
    net(x[half], y[half])
except sx.errors.StateError as error:
    assert "use_graph=False" in str(error)
else:
    raise SystemExit("a compiled step was accepted")
print("done", rank)
"""


def test_two_processes(tmp_path: pathlib.Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    paths = [str(pathlib.Path(sx.__file__).parent.parent), str(pathlib.Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XLA_FLAGS": ""}
    running = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), port],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    for rank, process in enumerate(running):
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, out
        assert f"done {rank}" in out
