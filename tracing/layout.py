"""The format of records: what the writer packs and the reader unpacks.

Layout of a record: header word `kind | num_words << 8`, then signed 64-bit fields in the order of `FIELDS`
(`...` = a repeated tail); NULL is -2^63. Texts follow the words as UTF-8, `blob_bytes` long, in record order.

Invariant: numbers of kinds and the order of fields are written into spools; they are only ever added to.
"""

from enum import IntEnum
from struct import Struct

NULL = -(2**63)
BLOCK_HEADER = Struct("<IIIIQIHH")
BLOCK_MAGIC = int.from_bytes(b"CBLK", "little")
FLAG_REPEATED = 1
"""Flag of a block that repeats earlier definitions at the start of a segment; its records take no seq."""


class Level(IntEnum):
    """How much is recorded; each level includes those below it."""

    OFF = -1
    METRICS = 0
    REQUESTS = 1
    STEPS = 2
    BLOCKS = 3
    KERNELS = 4


class Mode(IntEnum):
    """What kind of tokens a step computed."""

    EMPTY = 0
    PREFILL = 1
    DECODE = 2
    MIXED = 3
    DUMMY = 4


class Phase(IntEnum):
    """Where a request is; phases tile the time from its arrival to its end without gap."""

    RECEIVE = 0
    TOKENISE = 1
    TO_CORE = 2
    QUEUE = 3
    PREFILL = 4
    DECODE = 5
    PREEMPTED = 6
    TO_API = 7
    DELIVER = 8
    DETOKENISE = 9  # in a process of its own, between decode and to_api; else inside deliver


class Kind(IntEnum):
    """Record kinds. Numbers are part of the spool format."""

    CTX = 1
    STEP = 2
    ROW = 3
    DECISION = 4
    BLOCKS = 5
    CACHED = 6
    NODE = 7
    TOKENS = 10
    KERNELS = 11
    RANK_STEP = 13
    REQUEST = 20
    REQUEST_END = 21
    PHASE = 22
    PROMPT = 23
    PROMPT_UNITS = 24
    EVENT = 25
    DICT = 26
    TEMPLATE = 27
    CLOCK = 28
    SPAN = 29
    SECOND = 30
    HELLO = 31
    BYE = 32
    RUN = 33


FIELDS: dict[Kind, tuple[str, ...]] = {
    Kind.CTX: ("step", "start_ns"),
    Kind.STEP: (
        *("start_ns", "scheduled_ns", "submitted_ns", "collected_ns", "end_ns", "mode"),
        *("num_rows", "num_tokens", "num_prefill_tokens", "num_draft_tokens", "num_padded_tokens"),
        *("token_budget", "max_num_seqs", "num_running", "num_waiting"),
        *("used_blocks", "cached_free_blocks", "free_blocks", "num_preempted", "num_finished"),
        *("new_token_ratio_1e6", "in_flight", "level"),
    ),
    Kind.ROW: (
        *("request_id", "code", "num_scheduled_tokens", "num_computed_tokens", "num_tokens"),
        *("is_prefill", "num_cached_tokens", "num_recomputed_tokens", "num_draft_tokens"),
        *("num_accepted_tokens", "num_sampled_tokens", "output_dropped"),
    ),
    Kind.DECISION: ("ts_ns", "code", "request_id", "other_id", "a0", "a1", "a2", "a3"),
    Kind.BLOCKS: ("ts_ns", "code", "request_id", "other_id", "idx", "...block_id"),
    Kind.CACHED: ("ts_ns", "code", "request_id", "block_id", "idx", "hash", "parent"),
    # A radix node after the act. NODE_TOUCH, _LOCK and _UNLOCK reach up to the root: each ancestor's access
    # is one less than its child's, each lock count moves by one. namespace_id: 0 none; other: evict for whom,
    # split other half.
    Kind.NODE: (
        *("ts_ns", "code", "request_id", "other_id", "node_id", "parent_id", "num_tokens", "depth"),
        *("lock_count", "hits", "priority", "access", "namespace_id"),
    ),
    Kind.TOKENS: ("ts_ns", "...request_id,k,token_id"),
    # One launch ends where the next begins: n launches have n + 1 times. clock: 0 host, 1 device.
    Kind.KERNELS: ("template_id", "num_tokens", "clock", "...mark_ns"),
    Kind.RANK_STEP: (
        *("start_ns", "end_ns", "wait_batch_ns", "wait_upstream_ns", "wait_downstream_ns"),
        *("first_layer", "num_layers", "num_tokens"),
    ),
    # blob: JSON {external_id, operation}
    Kind.REQUEST: (
        *("request_id", "parent_request", "trace_hi", "trace_lo", "span_id", "server_span"),
        *("arrival_ns", "stream", "num_prompt_tokens", "max_tokens", "priority", "namespace_id"),
        *("temperature_1e6", "top_p_1e6", "top_k", "seed", "blob_bytes"),
    ),
    Kind.REQUEST_END: (
        *("request_id", "end_ns", "code", "http_status", "num_output_tokens", "num_cached_tokens"),
        *("num_recomputed_tokens", "num_preemptions", "first_token_ns", "last_token_ns"),
        *("first_byte_ns", "detokenise_ns", "a0"),
    ),
    Kind.PHASE: ("request_id", "phase", "start_ns", "end_ns", "first_step", "last_step"),
    Kind.PROMPT: ("request_id", "...token_id"),
    Kind.PROMPT_UNITS: ("request_id", "num_tokens", "...hash,content"),
    Kind.EVENT: ("ts_ns", "code", "request_id", "step", "a0", "a1", "a2", "a3"),
    Kind.DICT: ("dict_kind", "id", "blob_bytes"),  # dict_kind: index in DICT_KINDS; blob: the text
    Kind.TEMPLATE: ("template_id", "...kernel_id,layer"),
    Kind.CLOCK: ("raw_ns", "wall_ns"),
    # blob: JSON {name, attributes, events, links, resource, scope, status_text}
    Kind.SPAN: (
        *("trace_hi", "trace_lo", "span_id", "parent_id", "kind", "start_ns", "end_ns", "status"),
        *("request_id", "blob_bytes"),
    ),
    Kind.SECOND: (
        *("ts_ns", "num_steps", "prefill_tokens", "decode_tokens"),
        *("running", "waiting", "used_blocks"),
    ),
    # blob: JSON {role, rank, host}; engine_id NULL: a front end
    Kind.HELLO: (
        *("proc_id", "engine_id", "pid", "span_base", "trace_hi", "trace_lo", "level"),
        "blob_bytes",
    ),
    Kind.BYE: ("next_seq", "dropped"),
    Kind.RUN: ("blob_bytes",),  # blob: JSON, columns of table run that only the core knows
}
"""Field names of each record kind, in order: the reader's and the writer's one truth."""

DICT_KINDS = ("kernel", "namespace", "token", "text")
