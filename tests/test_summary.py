"""`Module.summary` and `Module.graph`: what they say, and that they and all reprs can be shown in any state."""

from __future__ import annotations

import io
import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from dry_models import GPT, Convolutional, Residual, floats, integers, small_gpt
from models import Trained
from onnx import TensorProto, helper

import singax as sx
from singax import layer, metric
from singax.errors import ArgumentError, SingaxError
from singax.inspect.picture import HEIGHT, Place, laid_out

IMAGES = floats(None, 1, 28, 28)


class Small(Trained):
    """5 → 8 → 3."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = layer.Linear(8), layer.Linear(3)

    def forward(self, x: Any) -> Any:
        return self.head(jax.nn.relu(self.first(x)))


# -- the summary ----------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_compiled_model() -> None:
    model = Convolutional()
    before = model.summary(floats(2, 3, 8, 8))
    assert not model._initialized or not sx.layer.tree.tensors(model)
    model.compile([floats(2, 3, 8, 8)], is_train=False)
    after = model.summary()
    assert before.rows == after.rows
    parameters = model.get_params()
    assert after.rows[0].parameters == sum(p.data.size for p in parameters.values())
    assert after.rows[0].parameter_bytes == sum(p.data.nbytes for p in parameters.values())
    states = [t for name, t in model.get_states().items() if name not in parameters]
    assert after.rows[0].state_bytes == sum(t.data.nbytes for t in states)
    assert after["conv1"].shapes == "(2, 3, 8, 8) → (2, 32, 8, 8)"
    assert after["norm1"].state_bytes == 2 * 32 * 4


def test_frozen_parameters_are_counted() -> None:
    model = Small()
    model.compile([floats(4, 5)])
    model.freeze("first.*")
    rows = model.summary()
    assert (rows["first"].frozen, rows["head"].frozen, rows.rows[0].frozen) == (48, 0, 48)
    assert "48 of them frozen" in str(rows)
    with pytest.raises(ArgumentError, match=r"no layer 'second'; layers: loss, first, head"):
        rows["second"]


def test_without_inputs_what_is_known_is_shown() -> None:
    model = Small()
    assert "not built yet" in str(model.summary())
    assert [row.path for row in model.summary().rows] == ["", "loss", "first", "head"]
    assert "shapes are not known: " in str(model.summary(floats(2, 3), floats(2, 3)))


def test_layers_stand_at_the_same_place_with_and_without_inputs() -> None:
    known, unknown = small_gpt().summary(integers(2, 16)), small_gpt().summary()
    assert {(row.path, row.name, row.depth) for row in unknown.rows} <= {(r.path, r.name, r.depth) for r in known.rows}
    assert unknown["blocks.1"].name == "blocks.1"


def test_a_narrow_terminal_cuts_nothing() -> None:
    console = pytest.importorskip("rich.console").Console(width=90, record=True, file=io.StringIO())
    summary = small_gpt().summary(integers(2, 16))
    console.print(summary, small_gpt().dry_run(integers(2, 16), integers(32)))
    shown = console.export_text()
    assert "…" not in shown
    numbers = [cell for row in summary._shown() for cell in row[2:] if cell]
    assert len(numbers) > 20
    assert all(number in shown for number in numbers)
    assert "peak" in shown


def test_depth_and_neighbours_that_are_alike() -> None:
    shown = str(small_gpt().summary(integers(2, 16)))
    assert "blocks.0 TransformerEncoderLayer ×2" in shown
    assert "blocks.1" not in shown
    assert "attention" not in str(small_gpt().summary(integers(2, 16), depth=1))


def test_html_is_a_tree_without_scripts() -> None:
    page = small_gpt().summary(integers(2, 16))._repr_html_()
    assert page.count("<details") == page.count("</details>") > 3
    assert "<script" not in page
    report = small_gpt().dry_run(integers(2, 16), integers(32))._repr_html_()
    assert "TransformerEncoderLayer ×2" in report
    assert "peak" in report


def test_names_are_escaped() -> None:
    made = type("<b>", (Trained,), {"forward": lambda self, x: self.loss.__class__ and x})()
    assert "<b>" not in made.summary()._repr_html_().split("</style>")[1].replace("<b>&lt;b&gt;</b>", "")


def test_plain_text_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    with_rich = str(Small().summary(floats(4, 5)))
    monkeypatch.setitem(sys.modules, "rich.console", None)
    plain = str(Small().summary(floats(4, 5)))
    words = lambda text: [w for w in text.split() if set(w) != {"─"}]  # noqa: E731
    assert words(plain) == words(with_rich)


# -- the graph ------------------------------------------------------------------------------------------------------


def test_nodes_with_shapes_layers_and_attributes() -> None:
    graph = Residual().graph(IMAGES)
    node = graph["blocks.2.shortcut.conv"]
    assert node.layer == "blocks.2.shortcut"
    assert node.shapes == ("(N, 32, 14, 14)",)
    assert node.inputs == ("blocks.1.max_2", "blocks.2.shortcut.W")
    assert node.attributes["stride"] in (2, (2, 2))
    assert len(list(graph)) == len(graph)
    assert len({n.name for n in graph}) == len(graph)
    model = Residual()
    model.compile([floats(2, 1, 28, 28)])
    known = {*graph.inputs, *model.get_states()}
    for each in graph:
        assert {name for name in each.inputs if not _is_number(name)} <= known
        known.add(each.name)
    assert str(graph).splitlines()[-1].strip() == f"→ {graph.outputs[0]}"
    with pytest.raises(ArgumentError, match="no node 'nothing'"):
        graph["nothing"]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


class Ways(sx.Module):
    """Two arguments, a layer called twice, branches and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = (layer.Linear(n) for n in (8, 8, 3, 4))

    def forward(self, x: Any, y: Any) -> Any:
        h = jax.nn.relu(self.a(x) + self.b(y))
        h = h + self.a(h)
        return self.c(jax.numpy.concatenate([h, x], 1)), {"d": self.d(h)}


