import pytest

from engine.kv.hashing import BlockHasher


@pytest.mark.parametrize("algo", ["sha256", "sha256_cbor"])
def test_growing_a_chain_gives_what_making_it_at_once_gives(algo):
    hasher, tokens = BlockHasher(4, algo), list(range(37))
    grown: list[bytes] = []
    for n in range(len(tokens) + 1):
        hasher.extend(grown, tokens[:n], "salt")
    whole: list[bytes] = []
    hasher.extend(whole, tokens, "salt")
    assert grown == whole
    assert len(whole) == 9


def test_a_salt_or_an_earlier_token_changes_every_later_hash():
    hasher = BlockHasher(2)
    chains = []
    for tokens, salt in (([1, 2, 3, 4], None), ([1, 2, 3, 4], "a"), ([9, 2, 3, 4], None)):
        hashes: list[bytes] = []
        hasher.extend(hashes, tokens, salt)
        chains.append(hashes)
    for i in range(2):
        assert len({chain[i] for chain in chains}) == 3
