import random

import pytest

from engine.text.detokenizer import MAX_WINDOW, Detokenizer
from engine.text.tokenizer import Tokenizer

ALPHABET = "abc 你好世界😀👩‍💻🇫🇷éñ.\n"


def stream(detokenizer: Detokenizer, token_ids: list[int]) -> list[str]:
    return [*(detokenizer.feed(token_id) for token_id in token_ids), detokenizer.flush()]


@pytest.fixture(params=["byte_level", "metaspace"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return request.getfixturevalue(request.param)


def test_pieces_join_to_the_text_and_never_hold_half_a_character(tokenizer: Tokenizer) -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(1, 60)))
        pieces = stream(Detokenizer(tokenizer), tokenizer.encode(text))
        assert "".join(pieces) == text
        assert not any("\ufffd" in piece for piece in pieces)


def test_a_character_of_several_tokens_appears_with_its_last_one(tokenizer: Tokenizer) -> None:
    token_ids = tokenizer.encode("鑫")
    assert len(token_ids) > 1
    detokenizer = Detokenizer(tokenizer)
    *before, last = [detokenizer.feed(token_id) for token_id in token_ids]
    assert "".join(before) == ""
    assert last == "鑫"


@pytest.mark.parametrize("skip_special_tokens", [True, False])
def test_random_token_ids_give_what_decoding_them_at_once_gives(
    byte_level: Tokenizer, skip_special_tokens: bool
) -> None:
    rng = random.Random(2)
    for _ in range(500):
        token_ids = [rng.randrange(byte_level.vocab_size) for _ in range(rng.randrange(1, 200))]
        detokenizer = Detokenizer(byte_level, skip_special_tokens=skip_special_tokens)
        whole = byte_level.decode(token_ids, skip_special_tokens=skip_special_tokens)
        assert "".join(stream(detokenizer, token_ids)) == whole


def test_output_continues_the_prompt_with_the_right_space(metaspace: Tokenizer) -> None:
    prompt, whole = metaspace.encode("The quick"), metaspace.encode("The quick fox sleeps")
    assert whole[: len(prompt)] == prompt
    assert "".join(stream(Detokenizer(metaspace, prompt), whole[len(prompt) :])) == " fox sleeps"
    alone = stream(Detokenizer(metaspace), whole[len(prompt) :])
    assert "".join(alone) == "fox sleeps", "without a prompt it is the start of a text"


def test_output_after_any_prompt_is_the_rest_of_the_whole(tokenizer: Tokenizer) -> None:
    rng = random.Random(3)
    for _ in range(200):
        first, second = ("".join(rng.choice(ALPHABET) for _ in range(20)) for _ in range(2))
        prompt, output = tokenizer.encode(first), tokenizer.encode(second)
        whole = tokenizer.decode(prompt + output)
        assert whole.startswith(first)
        pieces = stream(Detokenizer(tokenizer, prompt), output)
        assert "".join(pieces) == whole[len(first) :]


def test_an_unfinished_character_is_shown_as_broken_at_the_end(byte_level: Tokenizer) -> None:
    rare = byte_level.encode("é", add_special_tokens=False) + byte_level.encode("鑫")[:-1]
    detokenizer = Detokenizer(byte_level)
    assert "".join(detokenizer.feed(t) for t in rare) == "é"
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_endless_broken_bytes_are_shown_and_the_window_stays_short(tokenizer: Tokenizer) -> None:
    lead = next(t for t in range(tokenizer.vocab_size) if tokenizer.token_bytes(t) == b"\xe4")
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.feed(lead) for _ in range(1000)]
    assert 900 < len("".join(pieces)) <= 1000
    assert set("".join(pieces)) == {"\ufffd"}
    assert len(detokenizer._window) <= MAX_WINDOW
    after = "".join([*(detokenizer.feed(t) for t in tokenizer.encode(" ok")), detokenizer.flush()])
    assert after.endswith("ok")


def test_special_tokens_are_skipped_or_shown(byte_level: Tokenizer) -> None:
    end = byte_level.eos_token_id
    assert end is not None
    token_ids = [*byte_level.encode("The"), *[end] * 20, *byte_level.encode(" dog")]
    assert "".join(stream(Detokenizer(byte_level), token_ids)) == "The dog"
    shown = stream(Detokenizer(byte_level, skip_special_tokens=False), token_ids)
    assert "".join(shown) == "The" + "<|end|>" * 20 + " dog"
