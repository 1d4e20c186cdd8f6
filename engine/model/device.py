"""Where the model computes, in which precision, and what memory that place has free.

bfloat16 halves every byte that is read, and reading weights is what a decode step spends its time on; but
only where the processor multiplies it natively. Elsewhere it is emulated, slower than float32.
Invariant: the choice depends on the machine alone, so two processes on one machine agree without talking.
Source: x86 feature names as the Linux kernel lists them in /proc/cpuinfo.
"""

from pathlib import Path
from typing import Literal

import torch

from engine.memory import host_available_bytes

NATIVE_BFLOAT16 = {"amx_bf16", "avx512_bf16"}


def choose_device() -> torch.device:
    """The GPU if torch sees one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def choose_dtype(
    wanted: Literal["auto", "float32", "bfloat16"], device: torch.device
) -> torch.dtype:
    """The dtype of weights, activations and KV."""
    match wanted:
        case "float32":
            return torch.float32
        case "bfloat16":
            return torch.bfloat16
        case "auto" if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
        case "auto":
            return torch.bfloat16 if NATIVE_BFLOAT16 & cpu_flags() else torch.float32


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Instruction sets of the processor; empty where the system does not list them."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.split()[2:]}


def available_bytes(device: torch.device) -> int:
    """Memory that can still be taken on the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free
    return host_available_bytes()
