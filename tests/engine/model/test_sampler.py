"""The sampler against a slow reference that looks at one row at a time, and against transformers."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.errors import ConfigError
from engine.model.sampler import (
    LIKELY_TOKENS,
    forbid_early_stop,
    penalise,
    pick,
    sample,
    stream_seed,
    uniform,
)
from engine.request import SamplingParams
from tests.engine.batches import BatchMaker

VOCAB = 60


@pytest.fixture
def row_of():
    """A function (params, prompt, output, **request) -> row that samples the next output token."""
    maker = BatchMaker(4, num_blocks=5000)

    def make(params, prompt=(3, 4, 5), output=(), **request):
        seq = maker.sequence(list(prompt), params, **request)
        seq.token_ids += output
        seq.num_computed_tokens = seq.num_tokens - 1
        return maker.row(seq, 1)

    return make


def probabilities(logits, params):
    """What sampling should draw from: plain Python, sorted lists, float64."""
    scores = [score / params.temperature for score in logits.double().tolist()]
    best = max(scores)
    if params.min_p > 0:
        scores = [s if s >= best + math.log(params.min_p) else -math.inf for s in scores]
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    if params.top_k:
        order = order[: params.top_k]
    weights = {i: math.exp(scores[i] - best) for i in order}
    total = sum(weights.values())
    kept, before = {}, 0.0
    for i in order:
        if before >= params.top_p:
            break
        kept[i] = weights[i] / total
        before += kept[i]
    total = sum(kept.values())
    return [kept.get(i, 0.0) / total for i in range(len(scores))]


def inverse_cdf(distribution, number):
    running = 0.0
    for token, probability in enumerate(distribution):
        running += probability
        if running > number:
            return token
    raise AssertionError("the distribution does not sum to 1")


SETTINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.3),
    SamplingParams(temperature=3.0),
    SamplingParams(top_k=1),
    SamplingParams(top_k=7, temperature=1.7),
    SamplingParams(top_p=0.5),
    SamplingParams(top_p=0.95, temperature=2.0),
    SamplingParams(top_p=0.001),
    SamplingParams(min_p=0.1),
    SamplingParams(min_p=1.0),
    SamplingParams(top_k=12, top_p=0.8, min_p=0.02, temperature=1.3),
]


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_each_draw_is_the_one_that_the_reference_makes(params, row_of):
    logits = torch.randn(40, VOCAB, generator=torch.Generator().manual_seed(1)) * 2
    rows = [row_of(replace(params, seed=i), output=range(i % 5)) for i in range(40)]
    tokens, logprobs = sample(logits, rows, engine_seed=0)
    wanted = [
        inverse_cdf(probabilities(logits[i], params), uniform(i, i % 5)) for i in range(len(rows))
    ]
    assert tokens == wanted
    assert logprobs == []


def test_rows_of_one_batch_keep_their_own_settings(row_of):
    logits = torch.randn(22, VOCAB, generator=torch.Generator().manual_seed(2)) * 2
    rows = [row_of(replace(SETTINGS[i % 11], seed=i)) for i in range(21)]
    rows.append(row_of(SamplingParams(temperature=0)))
    tokens, _ = sample(logits, rows, engine_seed=0)
    alone = [sample(logits[i : i + 1], [row], engine_seed=0)[0][0] for i, row in enumerate(rows)]
    assert tokens == alone
    backwards, _ = sample(logits.flip(0), rows[::-1], engine_seed=0)
    assert tokens == backwards[::-1]
    assert tokens[-1] == logits[-1].argmax()


def test_frequencies_follow_the_distribution(row_of):
    params = SamplingParams(temperature=1.5, top_p=0.9, seed=11)
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(3)) * 2
    num_draws = 4000
    row = row_of(params)
    rows = [replace(row, num_tokens=3 + i) for i in range(num_draws)]
    drawn = Counter(sample(logits.expand(num_draws, -1), rows, engine_seed=0)[0])
    expected = [p * num_draws for p in probabilities(logits, params)]
    assert all(expected[token] > 0 for token in drawn)
    chi_square = sum((drawn[i] - e) ** 2 / e for i, e in enumerate(expected) if e > 0)
    freedom = sum(e > 0 for e in expected) - 1
    # A correct sampler exceeds this once in 100,000 seeds, and this seed is fixed.
    assert chi_square < freedom + 4.3 * math.sqrt(2 * freedom) + 12


def test_a_large_flat_vocabulary_needs_the_full_sort_and_gets_it(row_of):
    size = 5 * LIKELY_TOKENS
    logits = torch.linspace(0, 1, size).repeat(3, 1)
    params = SamplingParams(top_p=0.9)
    logits[1] *= 30  # a peaked one between flat ones
    rows = [row_of(replace(params, seed=seed)) for seed in range(3)]
    tokens, _ = sample(logits, rows, engine_seed=0)
    distributions = [probabilities(row, params) for row in logits]
    num_kept = [sum(p > 0 for p in distribution) for distribution in distributions]
    assert num_kept[0] > 2 * LIKELY_TOKENS > LIKELY_TOKENS > num_kept[1]
    wanted = [inverse_cdf(d, uniform(seed, 0)) for seed, d in enumerate(distributions)]
    assert tokens == wanted


@pytest.mark.parametrize(
    ("params", "warper"),
    [
        (SamplingParams(top_k=9), TopKLogitsWarper(9)),
        (SamplingParams(top_p=0.7), TopPLogitsWarper(0.7)),
        (SamplingParams(min_p=0.05), MinPLogitsWarper(0.05)),
    ],
    ids=["top_k", "top_p", "min_p"],
)
def test_the_tokens_that_can_come_are_those_of_transformers(params, warper, row_of):
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(4)) * 2
    allowed = (warper(None, logits.clone()) > -math.inf).nonzero()[:, 1].tolist()
    rows = [row_of(replace(params, seed=seed)) for seed in range(3000)]
    tokens, _ = sample(logits.expand(3000, -1), rows, engine_seed=0)
    assert set(tokens) <= set(allowed)
    # All but tokens too rare to be sure of in 3000 draws.
    shares = probabilities(logits[0], params)
    assert {i for i in allowed if shares[i] > 0.005} <= set(tokens)


def test_the_repetition_penalty_is_that_of_transformers(row_of):
    logits = torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(5))
    prompts, outputs = ([7, 7, 9], [1, 2, 3]), ([9, 30], [])
    rows = [
        row_of(SamplingParams(repetition_penalty=1.4), prompt=prompt, output=output)
        for prompt, output in zip(prompts, outputs, strict=True)
    ]
    scores = logits.clone()
    penalise(scores, rows)
    for i, row in enumerate(rows):
        seen = torch.tensor([row.seq.token_ids])
        processor = RepetitionPenaltyLogitsProcessor(1.4)
        torch.testing.assert_close(scores[i : i + 1], processor(seen, logits[i : i + 1].clone()))


def test_presence_and_frequency_penalties_count_the_output_only(row_of):
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    rows = [row_of(params, prompt=[8, 8], output=[9, 9, 10]), row_of(SamplingParams())]
    scores = torch.zeros(2, VOCAB)
    penalise(scores, rows)
    wanted = torch.zeros(2, VOCAB)
    wanted[0, 9], wanted[0, 10] = -1.0, -0.75
    assert torch.equal(scores, wanted)


def test_penalties_change_what_is_sampled(row_of):
    logits = torch.zeros(1, VOCAB)
    logits[0, 9], logits[0, 4] = 5.0, 4.9
    row = row_of(SamplingParams(temperature=0, frequency_penalty=0.2), output=[9])
    assert sample(logits, [row], engine_seed=0)[0] == [4]
    assert logits[0, 9] == 5.0  # the caller's logits stay


def test_no_stop_token_before_min_tokens(row_of):
    params = SamplingParams(temperature=0, min_tokens=2, stop_token_ids=(6, VOCAB + 5))
    logits = torch.zeros(1, VOCAB)
    logits[0, 2], logits[0, 6], logits[0, 40] = 9.0, 8.0, 7.0
    samples = [
        sample(logits, [row_of(params, output=output, eos_token_id=2)], engine_seed=0)[0]
        for output in ([], [1], [1, 1])
    ]
    assert samples == [[40], [40], [2]]
    masked = logits.clone()
    forbid_early_stop(masked, [row_of(replace(params, ignore_eos=True), eos_token_id=2)])
    assert masked.isneginf().nonzero().tolist() == [[0, 6]]
    late = logits.clone()
    forbid_early_stop(late, [row_of(params, output=[1, 1], eos_token_id=2)])
    assert torch.equal(late, logits)


def test_neither_end_of_the_cdf_picks_what_cannot_come():
    impossible = -math.inf
    scores = torch.tensor([impossible, impossible, 0.0, 1.0, impossible]).repeat(3, 1)
    assert pick(scores, [0.0, 0.5, 1.0 - 2**-53]).tolist() == [2, 3, 3]


def test_logprobs_are_of_the_raw_distribution(row_of):
    logits = torch.randn(3, VOCAB, generator=torch.Generator().manual_seed(6))
    rows = [
        row_of(SamplingParams(temperature=0, logprobs=2)),
        row_of(SamplingParams(temperature=0)),
        row_of(
            SamplingParams(top_k=1, temperature=5.0, logprobs=0, presence_penalty=2.0), output=[1]
        ),
    ]
    logits[2, 1] = 6.0  # the penalty leaves 4.0, still the best
    tokens, logprobs = sample(logits, rows, engine_seed=0)
    reference = logits.double().log_softmax(-1)
    greedy, nothing, shaped = logprobs
    assert nothing is None
    assert greedy.token_id == tokens[0] == logits[0].argmax()
    assert greedy.rank == 1
    assert greedy.logprob == pytest.approx(reference[0, tokens[0]].item(), abs=1e-5)
    wanted = reference[0].topk(2)
    assert [token for token, _ in greedy.top] == wanted.indices.tolist()
    assert [value for _, value in greedy.top] == pytest.approx(wanted.values.tolist(), abs=1e-5)
    assert (shaped.token_id, shaped.top) == (1, ())
    assert shaped.logprob == pytest.approx(reference[2, 1].item(), abs=1e-5)


def test_the_rank_counts_the_likelier_tokens(row_of):
    logits = torch.arange(VOCAB).float().unsqueeze(0) / 20
    rows = [row_of(SamplingParams(seed=seed, logprobs=1)) for seed in range(50)]
    tokens, logprobs = sample(logits.expand(50, -1), rows, engine_seed=0)
    assert len(set(tokens)) > 10
    assert [entry.rank for entry in logprobs] == [VOCAB - token for token in tokens]


def test_a_tiny_temperature_is_greedy(row_of):
    logits = torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(7)) * 30
    row = row_of(SamplingParams(temperature=1e-40))
    assert sample(logits, [row], engine_seed=0)[0] == [logits.argmax().item()]


def test_streams_of_random_numbers():
    numbers = [uniform(seed, index) for seed in range(100) for index in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == len(numbers)
    mean = sum(numbers) / len(numbers)
    assert abs(mean - 0.5) < 4 / math.sqrt(12 * len(numbers))
    # Neighbours, along the output and across seeds, know nothing of each other.
    for step in (1, 100):
        pairs = zip(numbers, numbers[step:], strict=False)
        correlation = 12 * sum((a - mean) * (b - mean) for a, b in pairs) / len(numbers)
        assert abs(correlation) < 4 / math.sqrt(len(numbers))
    assert uniform(-1, 0) == uniform(2**64 - 1, 0)  # any integer is a seed


def test_requests_without_a_seed_differ_and_can_be_repeated(row_of):
    first = row_of(SamplingParams(), request_id=5).seq.request
    other = row_of(SamplingParams(), request_id=6).seq.request
    seeded = row_of(SamplingParams(seed=3), request_id=7).seq.request
    assert stream_seed(first, 0) == stream_seed(first, 0) != stream_seed(other, 0)
    assert stream_seed(first, 0) != stream_seed(first, 1)
    assert stream_seed(seeded, 0) == stream_seed(seeded, 1) == 3


def test_a_bias_moves_logits_of_single_tokens_of_its_row_alone(row_of) -> None:
    logits = torch.zeros(3, VOCAB)
    logits[:, 7] = 5.0
    greedy = SamplingParams(temperature=0)
    forced = SamplingParams(temperature=0, logit_bias={9: 100, 3: 1.5})
    forbidden = SamplingParams(temperature=0, logit_bias={7: -100.0}, logprobs=1)
    rows = [row_of(params) for params in (greedy, forced, forbidden)]
    token_ids, logprobs = sample(logits, rows, 0)
    assert token_ids[:2] == [7, 9]
    assert token_ids[2] != 7
    assert logprobs[2] is not None
    assert logprobs[2].top[0][0] == 7, "log-probabilities are the model's own"
    assert logits[1, 9] == 0, "the caller's logits are left alone"


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 2**31},
        {"temperature": math.inf},
        {"temperature": math.nan},
        {"presence_penalty": math.nan},
        {"frequency_penalty": 1e30},
        {"repetition_penalty": 1e-300},
        {"logit_bias": {1: math.inf}},
    ],
)
def test_values_that_would_break_the_arithmetic_of_a_whole_batch_are_refused(params) -> None:
    with pytest.raises(ConfigError):
        SamplingParams(**params)
