"""From logits to one token per row, all rows at once.

    logits -> bias -> penalties -> no early stop -> temperature -> min-p -> top-k -> top-p -> number -> token

The number depends on (seed, place in the output) alone, so a request's tokens do not change with the company
it is computed in, nor with preemption. It picks by inverse CDF in vocabulary order:

    tokens     |--a--|-b-|------c------|d|        u = 0.61  ->  c
               0                   ^             1

Invariant: what a row is given never depends on another row. A temperature of 0 is the most likely token.
Log-probabilities are those of the model itself, before anything above was applied.
Source: order of vLLM 0.33 `v1/sample/sampler.py`; penalties of CTRL (Keskar et al. 2019) and the OpenAI API;
top-p: Holtzman et al. 2019; min-p: Nguyen et al. 2024; the hash: SplitMix64 (Steele et al. 2014).
"""

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.batch import Row, TokenLogprobs
from engine.request import Request, SamplingParams

GREEDY_BELOW = 1e-5
"""Temperatures below this would overflow and mean 0."""
LIKELY_TOKENS = 1024
"""Top-p is first looked for among so many tokens: finding them costs a hundredth of sorting a vocabulary."""
MASK64 = 2**64 - 1
GOLDEN64 = 0x9E3779B97F4A7C15


def sample(
    logits: Tensor, rows: Sequence[Row], engine_seed: int
) -> tuple[list[int], list[TokenLogprobs | None]]:
    """Choose a token for each row. Shapes: logits [B, V], one of B rows each, which are left as they are.

    Returns the tokens and, if any row asked, log-probabilities row by row (else an empty list).
    """
    if all(_is_plain(row) for row in rows):
        return logits.argmax(dim=-1).tolist(), []
    raw = logits.float()
    shaped = raw.clone()
    add_bias(shaped, rows)
    penalise(shaped, rows)
    forbid_early_stop(shaped, rows)
    chosen = shaped.argmax(dim=-1)
    drawn = [i for i, row in enumerate(rows) if _params(row).temperature >= GREEDY_BELOW]
    if drawn:
        members = [rows[i] for i in drawn]
        index = torch.tensor(drawn, device=logits.device)
        chosen[index] = draw(shaped[index], members, engine_seed)
    token_ids: list[int] = chosen.tolist()
    if all(_params(row).logprobs is None for row in rows):
        return token_ids, []
    return token_ids, _logprobs(raw, token_ids, rows)


def add_bias(scores: Tensor, rows: Sequence[Row]) -> None:
    """Add what a request wants added to single tokens' logits, in place. Shapes: [B, V]."""
    for score, row in zip(scores, rows, strict=True):
        bias = _params(row).logit_bias
        if bias:
            score[list(bias)] += torch.tensor(list(bias.values()), device=scores.device)


def penalise(scores: Tensor, rows: Sequence[Row]) -> None:
    """Apply repetition, frequency and presence penalties in place. Shapes: [B, V]."""
    for score, row in zip(scores, rows, strict=True):  # few rows ask, and lengths differ
        params, start = _params(row), row.seq.num_prompt_tokens
        if params.repetition_penalty != 1.0:
            seen = list(set(row.seq.token_ids[: row.num_tokens]))
            value = score[seen]
            times = params.repetition_penalty
            score[seen] = torch.where(value > 0, value / times, value * times)
        if params.frequency_penalty or params.presence_penalty:
            output = Counter(row.seq.token_ids[start : row.num_tokens])
            counts = torch.tensor(list(output.values()), device=scores.device)
            score[list(output)] -= params.frequency_penalty * counts + params.presence_penalty


def forbid_early_stop(scores: Tensor, rows: Sequence[Row]) -> None:
    """Mask what would end an answer before min_tokens, in place. Shapes: [B, V]."""
    for score, row in zip(scores, rows, strict=True):
        if _output_index(row) < _params(row).min_tokens:
            stops = list(_params(row).stop_token_ids)
            if row.seq.request.eos_token_id is not None and not _params(row).ignore_eos:
                stops.append(row.seq.request.eos_token_id)
            # A stop token that the vocabulary does not have cannot be sampled anyway.
            score[[token for token in stops if 0 <= token < len(score)]] = -torch.inf


def draw(scores: Tensor, rows: Sequence[Row], engine_seed: int) -> Tensor:
    """Draw a token per row from its shaped distribution. Shapes: [B, V] -> [B]."""

    def column(values: Sequence[float], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=scores.device).unsqueeze(1)

    params = [_params(row) for row in rows]
    scores = scores / column([p.temperature for p in params])
    if any(p.min_p > 0 for p in params):
        below_best = column([math.log(p.min_p) if p.min_p > 0 else -math.inf for p in params])
        scores.masked_fill_(scores < scores.amax(dim=-1, keepdim=True) + below_best, -torch.inf)
    cut = [i for i, p in enumerate(params) if p.top_k > 0 or p.top_p < 1.0]
    if cut:
        index = torch.tensor(cut, device=scores.device)
        top_k = column([params[i].top_k for i in cut], torch.int64)
        top_p = column([params[i].top_p for i in cut])
        part = scores[index]
        scores[index] = part.masked_fill_(part < _least_kept(part, top_k, top_p), -torch.inf)
    numbers = [
        uniform(stream_seed(row.seq.request, engine_seed), _output_index(row)) for row in rows
    ]
    return pick(scores, numbers)


