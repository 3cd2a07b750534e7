"""Code as SINGA's users write it (section by section of its examples), with the package's name exchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import singax as singa
from singax import autograd, device, initializer, layer, model, opt, singa_wrap, tensor, utils

DEV = device.create_cpu_device()
RNG = np.random.default_rng(0)


# -- examples/cnn: a model with dist_option, placeholders that are filled for each batch --------------------------


class CNN(model.Model):
    def __init__(self, num_classes: int = 10, num_channels: int = 1) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.input_size = 12
        self.dimension = 4
        self.conv1 = layer.Conv2d(num_channels, 4, 3, padding=0, activation="RELU")
        self.conv2 = layer.Conv2d(4, 6, 3, padding=0, activation="RELU")
        self.linear1 = layer.Linear(16)
        self.linear2 = layer.Linear(num_classes)
        self.pooling1 = layer.MaxPool2d(2, 2, padding=0)
        self.relu = layer.ReLU()
        self.flatten = layer.Flatten()
        self.softmax_cross_entropy = layer.SoftMaxCrossEntropy()

    def forward(self, x: Any) -> Any:
        y = self.pooling1(self.conv1(x))
        y = self.flatten(self.conv2(y))
        return self.linear2(self.relu(self.linear1(y)))

    def train_one_batch(self, x: Any, y: Any, dist_option: str, spars: Any) -> Any:
        out = self.forward(x)
        loss = self.softmax_cross_entropy(out, y)
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

    def set_optimizer(self, optimizer: Any) -> None:
        self.optimizer = optimizer


def digits(count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Images and class ids."""
    return RNG.normal(size=(count, 1, 12, 12)).astype(np.float32), RNG.integers(0, 10, count).astype(np.int32)


@pytest.mark.parametrize("graph", [True, False])
def test_cnn(graph: bool) -> None:
    DEV.SetRandSeed(0)
    np.random.seed(0)
    batch_size = 8
    tx = tensor.Tensor((batch_size, 1, 12, 12), DEV, tensor.float32)
    ty = tensor.Tensor((batch_size,), DEV, tensor.int32)
    sgd = opt.SGD(lr=0.05, momentum=0.9, weight_decay=1e-5, dtype=tensor.float32)
    m = CNN()
    m.set_optimizer(sgd)
    m.compile([tx], is_train=True, use_graph=graph, sequential=False)
    x, y = digits()
    losses = []
    m.train()
    for _ in range(12):
        tx.copy_from_numpy(x)
        ty.copy_from_numpy(y)
        out, loss = m(tx, ty, "plain", None)
        losses.append(tensor.to_numpy(loss)[0])
    assert losses[-1] < 0.7 * losses[0]
    m.eval()
    out_test = m(tx)
    assert tensor.to_numpy(out_test).shape == (8, 10)
    assert not hasattr(sgd, "communicator")
    assert out.shape == (8, 10)


@pytest.mark.parametrize("option", ["plain", "half", "partialUpdate", "sparseTopK", "sparseThreshold"])
def test_dist_options_on_one_rank(option: str) -> None:
    m = CNN()
    m.set_optimizer(opt.DistOpt(opt.SGD(lr=0.05, momentum=0.9)))
    assert m.optimizer.world_size == 1
    tx, ty = tensor.Tensor((8, 1, 12, 12), DEV), tensor.Tensor((8,), DEV, tensor.int32)
    graph = option != "partialUpdate"  # as in SINGA, which supports that one only without a graph
    m.compile([tx], is_train=True, use_graph=graph)
    x, y = digits()
    tx.copy_from_numpy(x)
    ty.copy_from_numpy(y)
    losses = [tensor.to_numpy(m(tx, ty, option, 0.05)[1])[0] for _ in range(12)]
    assert losses[-1] < losses[0]


# -- examples/cnn/autograd: no Model ------------------------------------------------------------------------------


