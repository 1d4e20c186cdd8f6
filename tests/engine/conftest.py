"""The other family of tokenizers; the usual one and a model that can chat are in `tests/conftest.py`."""

import json

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, trainers

from engine.text.tokenizer import Tokenizer
from tests.conftest import CORPUS, SPECIAL


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
