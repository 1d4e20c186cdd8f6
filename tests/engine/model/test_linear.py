import pytest
import torch
import torch.nn.functional as F

from engine.model.linear import Linear


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_rows", [0, 1, 5, 70])
@pytest.mark.parametrize("biased", [True, False])
def test_a_packed_matrix_multiplies_as_a_plain_one(dtype, num_rows, biased):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(37, 50, generator=generator).to(dtype)
    bias = torch.randn(37, generator=generator).to(dtype) if biased else None
    # Rows of a wider tensor, as the halves of a fused projection are.
    x = torch.randn(num_rows, 2, 50, generator=generator).to(dtype)[:, 1]
    tolerance = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(
        Linear(weight.clone(), bias)(x), F.linear(x, weight, bias), rtol=tolerance, atol=tolerance
    )