def pick(scores: Tensor, numbers: Sequence[float]) -> Tensor:
    """The token at each row's number in [0, 1), by inverse CDF. Shapes: [B, V], B numbers -> [B]."""
    # In double precision, because 50,000 roundings of a running sum would favour the end of the vocabulary.
    cdf = scores.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    total = cdf[:, -1:]
    # Strictly below the total, so that the token found is one whose probability is not 0.
    number = torch.tensor(numbers, dtype=torch.float64, device=scores.device).unsqueeze(1)
    wanted = (number * total).minimum(total.nextafter(torch.zeros_like(total)))
    found = torch.searchsorted(cdf, wanted, right=True).squeeze(1)
    # A row without a distribution (its model overflowed) must not take the rows beside it down.
    return found.clamp_(max=scores.shape[1] - 1)


def _least_kept(
    scores: Tensor, top_k: Tensor, top_p: Tensor, num_likely: int = LIKELY_TOKENS
) -> Tensor:
    """Lowest score that top-k and then top-p keep; its equals stay too. Shapes: [B, V], [B, 1] -> [B, 1]."""
    num_likely = min(max(num_likely, int(top_k.max())), scores.shape[1])
    likely = scores.topk(num_likely, dim=-1).values
    limited = top_k > 0
    places = torch.arange(num_likely, device=scores.device)
    likely = likely.masked_fill(limited & (places >= top_k), -torch.inf)
    whole = torch.where(limited, likely.logsumexp(-1, True), scores.logsumexp(-1, True))
    probability = (likely - whole).exp()
    before = probability.cumsum(dim=-1) - probability  # of all likelier tokens; 0 for the first
    kept = ((before < top_p) | (top_p >= 1.0)) & (likely > -torch.inf)
    kept[:, 0] = True  # also under a top_p so small that single precision makes it 0
    least = likely.masked_fill(~kept, torch.inf).amin(dim=-1, keepdim=True)
    if num_likely < scores.shape[1]:
        open_ended = (kept[:, -1] & (top_p < 1.0).squeeze(1)).nonzero().squeeze(1)
        if len(open_ended):  # flat distributions, whose cut lies further down: sort these whole
            rest = (scores[open_ended], top_k[open_ended], top_p[open_ended])
            least[open_ended] = _least_kept(*rest, scores.shape[1])
    return least


def stream_seed(request: Request, engine_seed: int) -> int:
    """The seed of a request's random numbers: its own, or one made of the engine's seed and its id."""
    if request.params.seed is not None:
        return request.params.seed
    return mix64(mix64(engine_seed) ^ request.request_id)


def uniform(seed: int, output_index: int) -> float:
    """The number in [0, 1) for one place in one stream: a hash of both, no generator to be carried along."""
    return (mix64(mix64(seed) + GOLDEN64 * (output_index + 1)) >> 11) * 2.0**-53


def mix64(number: int) -> int:
    """SplitMix64's finaliser: 64 bits in, 64 bits out, each depending on all."""
    number &= MASK64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    number = (number ^ number >> 27) * 0x94D049BB133111EB & MASK64
    return number ^ number >> 31


def _logprobs(
    raw: Tensor, token_ids: Sequence[int], rows: Sequence[Row]
) -> list[TokenLogprobs | None]:
    asked = [i for i, row in enumerate(rows) if _params(row).logprobs is not None]
    index = torch.tensor(asked, device=raw.device)
    logprobs = raw[index].log_softmax(dim=-1)
    own = logprobs.gather(1, torch.tensor([[token_ids[i]] for i in asked], device=raw.device))
    ranks = ((logprobs > own).sum(dim=-1) + 1).tolist()
    best = logprobs.topk(max(max(_params(rows[i]).logprobs or 0 for i in asked), 1), dim=-1)
    found: list[TokenLogprobs | None] = [None] * len(rows)
    columns = zip(
        asked,
        own.flatten().tolist(),
        ranks,
        best.indices.tolist(),
        best.values.tolist(),
        strict=True,
    )
    for i, logprob, rank, top_ids, top_values in columns:
        top = tuple(zip(top_ids, top_values, strict=True))[: _params(rows[i]).logprobs]
        found[i] = TokenLogprobs(token_id=token_ids[i], logprob=logprob, rank=rank, top=top)
    return found


def _params(row: Row) -> SamplingParams:
    return row.seq.request.params


def _output_index(row: Row) -> int:
    """Which output token is being sampled, from 0."""
    return row.num_tokens - row.seq.num_prompt_tokens


def _is_plain(row: Row) -> bool:
    """Nothing but the most likely token is wanted."""
    params = _params(row)
    return (
        params.temperature < GREEDY_BELOW
        and params.logprobs is None
        and not params.logit_bias
        and params.repetition_penalty == 1.0
        and not params.presence_penalty
        and not params.frequency_penalty
        and _output_index(row) >= params.min_tokens
    )
