import pytest
import torch

from engine.model import device
from engine.model.device import available_bytes, choose_dtype, cpu_flags

CPU = torch.device("cpu")
CPUINFO = (
    "processor\t: 0\nmodel name\t: some\nflags\t\t: fpu avx512f {flag} sse\n\nprocessor\t: 1\n"
)


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("amx_bf16", torch.bfloat16), ("avx512_bf16", torch.bfloat16), ("avx2", torch.float32)],
)
def test_auto_is_bfloat16_where_the_cpu_multiplies_it(flag, expected, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(flag=flag))
    flags = cpu_flags(tmp_path / "cpuinfo")
    assert flags == {"fpu", "avx512f", flag, "sse"}
    monkeypatch.setattr(device, "cpu_flags", lambda: flags)  # the edge of the machine
    assert choose_dtype("auto", CPU) == expected


def test_a_named_dtype_is_taken_as_it_is():
    assert choose_dtype("float32", CPU) == torch.float32
    assert choose_dtype("bfloat16", CPU) == torch.bfloat16


def test_a_system_without_cpuinfo_has_no_known_flags(tmp_path):
    assert cpu_flags(tmp_path / "none") == set()


def test_some_memory_is_available():
    assert available_bytes(CPU) > 2**20
