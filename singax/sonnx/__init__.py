"""ONNX models as singax models. Loaded when it is first used, since it needs the onnx package."""

from singax.sonnx import operators
from singax.sonnx.backend import SingaBackend, run_model, run_node, supports_device
from singax.sonnx.exporter.export import to_onnx
from singax.sonnx.loader import Limits, load
from singax.sonnx.model import SONNXModel
from singax.sonnx.nodes import (
    NP_TYPE_TO_SINGA_SUPPORT_TYPE,
    OnnxAttributes,
    OnnxNode,
    cpu_dev,
    get_op,
    gpu_dev,
    onnx_type_to_singa_type,
    save,
)
from singax.sonnx.rep import SingaRep, prepare
