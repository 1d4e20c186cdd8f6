"""Two small tokenizers of the two families that models use, and a random model that can chat."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from engine.text.tokenizer import Tokenizer

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
def metaspace() -> Tokenizer:
    """As Llama 2 and Mistral: spaces are U+2581, unknown characters fall back to bytes."""
    backend = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<unk>", *SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False)
    backend.train_from_iterator(CORPUS[:2], trainer)
    # Byte tokens are ordinary ones: only three of the list are special.
    fields = json.loads(backend.to_str())
    fields["added_tokens"] = fields["added_tokens"][:3]
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(fields)), eos_token_id=2)


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