def test_layers_without_a_model() -> None:
    class Net:
        def __init__(self) -> None:
            self.conv1 = autograd.Conv2d(1, 4, 3, padding=1, bias=False)
            self.bn1 = autograd.BatchNorm2d(4)
            self.pooling1 = autograd.MaxPool2d(3, 1, padding=1)
            self.fc1 = autograd.Linear(4 * 12 * 12, 10)

        def forward(self, x: Any) -> Any:
            y = autograd.relu(self.bn1(self.conv1(x)))
            y = autograd.flatten(self.pooling1(y))
            return autograd.softmax(self.fc1(y))

    net, sgd = Net(), opt.SGD(lr=0.05)
    x, y = digits()
    tx = tensor.Tensor(device=DEV, data=x)
    onehot = tensor.Tensor(data=np.eye(10, dtype=np.float32)[y], requires_grad=False)
    autograd.training = True
    losses = []
    for _ in range(6):
        loss = autograd.cross_entropy(net.forward(tx), onehot)
        losses.append(tensor.to_numpy(loss)[0])
        for p, gp in autograd.backward(loss):
            sgd.apply(p.name, p, gp)
        sgd.step()
    assert losses[-1] < losses[0]


# -- examples/mlp/native: parameters by hand ----------------------------------------------------------------------


def test_parameters_by_hand() -> None:
    autograd.training = True
    data = RNG.normal(size=(40, 2)).astype(np.float32)
    label = (data[:, 0] + data[:, 1] > 0).astype(np.int32)
    inputs = tensor.Tensor(data=data)
    target = tensor.Tensor(data=np.eye(2, dtype=np.float32)[label])
    w0 = tensor.Tensor(data=RNG.normal(0, 0.1, (2, 3)).astype(np.float32), requires_grad=True, stores_grad=True)
    b0 = tensor.Tensor(shape=(3,), dtype=tensor.float32, requires_grad=True, stores_grad=True)
    b0.set_value(0.0)
    w1 = tensor.Tensor(data=RNG.normal(0, 0.1, (3, 2)).astype(np.float32), requires_grad=True, stores_grad=True)
    b1 = tensor.Tensor(shape=(2,), dtype=tensor.float32, requires_grad=True, stores_grad=True)
    b1.set_value(0.0)
    sgd = opt.SGD(0.05, 0.8)
    losses = []
    for _ in range(150):
        x = autograd.relu(autograd.add_bias(autograd.matmul(inputs, w0), b0))
        x = autograd.add_bias(autograd.matmul(x, w1), b1)
        loss = autograd.softmax_cross_entropy(x, target)
        sgd(loss)
        losses.append(tensor.to_numpy(loss)[0])
    assert losses[-1] < 0.6 * losses[0]


# -- examples/rnn/char_rnn: lists of steps, states that forward updates, own get_states ---------------------------


class CharRNN(model.Model):
    def __init__(self, vocab_size: int, hidden_size: int = 8) -> None:
        super().__init__()
        self.rnn = layer.LSTM(vocab_size, hidden_size)
        self.cat = layer.Cat()
        self.reshape1 = layer.Reshape()
        self.dense = layer.Linear(hidden_size, vocab_size)
        self.reshape2 = layer.Reshape()
        self.softmax_cross_entropy = layer.SoftMaxCrossEntropy()
        self.optimizer = opt.SGD(0.5)
        self.hidden_size, self.vocab_size = hidden_size, vocab_size

    def reset_states(self, dev: Any) -> None:
        self.hx.to_device(dev)
        self.cx.to_device(dev)
        self.hx.set_value(0.0)
        self.cx.set_value(0.0)

    def initialize(self, inputs: Any) -> None:
        batchsize = inputs[0].shape[0]
        self.hx = tensor.Tensor((batchsize, self.hidden_size))
        self.cx = tensor.Tensor((batchsize, self.hidden_size))
        self.reset_states(DEV)

    def forward(self, inputs: Any) -> Any:
        x, hx, cx = self.rnn(inputs, (self.hx, self.cx))
        self.hx.copy_data(hx)
        self.cx.copy_data(cx)
        x = self.cat(x)
        x = self.reshape1(x, (-1, self.hidden_size))
        return self.dense(x)

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        y = self.reshape2(y, (-1, 1))
        loss = self.softmax_cross_entropy(out, y)
        self.optimizer(loss)
        return out, loss

    def get_states(self) -> Any:
        states = super().get_states()
        states[self.name or "" + "hx"] = self.hx
        return states