PICTURES: dict[str, tuple[Callable[[], sx.Module], list[Any]]] = {
    "ways": (Ways, [floats(5, 8), floats(5, 8)]),
    "resnet": (Residual, [IMAGES]),
    "transformer": (small_gpt, [integers(2, 16)]),
    "repeat": (lambda: GPT(4, 16, 2, 30, 8, repeat=True), [integers(2, 8)]),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_boxes_and_labels_do_not_touch(name: str) -> None:
    make, inputs = PICTURES[name]
    graph = make().graph(*inputs)
    for depth in (1, 2, 3):
        ElementTree.fromstring(graph.svg(depth))
        boxes, arrows = graph._boxes(depth)
        places, ways = laid_out(boxes, arrows)
        assert all(way[k].rank < way[k + 1].rank for way in ways for k in range(len(way) - 1))
        for one, other in itertools.combinations(places, 2):
            assert not _overlap(_frame(one), _frame(other)), (one.box, other.box)
            if one.label and other.label:
                assert not _overlap(_label(one), _label(other))


def _frame(place: Place) -> tuple[float, float, float, float]:
    return (place.x - place.width / 2, place.y - HEIGHT / 2, place.x + place.width / 2, place.y + HEIGHT / 2)


def _label(place: Place) -> tuple[float, float, float, float]:
    top = place.y + HEIGHT / 2 + 4
    return (place.x + 6, top, place.x + 6 + 6.1 * len(place.label), top + 12)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_the_picture_has_all_layers_and_shapes(tmp_path: Any) -> None:
    graph = small_gpt().graph(integers(2, 16))
    texts = re.findall(r">([^<>]+)</text>", graph.svg())
    assert {"tokens", "positions", "blocks.0", "blocks.1", "norm", "head", "output"} <= set(texts)
    assert {"(2, 16, 128)", "(2, 16) int32"} <= set(texts)
    graph.save(tmp_path / "picture.svg", depth=2)
    assert "blocks.1.attention" in (tmp_path / "picture.svg").read_text(encoding="utf-8")


def test_the_switch_of_singa_still_switches() -> None:
    model = Small()
    assert model.graph(False) is None
    assert not model.graph_mode
    model.graph(True, True)
    assert (model.graph_mode, model.sequential) == (True, True)
    model.graph(mode=False)
    assert (model.graph_mode, model.sequential) == (False, False)
    with pytest.raises(ArgumentError, match="needs placeholders"):
        model.graph()
    model.compile([floats(4, 5)])
    states = {name: np.asarray(t.data) for name, t in model.get_states().items()}
    assert len(model.graph()) == 5
    np.testing.assert_equal({name: np.asarray(t.data) for name, t in model.get_states().items()}, states)


# -- nothing raises -------------------------------------------------------------------------------------------------


def _uncompiled() -> Any:
    return Small()


def _compiled() -> Any:
    model = Small()
    model.compile([floats(4, 5)])
    return model


def _trained() -> Any:
    model = _compiled()
    model(np.ones((4, 5), np.float32), np.zeros(4, np.int32))
    return model


def _failed() -> Any:
    class Failing(Small):
        def forward(self, x: Any) -> Any:
            return self.head(self.first(x) @ np.ones((2, 2)))

    model = Failing()
    with pytest.raises((SingaxError, TypeError)):
        model.compile([floats(4, 5)])
    return model


def _deleted() -> Any:
    model = _trained()
    for tensor in model.get_states().values():
        tensor.data.delete()
    return model


def _without_init() -> Any:
    class Early(Trained):
        def __init__(self) -> None:
            self.kept.append(self)
            raise RuntimeError("before super().__init__()")

        kept: list[Any] = []  # noqa: RUF012

    with pytest.raises(RuntimeError, match="before"):
        Early()
    return Early.kept[0]


def _imported() -> Any:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 2]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    return sx.Module.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


