"""What the header of a checkpoint says beside the arrays: format, versions, save id, checksums, the user's state."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from singax.checkpoint.homes import KINDS
from singax.errors import FileFormatError
from singax.files import SafetensorsFile, strict_json

FORMAT = 1
USER = "user"

_FORMAT, _SAVE_ID, _VERSIONS = "singax.format", "singax.save_id", "singax.versions"
_ARRAYS, _STATE = "singax.arrays", "singax.state"
_DEEPEST_STATE = 200


@dataclass(frozen=True)
class About:
    """Of one array: its kind (of a state, or "user"), its disguise (see `wire`), its SHA-256."""

    kind: str
    note: str
    checksum: str


@dataclass(frozen=True)
class Document:
    """The header of a checkpoint."""

    save_id: str
    versions: dict[str, str]
    arrays: dict[str, About]
    state: Any

    def texts(self) -> dict[str, str]:
        """As the metadata of a safetensors file."""
        rows = {name: [about.kind, about.note, about.checksum] for name, about in self.arrays.items()}
        return {
            _FORMAT: str(FORMAT),
            _SAVE_ID: self.save_id,
            _VERSIONS: _json(self.versions),
            _ARRAYS: _json(rows),
            _STATE: _json(self.state),
        }


def present_versions() -> dict[str, str]:
    """What is running."""
    import singax

    return {
        "singax": singax.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def read_document(file: SafetensorsFile) -> Document:
    """The document of an open file.

    Raises `FileFormatError` for a file that is no checkpoint, of a newer format, or whose parts do not fit together.
    """
    texts = file.metadata
    if _FORMAT not in texts:
        raise FileFormatError(
            "it is no checkpoint of singax, but holds plain arrays or is damaged: use from_safetensors for plain arrays"
        )
    _check_format(texts)
    if not file.sealed:
        raise FileFormatError("its header is damaged: it has no SHA-256")
    arrays = _abouts(_parsed(texts, _ARRAYS, dict))
    if set(arrays) != set(file.fields):
        strange = sorted(set(arrays) ^ set(file.fields))
        raise FileFormatError(f"its list of arrays does not fit its arrays: {', '.join(strange)[:500]}")
    return Document(_text(texts, _SAVE_ID), _parsed(texts, _VERSIONS, dict), arrays, _parsed(texts, _STATE, object))


def _check_format(texts: Mapping[str, str]) -> None:
    found = texts[_FORMAT]
    if found != str(FORMAT):
        raise FileFormatError(
            f"it is of format {found[:20]!r}, written by {texts.get(_VERSIONS, 'an unknown version')[:200]}; "
            f"this version of singax reads format {FORMAT}"
        )


def _abouts(rows: dict[str, Any]) -> dict[str, About]:
    found: dict[str, About] = {}
    for name, row in rows.items():
        if not (isinstance(row, list) and len(row) == 3 and all(isinstance(part, str) for part in row)):
            raise FileFormatError(f"what it says about {name[:200]!r} is not kind, note and SHA-256")
        if row[0] not in (*KINDS, USER):
            raise FileFormatError(f"{name[:200]!r} is of a kind that is not known: {row[0][:100]!r}")
        found[name] = About(*row)
    return found


def _text(texts: Mapping[str, str], key: str) -> str:
    if key not in texts:
        raise FileFormatError(f"its header lacks {key}")
    return texts[key]


def _parsed(texts: Mapping[str, str], key: str, kind: type) -> Any:
    found = strict_json(_text(texts, key).encode("utf-8", "surrogatepass"), deepest=_DEEPEST_STATE)
    if not isinstance(found, kind):
        raise FileFormatError(f"{key} in its header is no {kind.__name__}")
    return found


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
