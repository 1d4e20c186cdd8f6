"""Who loses its memory: retraction when a decode does not fit, pushing out when somebody important waits.

Retraction takes from those who lose least. Whoever has generated fewest tokens is recomputed most cheaply,
and among equals the longest prompt frees most. At least one goes, then as many as it takes; the last one
left is never retracted, for nobody else could make room for it.

Pushing out needs a clear difference in priority, or two requests would push each other out for ever.

A victim publishes nothing more, and room for the next steps of those that are left is made at once, which
often evicts the victim's own prompt.

Source: SGLang 0.5.23 `sglang/srt/managers/schedule_batch.py` (retract_decode, x01-x05),
`sglang/srt/managers/schedule_policy.py` (preempt_to_schedule, t09).
"""

from dataclasses import dataclass

from engine.config_sglang import SglangConfig
from engine.kv.radix import RadixKV
from engine.scheduler.sglang_adder import PrefillAdder, max_new_tokens
from engine.scheduler.sglang_queue import SglangQueue
from engine.scheduler.sglang_ratio import RETRACT_DECODE_STEPS
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Victim:
    """Who lost its memory, and what that brought."""

    seq: Sequence
    num_room_tokens: int
    """Room before it went, everything evictable included."""
    num_left: int
    """Running requests that are left."""
    num_evicted_tokens: int
    """Evicted besides, for their next steps."""


@dataclass(frozen=True, slots=True)
class Retraction:
    """Who went and who stays."""

    retracted: list[Victim]
    """In the order in which they were chosen."""
    aborted: Victim | None
    """The last one left, if it does not fit even alone."""
    kept: list[Sequence]
    """From the one to be retracted last; the running batch takes this order."""


def decode_need(kv: RadixKV, seqs: list[Sequence]) -> int:
    """Tokens of room that the next decode of these needs: a block for each whose last one is full."""
    return sum(seq.num_computed_tokens % kv.block_size == 0 for seq in seqs) * kv.block_size


def decode_fits(kv: RadixKV, seqs: list[Sequence]) -> bool:
    """Whether the next decode of these finds room, after evicting."""
    return kv.make_room(decode_need(kv, seqs), seqs[0].request_id)


def take_memory(kv: RadixKV, seq: Sequence, num_left: int) -> Victim:
    """Free without publishing, and make room for some steps of the `num_left` that still run."""
    room = kv.num_room_tokens
    kv.free(seq)
    before = kv.num_cached_free
    kv.make_room(num_left * RETRACT_DECODE_STEPS, None)
    return Victim(seq, room, num_left, (before - kv.num_cached_free) * kv.block_size)


def retract(kv: RadixKV, seqs: list[Sequence], config: SglangConfig) -> Retraction:
    """Take from one running sequence after the other until the next decode of the rest fits."""
    kept = retraction_order(seqs, config)
    retracted: list[Victim] = []
    while len(kept) > 1 and (not retracted or not decode_fits(kv, kept)):
        retracted.append(take_memory(kv, kept.pop(), len(kept)))
    aborted = None
    if len(kept) == 1 and not decode_fits(kv, kept):
        aborted = take_memory(kv, kept.pop(), 0)
    return Retraction(retracted, aborted, kept)


def retraction_order(seqs: list[Sequence], config: SglangConfig) -> list[Sequence]:
    """Sorted so that the next victim stands at the end."""
    by_priority = config.retraction_policy == "priority"
    sign = -1 if config.schedule_low_priority_values_first else 1

    def worth(seq: Sequence) -> tuple[int, int, int]:
        priority = seq.request.priority * sign if by_priority else 0
        return priority, seq.num_output_tokens, -seq.num_prompt_tokens

    return sorted(seqs, key=worth, reverse=True)


def choose_pushed_out(seq: Sequence, waiting: SglangQueue, adder: PrefillAdder) -> list[Sequence]:
    """Running requests that make room for a waiting one; none, if it does not outrank enough of them.

    Least important first, then who joined last. The newcomer's need is reckoned with its length as of its
    last trial for admission, 0 for one never tried: so upstream has it.
    """
    config = adder.config
    sign = 1 if config.schedule_low_priority_values_first else -1
    ticket = waiting.ticket(seq)
    output = min(max_new_tokens(seq), config.clip_max_new_tokens)
    missing = ticket.num_seen_tokens - ticket.num_matched_tokens + output - adder.total_left
    victims: list[Sequence] = []
    for victim in sorted(
        adder.running, key=lambda s: (s.request.priority * -sign, -waiting.ticket(s).number)
    ):
        difference = (seq.request.priority - victim.request.priority) * -sign
        if difference <= config.priority_scheduling_preemption_threshold:
            break
        victims.append(victim)
        missing -= adder.reserve_of(victim)
        if missing <= 0:
            return victims
    return []
