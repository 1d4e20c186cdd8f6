"""Models that several folders of tests share: tiny random ones, and the real small one."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from engine.text.tokenizer import Tokenizer

# As `cutaway` itself does (workbench/cli.py): spinning threads and a busy machine do not go together.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and then the dog sleeps in the sun.",
    "What is the capital of France? The capital of France is Paris.",
    "大模型推理引擎把请求排成批次,逐步生成文字。你好,世界!",
    "Emoji: 😀 🎉 👩‍💻 🇫🇷 and accents: é è ü ñ — naïve café.",
]
SPECIAL = ["<|start|>", "<|end|>"]
CHATML = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
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


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """As GPT-2, Llama 3, Qwen and SmolLM2: tokens are bytes in a printable alphabet. 400 tokens."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    return Tokenizer(backend, eos_token_id=backend.token_to_id("<|end|>"))


@pytest.fixture(scope="session")
def chat_model(
    tiny_model: Callable[..., Path], byte_level: Tokenizer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a random two-layer model with a tokenizer and a chat template, named `tiny-chat`."""
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    weights = tiny_model("Llama", vocab_size=400, max_position_embeddings=16384, **special)
    folder = tmp_path_factory.mktemp("models") / "tiny-chat"
    shutil.copytree(weights, folder)
    byte_level.backend.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<|start|>", "eos_token": "<|end|>", "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
