"""The reasons, as numbers: one closed list that every decision of the engine picks from.

The hot loop writes a code and a few integers; `reasons.toml` turns them into a sentence in English or
Chinese. So a screen explains what was decided and never guesses. A test holds both files equal.
"""

from enum import IntEnum


class Code(IntEnum):
    """Why something was decided. Codes are never reused; kinds and arguments: `reasons.toml`."""

    # rows: how a sequence entered this step
    RUN_DECODE = 101
    RUN_CHUNK = 102
    ADMIT_NEW = 103
    ADMIT_RESUMED = 104
    ADMIT_CUT = 105
    MIX_DECODE = 106
    ADMIT_STATIC = 107
    PAD_STATIC = 108
    SPEC_PAD = 109
    DP_DUMMY = 110

    # cuts: why it got fewer tokens than it wanted
    CUT_BUDGET = 201
    CUT_LONG_PREFILL = 202
    CUT_MODEL_LEN = 203
    CUT_DRAFTS = 204
    CUT_CHUNK_PAGE = 205
    CUT_TOTAL = 206
    CUT_FORCED = 207

    # skips: passed over, the loop went on
    SKIP_ZERO = 301
    SKIP_GRAMMAR = 302
    SKIP_REMOTE_KV = 303
    SKIP_ADAPTER = 304
    SKIP_STALE = 305
    SKIP_LENGTH_SEEN = 306
    SKIP_PREFILL_FIRST = 307
    SKIP_NO_MIX = 308
    SKIP_WAIT_FINISH = 309
    SKIP_IN_FLIGHT = 310

    # stops: why the admission loop ended (at most one a step)
    STOP_BUDGET = 401
    STOP_MAX_SEQS = 402
    STOP_ACTIVE_SEQS = 403
    STOP_NO_BLOCKS = 404
    STOP_FULL_PROMPT = 405
    STOP_WATERMARK = 406
    STOP_NO_CHUNKING = 407
    STOP_PREEMPTED = 408
    STOP_PAUSED = 409
    STOP_CADENCE = 410
    STOP_NO_TOKEN = 411
    STOP_INPUT = 412
    STOP_CHUNK = 413
    STOP_AFTER_CUT = 414
    STOP_ROWS = 415
    STOP_FULL_FLAG = 416
    STOP_MAX_REQUESTS = 417
    STOP_SIMULATED = 418
    STOP_BATCH_BUSY = 419
    STOP_RESERVE = 420
    BEHIND = 421
    ORDER_KEY = 431
    ORDER_FALLBACK = 432

    # victims: who lost its memory, and the ratio that SGLang keeps
    PREEMPT_LAST = 501
    PREEMPT_SELF = 502
    PREEMPT_PRIORITY = 503
    PREEMPT_QUEUED = 504
    RETRACT_SHORTEST = 505
    RETRACT_PRIORITY = 506
    RETRACT_EVICT = 507
    RATIO_SET = 508
    PREEMPT_RESET = 509

    # KV blocks and cache nodes
    KV_ALLOC = 601
    KV_HIT = 602
    KV_UNREF = 603
    KV_FREE_BACK = 604
    KV_FREE_FRONT = 605
    KV_CACHED = 606
    KV_CACHED_COPY = 607
    KV_EVICT = 608
    KV_DUP_FREED = 609
    KV_RESERVED = 610
    KV_RESET = 611
    NODE_NEW = 621
    NODE_SPLIT = 622
    NODE_TOUCH = 623
    NODE_LOCK = 624
    NODE_UNLOCK = 625
    NODE_HIT = 626
    NODE_EVICT = 627
    NODE_CUT = 628

    # prefix lookups and, derived by queries, the causes of a miss
    HIT_NONE = 701
    HIT_PART = 702
    HIT_FULL_BLOCK = 703
    HIT_FULL_TOKEN = 704
    HIT_OWN = 705
    HIT_NOT_READ = 706
    MISS_FULL_HIT = 721
    MISS_NOT_FULL = 722
    MISS_EVICTED = 723
    MISS_CHAIN = 724
    MISS_SALT = 725
    MISS_ADAPTER = 726
    MISS_TOO_LATE = 727
    MISS_DIFFERS = 728
    MISS_NEVER = 729

    # ends: how a request ended
    END_STOP_TOKEN = 801
    END_EOS = 802
    END_STOP_STRING = 803
    END_LENGTH = 804
    END_MODEL_LEN = 805
    ABORT_CALL = 811
    ABORT_DISCONNECT = 812
    ABORT_TIMEOUT = 813
    ABORT_SHUTDOWN = 814
    ABORT_NO_ROOM = 815
    ABORT_GRAMMAR = 816
    REJECT_TOO_LONG = 821
    REJECT_QUEUE = 822
    REJECT_BAD = 823
    REJECT_NEVER_FITS = 824
    REJECT_NO_ENGINE = 825
    LOST_ENGINE = 831
    LOST_RANK = 832
    INTERRUPTED = 833

    # faults
    PROC_DIED = 901
    PROC_STARTED = 902
    RANK_STALLED = 903
    NO_PROGRESS = 904
    RECORDS_DROPPED = 905
    SPOOL_TORN = 906
    SPOOL_CORRUPT = 907
    CLOCK_STEP = 908
    BACKEND_FALLBACK = 909
    TOKEN_DROPPED = 910
    FAULT_INJECTED = 911

    # controls
    RUN_START = 1001
    RUN_END = 1002
    LEVEL = 1003
    KNOB = 1004
    PAUSE = 1005
    RESUME = 1006
    BREAKPOINT = 1007
    DRAIN = 1008
    RETENTION = 1009