def test_char_rnn_with_lists() -> None:
    steps, batch, vocab = 4, 3, 5
    ids = RNG.integers(0, vocab, (steps, batch))
    inputs = [tensor.from_numpy(np.eye(vocab, dtype=np.float32)[row]) for row in ids]
    labels = tensor.from_numpy(np.roll(ids, -1, 0).astype(np.int32))
    if labels:
        m = CharRNN(vocab)
    m.train()
    m.graph(True, False)
    losses = [tensor.to_numpy(m(inputs, labels)[1])[0] for _ in range(30)]
    assert losses[-1] < losses[0]
    first = m.hx.to_numpy()
    assert first.any()
    m.reset_states(DEV)
    assert not m.hx.to_numpy().any()
    probabilities = tensor.softmax(m.forward(inputs))
    np.testing.assert_allclose(tensor.to_numpy(probabilities).sum(1), 1, rtol=1e-5)


# -- examples/rnn/imdb: CudnnRNN ----------------------------------------------------------------------------------


class IMDB(model.Model):
    def __init__(self, hidden_size: int, mode: str, return_sequences: bool, bidirectional: bool, layers: int) -> None:
        super().__init__()
        self.return_sequences = return_sequences
        self.rnn = layer.CudnnRNN(
            hidden_size=hidden_size, batch_first=True, rnn_mode=mode, return_sequences=return_sequences,
            num_layers=layers, dropout=0.2, bidirectional=bidirectional,
        )  # fmt: skip
        self.l1 = layer.Linear(8)
        self.l2 = layer.Linear(2)

    def forward(self, x: Any) -> Any:
        y = self.rnn(x)
        if self.return_sequences:
            y = autograd.reshape(y, (-1, int(np.prod(y.shape[1:]))))
        return self.l2(autograd.relu(self.l1(y)))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, y)
        self.optimizer(loss)
        return out, loss


@pytest.mark.parametrize(
    ("mode", "sequences", "bidirectional", "layers"), [("lstm", True, True, 2), ("gru", False, False, 1)]
)
def test_imdb(mode: str, sequences: bool, bidirectional: bool, layers: int) -> None:
    m = IMDB(4, mode, sequences, bidirectional, layers)
    m.optimizer = opt.Adam(lr=0.02)
    tx = tensor.Tensor((6, 5, 3), DEV, tensor.float32)
    ty = tensor.Tensor((6, 2), DEV, tensor.float32)
    m.compile([tx], is_train=True, use_graph=True, sequential=True)
    tx.copy_from_numpy(RNG.normal(size=(6, 5, 3)).astype(np.float32))
    ty.copy_from_numpy(np.eye(2, dtype=np.float32)[RNG.integers(0, 2, 6)])
    losses = [float(m(tx, ty)[1]) for _ in range(25)]
    assert losses[-1] < losses[0]


# -- examples/gan: selective updates by name ----------------------------------------------------------------------


