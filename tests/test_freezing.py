"""`Module.freeze` and `unfreeze`: parameters by name, before and after they exist."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import singax as sx
from singax.errors import ArgumentError, NameMismatchError, StateError

X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)


class Encoder(sx.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = sx.layer.Linear(5), sx.layer.Linear(4)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x))


class Net(sx.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.head, self.loss = Encoder(), sx.layer.Linear(2), sx.layer.MeanSquareError()
        self.optimizer = sx.opt.SGD(lr=0.1, momentum=0.9)

    def forward(self, x: Any) -> Any:
        return self.head(self.encoder(x))

    def train_one_batch(self, x: Any, y: Any) -> Any:
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


def compiled(use_graph: bool = True, *frozen: str) -> Net:
    net = Net()
    if frozen:
        net.freeze(*frozen)
    net.compile([sx.Placeholder((4, 3))], use_graph=use_graph)
    return net


def moved(net: Net, steps: int = 2) -> set[str]:
    """The parameters that some steps change."""
    before = {name: tensor.to_numpy() for name, tensor in net.get_params().items()}
    for _ in range(steps):
        net(X, Y)
    return {name for name, tensor in net.get_params().items() if (tensor.to_numpy() != before[name]).any()}


def slots(net: Net) -> set[str]:
    return {path.removeprefix("optimizer.momentum.") for path in net.state_dict() if ".momentum." in path}


FIRST, SECOND, HEAD = ({f"{name}.W", f"{name}.b"} for name in ("encoder.first", "encoder.second", "head"))


@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_frozen_parameters_get_no_update_and_no_slot(use_graph: bool, early: bool) -> None:
    net = compiled(use_graph, *(["encoder.*"] if early else []))
    if not early:
        net.freeze("encoder.*")
    assert {name for name, tensor in net.get_params().items() if tensor.requires_grad} == HEAD
    assert moved(net) == HEAD
    assert slots(net) == HEAD
    assert len(net.compilations) == int(use_graph)


def test_a_change_compiles_once_more() -> None:
    net = compiled()
    assert moved(net) == FIRST | SECOND | HEAD
    net.freeze("encoder.first.*")
    assert slots(net) == SECOND | HEAD
    assert moved(net) == SECOND | HEAD
    assert len(net.compilations) == 2
    assert "encoder.first.W was frozen" in net.compilations[-1].changed
    net.unfreeze("encoder.first.*")
    assert moved(net) == FIRST | SECOND | HEAD
    assert slots(net) == FIRST | SECOND | HEAD
    assert len(net.compilations) == 3


def test_other_parameters_move_as_if_nothing_had_happened() -> None:
    """Gradients flow through what is frozen."""
    frozen, free = compiled(True, "encoder.second.*"), compiled()
    frozen(X, Y)
    free(X, Y)
    for name in FIRST | HEAD:
        np.testing.assert_array_equal(frozen.get_params()[name].to_numpy(), free.get_params()[name].to_numpy())


def test_the_last_call_that_matches_decides() -> None:
    net = Net()
    net.freeze()
    net.unfreeze("head.*", "encoder.second.b")
    net.freeze("*.b")
    net.compile([sx.Placeholder((4, 3))])
    assert moved(net) == {"head.W"}


def test_what_was_never_compiled_is_frozen_too() -> None:
    net = Net()
    net.freeze("encoder.*")
    net(X, Y)
    assert moved(net, steps=1) == HEAD


def test_an_inner_model_freezes_by_its_own_names() -> None:
    net = Net()
    net.encoder.freeze("first.W")
    net.compile([sx.Placeholder((4, 3))])
    assert moved(net) == (FIRST | SECOND | HEAD) - {"encoder.first.W"}
    net.encoder.freeze("second.*")
    assert slots(net) == {"encoder.first.b"} | HEAD


def test_flags_set_by_hand_stay() -> None:
    net = compiled(True, "encoder.*")
    net.get_params()["encoder.first.W"].requires_grad = True
    net.compile([sx.Placeholder((4, 3))])
    assert moved(net) == {"encoder.first.W"} | HEAD


def test_a_new_layer_is_decided_on_when_it_comes() -> None:
    net = compiled(True, "head.*")
    net.head = sx.layer.Linear(2)
    net.compile([sx.Placeholder((4, 3))])
    assert moved(net) == FIRST | SECOND


def test_a_copy_is_frozen_on_its_own() -> None:
    net = compiled(True, "encoder.*")
    other = copy.deepcopy(net)
    net.unfreeze()
    assert moved(other) == HEAD
    assert moved(net) == FIRST | SECOND | HEAD


def test_a_pattern_without_a_match_is_refused() -> None:
    net = compiled()
    with pytest.raises(NameMismatchError, match=r"'encodr\.\*'.*encoder\.first\.W"):
        net.freeze("head.*", "encodr.*")
    assert moved(net) == FIRST | SECOND | HEAD
    early = Net()
    early.freeze("encodr.*")
    with pytest.raises(NameMismatchError, match="encodr"):
        early.compile([sx.Placeholder((4, 3))])
    with pytest.raises(ArgumentError, match="Received: 3"):
        net.freeze(3)  # type: ignore[arg-type]


def test_inside_a_step_nothing_is_frozen() -> None:
    class Late(Net):
        def train_one_batch(self, x: Any, y: Any) -> Any:
            self.freeze("head.*")
            return super().train_one_batch(x, y)

    net = Late()
    with pytest.raises(StateError, match="between steps"):
        net(X, Y)
