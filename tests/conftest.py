"""Models that several folders of tests share: tiny random ones, and the real small one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VOCAB_SIZE = 211
"""Of the tiny models, unless a test wants another."""


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function (family, **config) -> folder of a random two-layer float32 model that transformers saved."""
    import torch
    import transformers

    made: dict[tuple[str, str], Path] = {}
    # Matrices this small lose more by waking a second thread than they gain.
    torch.set_num_threads(1)

    def make(family: str, **changes: Any) -> Path:
        key = (family, repr(sorted(changes.items())))
        if key not in made:
            settings: dict[str, Any] = {
                "vocab_size": VOCAB_SIZE,
                "hidden_size": 48,
                "intermediate_size": 80,
                "num_hidden_layers": 2,
                "num_attention_heads": 6,
                "num_key_value_heads": 2,
                "head_dim": 8,
                "max_position_embeddings": 512,
                "rms_norm_eps": 1e-5,
                "initializer_range": 0.15,  # wide enough that attention is far from uniform
                "bos_token_id": 1,
                "eos_token_id": 2,
                "pad_token_id": 2,
                **changes,
            }
            config = getattr(transformers, f"{family}Config")(**settings)
            torch.manual_seed(5)
            model = getattr(transformers, f"{family}ForCausalLM")(config)
            for name, weight in model.named_parameters():
                if (
                    "norm" in name or "bias" in name
                ):  # transformers starts these at 1 and 0: nothing to see
                    torch.nn.init.normal_(weight, mean=float("norm" in name), std=0.3)
            folder = tmp_path_factory.mktemp(family.lower())
            model.save_pretrained(folder)
            made[key] = folder
        return made[key]

    return make


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The folder of SmolLM2-135M-Instruct in the user's cache; the first use downloads and converts it."""
    from engine.model.hub import resolve_model

    return resolve_model("smollm2-135m")