class GAN(model.Model):
    def __init__(self) -> None:
        super().__init__()
        self.gen_net_fc_0 = layer.Linear(6)
        self.gen_net_fc_1 = layer.Linear(4)
        self.dis_net_fc_0 = layer.Linear(6)
        self.dis_net_fc_1 = layer.Linear(1)
        self.gen_net_relu_0, self.dis_net_relu_0 = layer.ReLU(), layer.ReLU()
        self.sigmoid = layer.Sigmoid()
        self.binary_cross_entropy = layer.BinaryCrossEntropy()

    def forward(self, x: Any) -> Any:
        return self.forward_dis(self.forward_gen(x))

    def forward_gen(self, x: Any) -> Any:
        return self.gen_net_fc_1(self.gen_net_relu_0(self.gen_net_fc_0(x)))

    def forward_dis(self, x: Any) -> Any:
        return self.sigmoid(self.dis_net_fc_1(self.dis_net_relu_0(self.dis_net_fc_0(x))))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        out = self.forward(x)
        loss = self.binary_cross_entropy(out, y)
        for p, g in autograd.backward(loss):
            if "gen_net" in p.name:
                self.optimizer.apply(p.name, p, g)
        return out, loss

    def train_one_batch_dis(self, x: Any, y: Any) -> Any:
        out = self.forward_dis(x)
        loss = self.binary_cross_entropy(out, y)
        for p, g in autograd.backward(loss):
            if "dis_net" in p.name:
                self.optimizer.apply(p.name, p, g)
        return out, loss

    def set_optimizer(self, optimizer: Any) -> None:
        self.optimizer = optimizer


def test_gan() -> None:
    m = GAN()
    m.set_optimizer(opt.Adam(lr=0.01))
    noise = tensor.Tensor((5, 3), DEV, tensor.float32)
    m.compile([noise], is_train=True, use_graph=False, sequential=True)
    ones = tensor.Tensor((5, 1), DEV).set_value(1.0)
    real = tensor.Tensor((5, 4), DEV)
    for _ in range(3):
        noise.uniform(-1, 1)
        real.uniform(0, 1)
        before = {name: t.to_numpy() for name, t in m.get_params().items()}
        m.train_one_batch(noise, ones)
        middle = {name: t.to_numpy() for name, t in m.get_params().items()}
        m.train_one_batch_dis(real, ones)
        after = {name: t.to_numpy() for name, t in m.get_params().items()}
    moved = {name for name in before if (before[name] != middle[name]).any()}
    assert moved
    assert all("gen_net" in name for name in moved)
    assert all("dis_net" in name for name in middle if (middle[name] != after[name]).any())


# -- examples/rbm: no autograd ------------------------------------------------------------------------------------


def test_rbm() -> None:
    visible, hidden, batch = 12, 6, 10
    weight = tensor.Tensor((visible, hidden), DEV)
    weight.gaussian(0.0, 0.1)
    vbias, hbias = tensor.from_numpy(np.zeros(visible, np.float32)), tensor.from_numpy(np.zeros(hidden, np.float32))
    vbias.to_device(DEV)
    sgd = opt.SGD(lr=0.05, momentum=0.5, weight_decay=2e-4)
    patterns = (RNG.random((batch, visible)) > 0.5).astype(np.float32)
    errors = []
    for _ in range(20):
        data = tensor.from_numpy(patterns)
        poshidprob = tensor.sigmoid(tensor.mult(data, weight) + hbias)
        poshidrandom = tensor.Tensor((batch, hidden), DEV)
        poshidrandom.uniform(0.0, 1.0)
        poshidsample = tensor.gt(poshidprob, poshidrandom)
        negdata = tensor.sigmoid(tensor.mult(poshidsample, weight.T()) + vbias)
        neghidprob = tensor.sigmoid(tensor.mult(negdata, weight) + hbias)
        errors.append(tensor.to_numpy(tensor.sum(tensor.square(data - negdata)))[0][0])
        gweight = tensor.mult(negdata.T(), neghidprob) - tensor.mult(data.T(), poshidprob)
        gvbias = tensor.sum(negdata, 0) - tensor.sum(data, 0)
        ghbias = tensor.sum(neghidprob, 0) - tensor.sum(poshidprob, 0)
        sgd.apply("w", weight, gweight)
        sgd.apply("vb", vbias, gvbias)
        sgd.apply("hb", hbias, ghbias)
    assert errors[-1] < errors[0]


# -- examples/qabot: two inputs, two outputs, ranking loss --------------------------------------------------------


