"""Every name of `singa.tensor`, `singa.device` and `singa.initializer`, with SINGA's arguments and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import singax as sx
from singax import device, initializer, tensor
from singax.device import Device
from singax.tensor import Tensor

METHODS = """
ndim() size() memsize() is_empty() is_dummy() is_transpose() transpose(axes=None) T() reshape(shape) contiguous()
reset_like(t) as_type(dtype) to_type(dtype) to_device(device) to_host() l1() l2() set_value(x,inplace=True)
gaussian(mean,std,inplace=True) uniform(low,high,inplace=True) bernoulli(p,inplace=True)
copy_from_numpy(np_array,offset=0) copy_data(t) copy_from(t,offset=0) clone() deepcopy() copy()
repeat(repeats,axis=None) add_column(v) add_row(v) div_column(v) div_row(v) mult_column(v) mult_row(v)
"""

FUNCTIONS = """
from_numpy(np_array,dev=None) to_numpy(t) to_host(t) from_raw_tensor(t) from_raw_tensors(tt) zeros_like(t) ones_like(t)
zeros(shape,device=None) ones(shape,device=None) random(shape,device=None) product(shape) sizeof(dtype)
contiguous(tensor) reshape(tensor,shape) transpose(t,axes=None)
copy_data_to_from(dst,src,size,dst_offset=0,src_offset=0) concatenate(tensors,axis) repeat(t,repeats,axis=None)
abs(t) exp(t) ceil(t) log(t) sigmoid(t) sign(t) sqrt(t) square(t) tanh(t) sum(t,axis=None,out=None)
average(t,axis=None) pow(t,x,out=None) softmax(t,out=None) lt(t,x) le(t,x) gt(t,x) ge(t,x) eq(t,x)
add(lhs,rhs,ret=None) sub(lhs,rhs,ret=None) eltwise_mult(lhs,rhs,ret=None) div(lhs,rhs,ret=None)
mult(A,B,C=None,alpha=1.0,beta=0.0) einsum(ops,*args) tensordot(A,B,axes=2) axpy(alpha,x,y) bernoulli(p,t)
gaussian(mean,std,t) uniform(low,high,t) add_column(alpha,v,beta,M) add_row(alpha,v,beta,M) sum_columns(M) sum_rows(M)
copy_from_numpy(data,np_array) _call_singa_func(_singa_func,*args)
"""

DEVICE_FUNCTIONS = """
get_default_device() create_cpu_device() create_cuda_gpu() create_cuda_gpu_on(device_id) create_cuda_gpus(num)
create_cuda_gpus_on(device_ids) get_num_gpus() get_gpu_ids() get_gpu_mem_size(id) device_query(id,verbose=False)
create_opencl_device() get_num_opencl_platforms() get_num_opencl_devices() enable_lazy_alloc(enable)
"""

DEVICE_METHODS = """
id() SetRandSeed(seed) host() Sync() Reset() EnableGraph(enable) graph_enabled() ResetGraph() RunGraph(serial=False)
SetVerbosity(verbosity) SetSkipIteration(skip_iteration) PrintTimeProfiling()
"""

INITIALIZERS = """
lecun_uniform(t) lecun_normal(t) glorot_uniform(t) glorot_normal(t) he_uniform(t) he_normal(t) eye(t)
orthogonal(t,gain=1.0) gaussian(t,fan_in=0,fan_out=0) xavier(t) glorot(t) msra(t)
_compute_fans(shape,data_format='channels_first') _random_fill(t,scale,mode,distribution)
"""

HOUSES = [
    (Tensor, METHODS), (tensor, FUNCTIONS), (device, DEVICE_FUNCTIONS), (Device, DEVICE_METHODS),
    (initializer, INITIALIZERS),
]  # fmt: skip
NAMES = [(house, entry) for house, table in HOUSES for entry in table.split()]


def shown(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{star}{parameter.name}{default}"


@pytest.mark.parametrize(("house", "entry"), NAMES, ids=[f"{h.__name__}.{e.split('(')[0]}" for h, e in NAMES])
def test_name_and_arguments(house: Any, entry: str) -> None:
    name, _, wanted = entry[:-1].partition("(")
    found = [p for p in inspect.signature(getattr(house, name)).parameters.values() if p.name != "self"]
    assert ",".join(map(shown, found)) == wanted
    assert getattr(house, name).__doc__ or name.startswith("_")


def test_constructor() -> None:
    found = inspect.signature(Tensor).parameters.values()
    assert ",".join(map(shown, found)) == (
        "shape=(),device=None,dtype=None,data=None,requires_grad=True,stores_grad=False,creator=None,name=None"
    )
    assert Tensor().dtype == sx.float32


def test_names_that_are_no_functions() -> None:
    assert (tensor.float32, tensor.float16, tensor.int32) == (sx.float32, sx.float16, sx.int32)
    assert [sx.dtypes.canonical(n) for n in (0, 1, 2)] == [tensor.float32, tensor.float16, tensor.int32]
    assert tensor.PlaceHolder is tensor.Placeholder
    assert issubclass(tensor.PlaceHolder, Tensor)
    assert isinstance(Tensor.tensor_count, int)
    assert device.default_device is device.get_default_device()
    for name in ("data", "shape", "device", "dtype", "requires_grad", "stores_grad", "name", "creator"):
        assert hasattr(Tensor, name)
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "radd",
        "rsub",
        "rmul",
        "rtruediv",
        "iadd",
        "isub",
        "imul",
        "itruediv",
    ):
        assert hasattr(Tensor, f"__{name}__")


def test_what_a_rbm_script_does() -> None:
    """The calls of SINGA's examples/rbm/train.py: contrastive divergence without autograd."""
    from singax import opt

    visible, hidden, batch = 6, 3, 4
    weight, hbias, vbias = Tensor((visible, hidden)), Tensor((hidden,)), Tensor((visible,))
    weight.gaussian(0.0, 0.1)
    hbias.set_value(0.0)
    vbias.set_value(0.0)
    sgd = opt.SGD(lr=0.1, momentum=0.9, weight_decay=2e-4)
    data = tensor.random((batch, visible))
    errors = []
    for _ in range(5):
        posprob = tensor.sigmoid(tensor.mult(data, weight) + hbias)
        sample = tensor.gt(posprob, tensor.random((batch, hidden)))
        neg = tensor.sigmoid(tensor.mult(sample, weight.T()) + vbias)
        negprob = tensor.sigmoid(tensor.mult(neg, weight) + hbias)
        error = tensor.sum(tensor.square(data - neg))
        errors.append("%f" % error)  # noqa: UP031
        gradient = tensor.mult(neg.T(), negprob) - tensor.mult(data.T(), posprob)
        sgd.apply("w", weight, gradient)
        sgd.apply("hb", hbias, tensor.sum(negprob, 0) - tensor.sum(posprob, 0))
        sgd.apply("vb", vbias, tensor.sum(neg, 0) - tensor.sum(data, 0))
        sgd.step()
    assert error.shape == (1, 1)
    assert float(errors[-1]) > 0


def test_averages_over_clients_as_in_federated_examples() -> None:
    """`sum(list_of_tensors) / n` and rebuilding Tensors from NumPy arrays."""
    clients = [tensor.from_numpy(tensor.to_numpy(tensor.ones((2,)) * k)) for k in (1, 2, 6)]
    assert (sum(clients) / len(clients)).to_numpy().tolist() == [3, 3]
