"""What a model's makers recommend for sampling: `generation_config.json`, read as vLLM reads it.

A request that says nothing about temperature gets the recommended one, not OpenAI's 1.0, unless the operator
asks for plain defaults (`--generation-config vllm`). So the same request can have two meanings on two
servers; therefore what was found is shown when a server starts.

Source: vLLM 0.33 `vllm/config/model.py` (get_diff_sampling_param); `max_new_tokens` is a limit in both.
"""

import json
from pathlib import Path

from engine.errors import ModelError

NAMES = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "max_new_tokens": "max_tokens",
}
"""Name in the file -> field of `SamplingParams`."""


def sampling_defaults(folder: Path) -> dict[str, float]:
    """The model's own defaults by name of `SamplingParams`; empty if it has none. Raises ModelError."""
    path = folder / "generation_config.json"
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    found = {
        field: value
        for name, field in NAMES.items()
        if isinstance(content, dict) and (value := content.get(name)) is not None
    }
    for field, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(
                f"{path}: {field} is not a number; correct it, or use --generation-config vllm"
            )
    return found
