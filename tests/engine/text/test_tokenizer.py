import json
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

from engine.errors import ConfigError, ModelError
from engine.text.chat_template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from tests.conftest import CHATML

STRICT = (
    "{{ bos_token }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m.content | length == 0 %}{% continue %}{% endif %}"
    "{% generation %}[{{ m.role }}] {{ {'text': m.content} | tojson }}{% endgeneration %}\n{% endfor %}"
)


def save(folder: Path, tokenizer: Tokenizer, template: object = None, **config: object) -> Path:
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|end|>", "bos_token": {"content": "<|start|>"}, **config}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_folder_gives_ids_ends_and_template(tmp_path: Path, byte_level: Tokenizer) -> None:
    save(tmp_path, byte_level, CHATML)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 7, 9]}')
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocab_size == 400
    assert (tokenizer.eos_token_id, tokenizer.stop_token_ids) == (1, (7, 9))
    assert tokenizer.decode(tokenizer.encode("Hello 世界")) == "Hello 世界"
    messages = [{"role": "user", "content": "What is the sun?"}]
    token_ids = tokenizer.encode_chat(messages)
    text = "<|start|>user\nWhat is the sun?<|end|>\n<|start|>assistant\n"
    assert tokenizer.decode(token_ids, skip_special_tokens=False) == text
    assert token_ids[0] == 0, "the template's special tokens are single tokens"


@pytest.mark.parametrize("template", [CHATML, STRICT])
def test_templates_render_as_in_transformers(
    tmp_path: Path, byte_level: Tokenizer, template: str
) -> None:
    # Their tokenizer wants its special tokens as plain texts.
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>"}
    save(tmp_path, byte_level, template, **names)
    messages = [
        {"role": "user", "content": '<b>你好</b> "quoted"'},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "and now?"},
    ]
    theirs = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert Tokenizer.load(tmp_path).encode_chat(messages) == theirs


def test_text_parts_are_joined_and_other_parts_named() -> None:
    template = ChatTemplate("{{ messages[0].content }}", {})
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert template.render([{"role": "user", "content": parts}]) == "ab"
    image = [{"type": "image_url", "image_url": {"url": "http://localhost/x.png"}}]
    with pytest.raises(ConfigError, match=r"messages\[1\].content\[0\] is not a text part"):
        template.render([{"role": "user", "content": "x"}, {"role": "user", "content": image}])
    with pytest.raises(ConfigError, match=r"messages\[0\] has no role"):
        template.render([{"content": "x"}])
    with pytest.raises(ConfigError, match=r"messages\[0\].content must be"):
        template.render([{"role": "user", "content": None}])
    with pytest.raises(ConfigError, match="messages is empty"):
        template.render([])


def test_a_template_can_refuse_and_cannot_reach_out() -> None:
    strict = ChatTemplate(STRICT, {"bos_token": ""})
    with pytest.raises(ConfigError, match="roles must alternate"):
        strict.render([{"role": "assistant", "content": "x"}])
    with pytest.raises(ConfigError, match="refuses"):
        ChatTemplate("{{ messages.__class__.__mro__ }}", {}).render([{"role": "u", "content": "x"}])
    with pytest.raises(ConfigError, match="failed on these messages"):
        ChatTemplate("{{ 1 + messages[0].content }}", {}).render([{"role": "u", "content": "x"}])
    with pytest.raises(ModelError, match="cannot be compiled"):
        ChatTemplate("{% if %}", {})


def test_of_several_templates_the_default_is_taken(tmp_path: Path, byte_level: Tokenizer) -> None:
    templates = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "dog"}]
    tokenizer = Tokenizer.load(save(tmp_path, byte_level, templates))
    assert tokenizer.decode(tokenizer.encode_chat([{"role": "user", "content": "x"}])) == "dog"


def test_missing_and_broken_files_say_what_to_do(tmp_path: Path, byte_level: Tokenizer) -> None:
    with pytest.raises(ModelError, match="save_pretrained"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be read"):
        Tokenizer.load(tmp_path)
    tokenizer = Tokenizer.load(save(tmp_path, byte_level))
    with pytest.raises(ModelError, match="no chat template"):
        tokenizer.encode_chat([{"role": "user", "content": "x"}])
    with pytest.raises(ConfigError, match="token id 400 is not in the vocabulary of 400"):
        tokenizer.check_ids([3, 400])


def test_the_start_token_is_added_to_text_but_not_to_a_chat(
    tmp_path: Path, byte_level: Tokenizer
) -> None:
    save(tmp_path, byte_level, CHATML)
    tokenizer = Tokenizer.load(tmp_path)
    tokenizer.backend.post_processor = TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", 0)]
    )
    assert tokenizer.encode("dog")[0] == 0
    assert tokenizer.encode_chat([{"role": "user", "content": "dog"}])[:2].count(0) == 1


def test_padding_and_truncation_of_the_file_are_off(tmp_path: Path, byte_level: Tokenizer) -> None:
    save(tmp_path, byte_level)
    saved = json.loads((tmp_path / "tokenizer.json").read_text())
    saved["truncation"] = {
        "max_length": 4,
        "stride": 0,
        "strategy": "LongestFirst",
        "direction": "Right",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(saved))
    assert len(Tokenizer.load(tmp_path).encode("a b c d e f g h")) > 4


@pytest.mark.parametrize("family", ["byte_level", "metaspace"])
def test_bytes_of_tokens_join_to_the_text(family: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(family)
    text = "The fox 你好 😀 café"
    joined = b"".join(tokenizer.token_bytes(t) for t in tokenizer.encode(text))
    assert joined.decode().removeprefix(" ") == text
    end = tokenizer.eos_token_id
    assert end is not None
    assert tokenizer.token_bytes(end) == b"<|end|>"
    assert tokenizer.token_bytes(10**6) == b""
