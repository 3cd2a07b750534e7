"""How large a model file, and each of its parts, may be."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_MOST_MEMORY = 64 * GIB


@functools.cache
def _memory() -> int:
    """The memory that this process may use, where the system tells: what the machine has, less if a limit is set."""
    return max(min(_MOST_MEMORY, *(found() for found in (_machine, _address_space, _container))), MIB)


def _machine() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _MOST_MEMORY


def _address_space() -> int:
    try:
        import resource
    except ImportError:
        return _MOST_MEMORY
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _MOST_MEMORY if most == resource.RLIM_INFINITY else most


def _container() -> int:
    """The limit of the control group, where it is the root of what the process sees."""
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _MOST_MEMORY


@dataclass(frozen=True)
class Limits:
    """What `load` accepts; the defaults are far above what real models need.

    A message about a limit names the field here that has to be raised.

    >>> Limits(nodes=100).nodes
    100
    """

    file_bytes: int = 2 * GIB
    """Size of the model file itself (protobuf cannot hold more; larger models keep their tensors in other files)."""
    tensor_bytes: int = field(default_factory=_memory)
    """All tensors of the model together, in memory; by default what the machine has, at most 64 GiB."""
    tensor_elements: int = 1 << 34
    """Elements of one tensor."""
    sparse_bytes: int = 256 * MIB
    """All sparse tensors together in their dense form, which a small file can make as large as it likes."""
    string_bytes: int = 256 * MIB
    """All strings in tensors and attributes together."""
    checksum_bytes: int = 8 * GIB
    """Size of an external file whose checksum is compared."""
    run_bytes: int = field(default_factory=_memory)
    """One value of a running model, and all that one of its programs holds at a time, or that is known while it is
    compiled; by default what the machine has, at most 64 GiB."""
    rank: int = 32
    """Dimensions of one tensor."""
    fields: int = 3_000_000
    """Protobuf fields of the whole file, elements of lists aside."""
    list_elements: int = 1 << 24
    """Numbers in lists of attributes, of the whole file."""
    message_depth: int = 100
    """Nesting of protobuf messages, as protobuf itself limits it."""
    nodes: int = 500_000
    """Nodes of the whole file."""
    nesting: int = 48
    """Graphs inside graphs and calls inside functions, one below the other."""
    functions: int = 10_000
    """Local functions."""
    expanded_nodes: int = 2_000_000
    """Nodes when all calls of local functions are replaced by their bodies."""
    attributes: int = 256
    """Attributes of one node."""
    name_bytes: int = 16 * KIB
    """Length of one name."""
    metadata_entries: int = 10_000
    """Entries of the model's metadata."""
