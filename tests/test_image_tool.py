"""Image augmentation: sizes, pixels, numbers of cases, errors."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import numpy as np
import pytest
from PIL import Image

from singax import image_tool
from singax.errors import ArgumentError, ShapeError
from singax.image_tool import ImageTool


def picture(width: int = 12, height: int = 8) -> Image.Image:
    """Red grows to the right, green downwards."""
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    return Image.fromarray(np.stack([across, down, np.zeros_like(down)], -1).astype(np.uint8))


def red_green(image: Image.Image) -> tuple[int, ...]:
    """The first pixel's coordinates in `picture`."""
    return tuple(int(v) for v in np.asarray(image)[0, 0, :2])


@pytest.mark.parametrize(
    ("position", "corner"),
    [
        ("left_top", (0, 0)),
        ("left_bottom", (0, 5)),
        ("right_top", (8, 0)),
        ("right_bottom", (8, 5)),
        ("center", (4, 2)),
    ],
)
def test_crop(position: str, corner: tuple[int, int]) -> None:
    """The patch (width, height) stands where it should."""
    made = image_tool.crop(picture(), (4, 3), position)
    assert (made.size, red_green(made)) == ((4, 3), corner)


@pytest.mark.parametrize(("position", "first"), [("left", (0, 0)), ("center", (2, 0)), ("right", (4, 0))])
def test_crop_and_resize(position: str, first: tuple[int, int]) -> None:
    """The largest square at that place."""
    made = image_tool.crop_and_resize(picture(), (8, 8), position)
    assert (made.size, red_green(made)) == ((8, 8), first)
    tall = image_tool.crop_and_resize(
        picture(4, 10), (4, 4), {"left": "top", "center": "middle", "right": "bottom"}[position]
    )
    assert red_green(tall) == (0, {"left": 0, "center": 3, "right": 6}[position])


def test_sizes_and_flips() -> None:
    """resize keeps the aspect ratio; flips exchange pixels and nothing else."""
    assert image_tool.resize(picture(), 4).size == (6, 4)
    assert image_tool.scale(picture(8, 12), 4).size == (4, 6)
    assert image_tool.resize_by_hw(picture(), (3, 5)).size == (5, 3)
    original = np.asarray(picture())
    np.testing.assert_array_equal(np.asarray(image_tool.flip(picture())), original[:, ::-1])
    np.testing.assert_array_equal(np.asarray(image_tool.flip_down(picture())), original[::-1])


def test_loading(tmp_path: pathlib.Path) -> None:
    """Three channels, or one."""
    picture().convert("L").save(tmp_path / "a.png")
    assert image_tool.load_img(tmp_path / "a.png").mode == "RGB"
    assert ImageTool().load(tmp_path / "a.png", grayscale=True).get()[0].mode == "L"


def test_color_cast_and_enhance() -> None:
    """One offset per channel, clipped; enhancement keeps size and mode."""
    random.seed(0)
    original = np.asarray(picture()).astype(int)
    for _ in range(20):
        cast = np.asarray(image_tool.color_cast(picture(), 3)).astype(int) - original
        assert np.abs(cast).max() <= 3
        inner = cast[4:, 4:, :2]  # far from 0, so nothing is clipped
        assert (inner == inner[0, 0]).all()
    made = image_tool.enhance(picture(), 0.5)
    assert (made.size, made.mode) == ((12, 8), "RGB")


CHAINS: list[tuple[str, tuple[Any, ...], int]] = [
    ("resize_by_list", ([4, 5, 6], 2), 2),
    ("resize_by_range", ((4, 6),), 1),
    ("scale_by_list", ([4, 5], 2), 2),
    ("scale_by_range", ((4, 6),), 1),
    ("resize_by_hw_list", ([(3, 4), (5, 6)], 2), 2),
    ("resize_by_hw_range", (((3, 5), (4, 6)),), 1),
    ("rotate_by_list", ([10, 20, 30], 3), 3),
    ("rotate_by_range", ((0, 90),), 1),
    ("crop5", ((4, 4), 5), 5),
    ("crop5", ((4, 4), 2), 2),
    ("crop3", ((4, 4), 3), 3),
    ("crop8", ((4, 4), 8), 8),
    ("crop8", ((4, 4), 3), 3),
    ("random_crop", ((4, 4),), 1),
    ("random_crop_resize", ((4, 4),), 1),
    ("flip", (2,), 2),
    ("flip_down", (1,), 1),
    ("color_cast", (20,), 1),
    ("enhance", (0.2,), 1),
]


@pytest.mark.parametrize(("method", "arguments", "count"), CHAINS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_augmentation_of_the_tool(method: str, arguments: tuple[Any, ...], count: int) -> None:
    """In place it returns the tool, otherwise a list; each image gives as many as there are cases."""
    random.seed(0)
    tool = ImageTool().set([picture()]).append(picture(20, 9))
    made = getattr(tool, method)(*arguments, inplace=False)
    assert (len(made), tool.num_augmentation()) == (2 * count, 2)
    assert getattr(tool, method)(*arguments) is tool
    assert len(tool.get()) == 2 * count
    if "crop" in method:
        assert {image.size for image in tool.get()} == {(4, 4)}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("crop5", ((40, 4),)),
        ("crop5", ((4, 4), 6)),
        ("crop3", ((4, 5),)),
        ("crop8", ((4, 4), 0)),
        ("random_crop", ((4, 40),)),
        ("resize_by_list", ([4], 2)),
        ("resize_by_range", ((4, 4),)),
        ("resize_by_hw_list", ([(0, 4)],)),
        ("rotate_by_list", ([],)),
        ("color_cast", (-1,)),
        ("enhance", (2,)),
    ],
)
def test_errors_change_nothing(method: str, arguments: tuple[Any, ...]) -> None:
    """One clear error; the images are what they were."""
    tool = ImageTool().set([picture()])
    held = tool.get()
    with pytest.raises((ArgumentError, ShapeError), match="Received"):
        getattr(tool, method)(*arguments)
    assert tool.get() is held


def test_positions_that_do_not_exist() -> None:
    """Named, with those that do."""
    with pytest.raises(ArgumentError, match="left_top"):
        image_tool.crop(picture(), (4, 4), "middle")
    with pytest.raises(ShapeError, match="square"):
        image_tool.crop_and_resize(picture(4, 10), (4, 4), "center")
    with pytest.raises(ArgumentError, match="sample"):
        image_tool.get_list_sample([1, 2], 3)