STATES = [_uncompiled, _compiled, _trained, _failed, _deleted, _without_init, _imported]


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_whatever_is_shown_in_a_notebook_does_not_raise(make: Callable[[], Any]) -> None:
    model = make()
    parts = [model, *(each for _, each in sx.layer.tree.walk(model)), model.compilations]
    for part in parts:
        assert len(repr(part)) < 2000
        str(part)
    shown = model.summary()
    for text in (repr(shown), shown._repr_html_(), model.compilations._repr_html_()):
        assert text
    if model._inputs_seen is not None:
        graph = model.graph()
        report = model.dry_run(*[floats(4, 5)], method="forward")
        for text in (repr(graph), str(graph), graph.svg(), repr(report), str(report), report._repr_html_()):
            assert text
    repr(getattr(model, "optimizer", None))


def test_reprs_inside_a_step_and_of_odd_tensors() -> None:
    seen: list[str] = []

    class Net(Trained):
        def forward(self, x: Any) -> Any:
            seen.append(repr(self) + repr(x))
            return x * 1.0

        def train_one_batch(self, x: Any) -> Any:
            seen.append(repr(x))
            out = self.forward(x)
            seen.append(repr(out))
            return out

    Net()(np.ones((2, 3), np.float32))
    assert len(seen) >= 3
    deleted = sx.Tensor(data=np.ones(3, np.float32))
    deleted.data.delete()
    empty = sx.Tensor(data=np.zeros((0, 3), np.float32))
    unfilled, unknown = sx.Tensor((2, 3)), sx.Placeholder((None, 3))
    large = sx.Tensor(data=np.zeros((1000, 1000), np.float32))
    for tensor in (deleted, empty, unfilled, unknown, large):
        assert len(repr(tensor)) < 500
    assert "deleted" in repr(deleted)
    schedule = sx.opt.ExponentialDecay(0.1, 5, 0.5)
    for each in (sx.opt.SGD(0.1), sx.opt.Adam(schedule), schedule):
        assert len(repr(each)) < 200
    repr(metric.Accuracy())
