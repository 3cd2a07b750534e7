"""Image augmentation with Pillow, as in SINGA: functions on one image, and `ImageTool` for chains of them.

Random choices come from Python's `random`.

>>> from PIL import Image
>>> tool = ImageTool().set([Image.new("RGB", (40, 30))])
>>> [image.size for image in tool.resize_by_list([20]).crop5((16, 16), 5).get()]
[(16, 16), (16, 16), (16, 16), (16, 16), (16, 16)]
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from singax.errors import ArgumentError, ShapeError

try:
    from PIL import Image, ImageEnhance
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("singax.image_tool needs Pillow: pip install pillow") from error

Size = tuple[int, int]

_CORNERS = ("left_top", "left_bottom", "right_top", "right_bottom", "center")
_ALONG_WIDTH = ("left", "center", "right")
_ALONG_HEIGHT = ("top", "middle", "bottom")
_TRIES = 10


def load_img(path: Any, grayscale: bool = False) -> Image.Image:
    """The image in a file, with three channels, or one if `grayscale`."""
    with Image.open(path) as image:
        return image.convert("L" if grayscale else "RGB")


def crop(img: Image.Image, patch: Size, position: str) -> Image.Image:
    """The patch (width, height) at "left_top", "left_bottom", "right_top", "right_bottom" or "center"."""
    _check_fits(img, patch)
    right, lower = img.size[0] - patch[0], img.size[1] - patch[1]
    places = {
        "left_top": (0, 0),
        "left_bottom": (0, lower),
        "right_top": (right, 0),
        "right_bottom": (right, lower),
        "center": (right // 2, lower // 2),
    }
    left, upper = places[_among("position", position, places)]
    return img.crop((left, upper, left + patch[0], upper + patch[1]))


def crop_and_resize(img: Image.Image, patch: Size, position: str) -> Image.Image:
    """The largest square at a place along the width ("left", "center", "right") or the height ("top", "middle",
    "bottom"), resized to the patch (width, height).

    *Differences from SINGA*: the crop takes place; SINGA resizes the whole image.
    """
    width, height = img.size
    across, down = width - height, height - width
    boxes = {
        "left": (0, 0, height, height),
        "center": (across // 2, 0, across // 2 + height, height),
        "right": (across, 0, width, height),
        "top": (0, 0, width, width),
        "middle": (0, down // 2, width, down // 2 + width),
        "bottom": (0, down, width, height),
    }
    box = boxes[_among("position", position, boxes)]
    if min(box) < 0 or box[2] > width or box[3] > height:
        raise ShapeError(f"a square at {position!r} does not fit into the image. Received: an image of size {img.size}")
    return img.crop(box).resize(patch, Image.Resampling.BILINEAR)


def resize(img: Image.Image, small_size: int) -> Image.Image:
    """The image resized so that its smaller side is `small_size`."""
    width, height = img.size
    if width < height:
        return resize_by_hw(img, (int(small_size * height / width), small_size))
    return resize_by_hw(img, (small_size, int(small_size * width / height)))


def scale(img: Image.Image, small_size: int) -> Image.Image:
    """The image resized so that its smaller side is `small_size`: another name of `resize`."""
    return resize(img, small_size)


def resize_by_hw(img: Image.Image, size: Size) -> Image.Image:
    """The image resized to (height, width)."""
    height, width = size
    if width < 1 or height < 1:
        raise ShapeError(f"an image has at least one pixel. Received: the size {size}")
    return img.resize((width, height), Image.Resampling.BILINEAR)


def color_cast(img: Image.Image, offset: int) -> Image.Image:
    """A random integer from [−offset, offset] added to each channel, with probability 1/2 each; clipped to 0 … 255."""
    casts = [random.randint(-offset, offset) if random.randint(0, 1) else 0 for _ in range(3)]
    shifted = np.asarray(img.convert("RGB"), np.int32) + np.asarray(casts)
    return Image.fromarray(np.clip(shifted, 0, 255).astype(np.uint8))


def enhance(img: Image.Image, scale: float) -> Image.Image:
    """Colour, contrast, brightness and sharpness changed by factors from [1 − scale, 1 + scale], each with
    probability 1/2."""
    for kind in (ImageEnhance.Color, ImageEnhance.Contrast, ImageEnhance.Brightness, ImageEnhance.Sharpness):
        if random.randint(0, 1):
            img = kind(img).enhance(random.uniform(1 - scale, 1 + scale))
    return img


def flip(img: Image.Image) -> Image.Image:
    """Left and right exchanged."""
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def flip_down(img: Image.Image) -> Image.Image:
    """Top and bottom exchanged."""
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def get_list_sample(l: Sequence[Any], sample_size: int) -> list[Any]:
    """`sample_size` different entries in their order."""
    if not 0 <= sample_size <= len(l):
        raise ArgumentError(f"a sample of {len(l)} entries has 0 to {len(l)}. Received: {sample_size!r}")
    return [l[i] for i in sorted(random.sample(range(len(l)), sample_size))]


class ImageTool:
    """Images, and augmentations of all of them.

    Every augmentation replaces the images and returns the tool for chaining; with `inplace=False` it returns the new
    images as a list. Where there are several cases (sizes, angles, places), `num_case` of them are drawn for each
    image; with all of them, every image gives one new image per case.

    *Differences from SINGA*: errors are `ArgumentError` or `ShapeError`; a failing augmentation changes nothing.
    """

    def __init__(self) -> None:
        self.imgs: list[Image.Image] = []

    def load(self, path: Any, grayscale: bool = False) -> ImageTool:
        """Hold the image of a file."""
        return self.set([load_img(path, grayscale)])

    def set(self, imgs: list[Image.Image]) -> ImageTool:
        """Hold these images."""
        self.imgs = imgs
        return self

    def append(self, img: Image.Image) -> ImageTool:
        """Hold one image more."""
        self.imgs.append(img)
        return self

    def get(self) -> list[Image.Image]:
        """The images."""
        return self.imgs

    def num_augmentation(self) -> int:
        """How many images there are."""
        return len(self.imgs)

    def scale_by_range(self, rng: Size, inplace: bool = True) -> Any:
        """The smaller side becomes one random size from [begin, end)."""
        return self.scale_by_list(range(*rng), 1, inplace)

    def scale_by_list(self, size_list: Sequence[int], num_case: int = 1, inplace: bool = True) -> Any:
        """The smaller side becomes `num_case` of these sizes."""
        return self._each_case(scale, size_list, num_case, inplace)

    def resize_by_range(self, rng: Size, inplace: bool = True) -> Any:
        """The smaller side becomes one random size from [begin, end)."""
        return self.resize_by_list(range(*rng), 1, inplace)

    def resize_by_list(self, size_list: Sequence[int], num_case: int = 1, inplace: bool = True) -> Any:
        """The smaller side becomes `num_case` of these sizes."""
        return self._each_case(resize, size_list, num_case, inplace)

    def resize_by_hw_range(self, rng: Sequence[Size], inplace: bool = True) -> Any:
        """A random height from [begin, end) = rng[0] and a random width from rng[1]."""
        heights, widths = range(*rng[0]), range(*rng[1])
        _check_cases(heights, 1)
        _check_cases(widths, 1)
        return self._each(lambda img: [resize_by_hw(img, (random.choice(heights), random.choice(widths)))], inplace)

    def resize_by_hw_list(self, size_list: Sequence[Size], num_case: int = 1, inplace: bool = True) -> Any:
        """`num_case` of these sizes (height, width)."""
        return self._each_case(resize_by_hw, size_list, num_case, inplace)

    def rotate_by_range(self, rng: Size, inplace: bool = True) -> Any:
        """Turned by a random whole number of degrees from [begin, end)."""
        return self.rotate_by_list(range(*rng), 1, inplace)

    def rotate_by_list(self, angle_list: Sequence[float], num_case: int = 1, inplace: bool = True) -> Any:
        """Turned by `num_case` of these angles (degrees, counter-clockwise)."""
        return self._each_case(lambda img, angle: img.rotate(angle), angle_list, num_case, inplace)

    def crop5(self, patch: Size, num_case: int = 1, inplace: bool = True) -> Any:
        """The patch (width, height) at `num_case` of the four corners and the centre."""
        return self._each_case(lambda img, place: crop(img, patch, place), _CORNERS, num_case, inplace)

    def crop3(self, patch: Size, num_case: int = 1, inplace: bool = True) -> Any:
        """The largest square at `num_case` of three places along the longer side, resized to the square patch."""
        if patch[0] != patch[1]:
            raise ArgumentError(f"crop3 takes a square patch. Received: {patch}")
        _check_cases(_ALONG_WIDTH, num_case)

        def squares(img: Image.Image) -> list[Image.Image]:
            places = _ALONG_WIDTH if img.size[0] > img.size[1] else _ALONG_HEIGHT
            return [crop_and_resize(img, patch, place) for place in _drawn(places, num_case)]

        return self._each(squares, inplace)

    def crop8(self, patch: Size, num_case: int = 1, inplace: bool = True) -> Any:
        """`num_case` of the eight crops of `crop5` and `crop3`."""
        _check_cases(range(8), num_case)
        corners = sum(case < len(_CORNERS) for case in get_list_sample(range(8), num_case))
        made = self.crop5(patch, corners, False) if corners else []
        made += self.crop3(patch, num_case - corners, False) if num_case > corners else []
        return self._result(made, inplace)

    def random_crop(self, patch: Size, inplace: bool = True) -> Any:
        """A patch (width, height) at a random place."""
        return self._each(lambda img: [_random_crop(img, patch)], inplace)

    def random_crop_resize(self, patch: Size, inplace: bool = True) -> Any:
        """A random part of 0.08 to 1 of the area and aspect ratio 3/4 to 4/3, resized to the patch (width, height).

        After ten parts that do not fit the largest centred square is taken.
        """
        return self._each(lambda img: [_random_part(img).resize(patch, Image.Resampling.BILINEAR)], inplace)

    def flip(self, num_case: int = 1, inplace: bool = True) -> Any:
        """Left and right exchanged with probability 1/2; with `num_case` 2 both images."""
        return self._each_case(lambda img, do: flip(img) if do else img, (False, True), num_case, inplace)

    def flip_down(self, num_case: int = 1, inplace: bool = True) -> Any:
        """Top and bottom exchanged with probability 1/2; with `num_case` 2 both images."""
        return self._each_case(lambda img, do: flip_down(img) if do else img, (False, True), num_case, inplace)

    def color_cast(self, offset: int = 20, inplace: bool = True) -> Any:
        """See the function `color_cast`."""
        if offset < 0 or offset > 255:
            raise ArgumentError(f"the offset of a colour cast lies between 0 and 255. Received: {offset!r}")
        return self._each(lambda img: [color_cast(img, offset)], inplace)

    def enhance(self, scale: float = 0.2, inplace: bool = True) -> Any:
        """See the function `enhance`."""
        if not 0 <= scale < 1:
            raise ArgumentError(f"the scale of an enhancement lies between 0 and 1. Received: {scale!r}")
        return self._each(lambda img: [enhance(img, scale)], inplace)

    def _each_case(self, change: Callable[..., Any], cases: Sequence[Any], num_case: int, inplace: bool) -> Any:
        _check_cases(cases, num_case)
        return self._each(lambda img: [change(img, case) for case in _drawn(cases, num_case)], inplace)

    def _each(self, change: Callable[[Image.Image], Iterable[Image.Image]], inplace: bool) -> Any:
        return self._result([new for img in self.imgs for new in change(img)], inplace)

    def _result(self, imgs: list[Image.Image], inplace: bool) -> Any:
        return self.set(imgs) if inplace else imgs


def _random_crop(img: Image.Image, patch: Size) -> Image.Image:
    _check_fits(img, patch)
    left, upper = (random.randint(0, img.size[axis] - patch[axis]) for axis in (0, 1))
    return img.crop((left, upper, left + patch[0], upper + patch[1]))


def _random_part(img: Image.Image) -> Image.Image:
    for _ in range(_TRIES):
        area, ratio = random.uniform(0.08, 1.0) * img.size[0] * img.size[1], random.uniform(3 / 4, 4 / 3)
        size = max(round(math.sqrt(area * ratio)), 1), max(round(math.sqrt(area / ratio)), 1)
        if size[0] <= img.size[0] and size[1] <= img.size[1]:
            return _random_crop(img, size)
    side = min(img.size)
    return crop(img, (side, side), "center")


def _drawn(cases: Sequence[Any], num_case: int) -> Sequence[Any]:
    return cases if num_case == len(cases) else get_list_sample(cases, num_case)


def _check_cases(cases: Sequence[Any], num_case: int) -> None:
    if not 1 <= num_case <= len(cases):
        raise ArgumentError(f"num_case lies between 1 and the number of cases, {len(cases)}. Received: {num_case!r}")


def _check_fits(img: Image.Image, patch: Size) -> None:
    if img.size[0] < patch[0] or img.size[1] < patch[1]:
        raise ShapeError(f"expected an image of at least {patch} (width, height). Received: one of {img.size}")


def _among(what: str, value: str, choices: Iterable[str]) -> str:
    if value not in choices:
        raise ArgumentError(f"{what} must be one of {', '.join(choices)}. Received: {value!r}")
    return value