class QAModel(model.Model):
    def __init__(self, hidden_size: int, q_max: int, a_max: int) -> None:
        super().__init__()
        self.lstm = layer.CudnnRNN(hidden_size=hidden_size, bidirectional=True, return_sequences=True)
        self.q_pool, self.a_pool = layer.MaxPool2d((q_max, 1)), layer.MaxPool2d((a_max, 1))

    def forward(self, q: Any, a_batch: Any) -> Any:
        q = self.lstm(q)
        a_batch = self.lstm(a_batch)
        q = autograd.reshape(q, (q.shape[0], 1, *q.shape[1:]))
        a_batch = autograd.reshape(a_batch, (a_batch.shape[0], 1, *a_batch.shape[1:]))
        q, a_batch = self.q_pool(q), self.a_pool(a_batch)
        q = autograd.reshape(q, (q.shape[0], -1))
        a_batch = autograd.reshape(a_batch, (a_batch.shape[0], -1))
        a_pos, a_neg = autograd.split(a_batch, 0, [q.shape[0], q.shape[0]])
        return autograd.cossim(q, a_pos), autograd.cossim(q, a_neg)


def test_qabot() -> None:
    m = QAModel(4, 5, 6)
    q, a = tensor.random((3, 5, 2), DEV), tensor.random((6, 6, 2), DEV)
    m.compile([q, a], is_train=True, use_graph=False, sequential=False)
    m.optimizer = opt.SGD(0.1, 0.5)
    losses = []
    for _ in range(12):
        sim_pos, sim_neg = m.forward(q, a)
        loss = autograd.ranking_loss(sim_pos, sim_neg)
        m.optimizer(loss)
        losses.append(tensor.to_numpy(loss)[0])
    assert losses[-1] < losses[0]


# -- examples/trans: user layers, index values from data ----------------------------------------------------------


