"""One matrix of the model, stored in the order in which the processor's matrix kernel reads it.

oneDNN multiplies blocked tiles; given a plain matrix it rearranges it again at every call. Packed once at
load, the linear layers of a decode step take about 0.6 of the time (SmolLM2-135M, two AVX512 cores).
On other devices, and where oneDNN does not know the dtype, this is `torch.nn.functional.linear`.
Source: oneDNN's "reorder"; torch reaches it through the ops that its own compiler uses for frozen weights
(`aten/src/ATen/native/mkldnn/Linear.cpp`), which are private, so their absence is no error.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


class Linear:
    """y = x W^T + b. Shapes: [..., in] -> [..., out]."""

    __slots__ = ("_bias", "_packed", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take a weight [out, in] and a bias [out]; the weight may be packed and then let go."""
        self._packed = _can_pack(weight)
        self._bias = bias
        self._weight: Tensor = (
            torch.ops.mkldnn._reorder_linear_weight(weight, None) if self._packed else weight
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Apply it."""
        if not self._packed:
            return F.linear(x, self._weight, self._bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._weight, self._bias, "none", [], ""
        )
        return product


def _can_pack(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    match weight.dtype:
        case torch.float32:
            return True
        case torch.bfloat16:
            return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        case _:
            return False