class LayerNorm(layer.Layer):
    def __init__(self, n_features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.n_features, self.eps = n_features, eps

    def initialize(self, x: Any) -> None:
        shape = (self.n_features,)
        self.Gamma = tensor.Tensor(shape=shape, dtype=x.dtype, requires_grad=False, stores_grad=True)
        self.Beta = tensor.Tensor(shape=shape, dtype=x.dtype, requires_grad=False, stores_grad=True)
        self.Gamma.set_value(1.0)
        self.Beta.set_value(0.0)

    def forward(self, x: Any) -> Any:
        mean = autograd.reduce_mean(x, axes=[-1])
        centred = autograd.sub(x, mean)
        var = autograd.reduce_mean(autograd.mul(centred, centred), axes=[-1])
        return autograd.add(autograd.mul(autograd.div(centred, autograd.sqrt(var + self.eps)), self.Gamma), self.Beta)


class Attention(model.Model):
    def __init__(self) -> None:
        super().__init__()
        self.emb = layer.Embedding(7, 4)
        self.norm = LayerNorm(4)
        self.head = layer.Linear(7)

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.emb(ids)
        scores = autograd.matmul(x, autograd.transpose(x, (0, 2, 1)))
        weights = autograd.softmax(scores, axis=-1)
        x = self.norm(autograd.matmul(weights, x))
        return self.head(autograd.reshape(x, (-1, 4)))

    def train_one_batch(self, ids: Any, mask: Any, y: Any) -> Any:
        out = self.forward(ids, mask)
        loss = autograd.softmax_cross_entropy(out, y)
        self.optimizer(loss)
        return out, loss, 0.5


def test_trans_without_compile() -> None:
    m = Attention()
    m.optimizer = opt.Adam(0.05)
    m.graph(mode=False)
    m.train()
    ids = tensor.from_numpy(RNG.integers(0, 7, (2, 3)).astype(np.int32))
    y = tensor.from_numpy(RNG.integers(0, 7, 6).astype(np.int32))
    results = [m(ids, np.zeros((2, 3)), y) for _ in range(15)]
    assert float(results[-1][1]) < float(results[0][1])
    assert results[0][2] == 0.5
    m.emb.from_pretrained(W=tensor.from_numpy(np.ones((7, 4), np.float32)), freeze=True)
    m(ids, np.zeros((2, 3)), y)
    assert (m.emb.W.to_numpy() == 1).all()


def test_where_with_lists_and_squeezing() -> None:
    scores = tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    fill = tensor.Tensor((2, 3)).set_value(-1e9)
    masked = autograd.where(fill, scores, np.array([[1, 0, 0], [0, 1, 0]]))
    assert (tensor.to_numpy(masked) < -1e8).sum() == 2
    wide = autograd.unsqueeze(scores, axis=[0])
    assert wide.shape == (1, 2, 3)
    assert autograd.squeeze(wide, [0]).shape == (2, 3)
    assert autograd.cat((scores, scores), 1).shape == (2, 6)
    assert scores[0].shape == (1, 3)


# -- examples/hfl: sums of Tensors, states as arrays --------------------------------------------------------------


def test_federated_averages() -> None:
    weights = [tensor.from_numpy(np.full((2, 2), float(k), np.float32)) for k in range(1, 4)]
    mean = sum(weights) / len(weights)
    np.testing.assert_array_equal(tensor.to_numpy(mean), np.full((2, 2), 2.0))


# -- saving, user operations, helpers -----------------------------------------------------------------------------


def test_states_and_checkpoints(tmp_path: Any) -> None:
    m = CNN()
    m.set_optimizer(opt.SGD(lr=0.05))
    tx = tensor.Tensor((8, 1, 12, 12), DEV)
    m.compile([tx], is_train=False, use_graph=True)
    assert sorted(m.get_states()) == [
        "conv1.W", "conv1.b", "conv2.W", "conv2.b", "linear1.W", "linear1.b", "linear2.W", "linear2.b",
    ]  # fmt: skip
    m.save_states(str(tmp_path / "cnn.zip"), {"epoch": tensor.from_numpy(np.array([3], np.int32))})
    aux = m.load_states(str(tmp_path / "cnn.zip"))
    assert int(tensor.to_numpy(aux["epoch"])[0]) == 3


def test_user_operation() -> None:
    class Scale(autograd.Operator):
        def __init__(self, k: float) -> None:
            super().__init__()
            self.k = k

        def forward(self, x: Any) -> Any:
            return x * self.k

        def backward(self, dy: Any) -> Any:
            return dy * self.k

    autograd.training = True
    x = tensor.from_numpy(np.ones((2, 2), np.float32))
    y = Scale(3.0)(x)[0]
    dy = tensor.from_numpy(np.full((2, 2), 2.0, np.float32))
    np.testing.assert_array_equal(np.asarray(y.creator.backward(dy.data)), np.full((2, 2), 6.0))


def test_operator_classes_and_handles() -> None:
    autograd.training = True
    x = tensor.from_numpy(RNG.normal(size=(2, 3, 6, 6)).astype(np.float32))
    y = autograd.ReLU()(x)[0]
    np.testing.assert_array_equal(tensor.to_numpy(y), np.maximum(tensor.to_numpy(x), 0))
    W = tensor.Tensor((4, 3, 3, 3)).gaussian(0.0, 0.1)
    b = tensor.Tensor((4,)).set_value(0.0)
    handle = singa_wrap.ConvHandle(x.data, (3, 3), (1, 1), (1, 1), 3, 4, True, 1)
    y = autograd.conv2d(handle, x, W, b)
    assert y.shape == (2, 4, 6, 6)
    dx, dW, db = y.creator.backward(y.data)
    assert (tuple(dx.shape), tuple(dW.shape), tuple(db.shape)) == ((2, 3, 6, 6), (4, 3, 3, 3), (4,))


def test_helpers() -> None:
    assert (singa_wrap.USE_CUDA, device.get_num_gpus()) == (0, 0)
    t = tensor.Tensor((4, 4))
    initializer.he_uniform(t)
    assert abs(tensor.to_numpy(t)).max() <= np.sqrt(6 / 4)
    assert utils.get_output_shape("SAME_UPPER", [5, 5], [3, 3], [2, 2]) == [3, 3]
    assert singa.__version__
