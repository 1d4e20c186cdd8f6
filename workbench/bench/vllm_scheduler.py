"""Plays one golden case through the *real* vLLM scheduler and prints the time of each step.

Runs in an environment of its own that has vLLM (how to make one: `vllm-requirements.txt` beside this file);
imports nothing of Cutaway. Timed: add_request, schedule and update_from_output.
Usage: vllm_scheduler.py CASE.json
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 1000,
    "max_position_embeddings": 100_000,
}


def make_scheduler(engine: dict[str, Any]) -> Any:
    """vLLM's Scheduler with the case's settings and no model behind it."""
    import torch
    from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    folder = tempfile.mkdtemp()
    Path(folder, "config.json").write_text(json.dumps(MODEL))
    model = ModelConfig(
        model=folder, skip_tokenizer_init=True, max_model_len=engine["max_model_len"]
    )
    scheduler = SchedulerConfig(
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        max_num_seqs=engine["max_num_seqs"],
        max_model_len=engine["max_model_len"],
        enable_chunked_prefill=engine["enable_chunked_prefill"],
        is_encoder_decoder=False,
        async_scheduling=False,
    )
    cache = CacheConfig(
        block_size=engine["block_size"], enable_prefix_caching=engine["enable_prefix_caching"]
    )
    cache.num_gpu_blocks = engine["num_blocks"]
    config = VllmConfig(
        model_config=model,
        scheduler_config=scheduler,
        cache_config=cache,
        device_config=DeviceConfig(device="cpu"),
    )
    spec = FullAttentionSpec(
        block_size=engine["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    kv = KVCacheConfig(
        num_blocks=engine["num_blocks"],
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    return Scheduler(
        vllm_config=config,
        kv_cache_config=kv,
        structured_output_manager=StructuredOutputManager(config),
        block_size=engine["block_size"],
    )


def make_request(request: dict[str, Any], hasher: Any) -> Any:
    """A vLLM request from the case's."""
    from vllm import SamplingParams
    from vllm.v1.request import Request

    params = SamplingParams(
        temperature=0,
        max_tokens=request["max_tokens"],
        stop_token_ids=request.get("stop_token_ids", []),
    )
    params.update_from_generation_config({}, request.get("eos_token_id", -1))
    return Request(
        request_id=request["id"],
        prompt_token_ids=request["prompt_token_ids"],
        sampling_params=params,
        pooling_params=None,
        arrival_time=request["arrival_time"],
        priority=request.get("priority", 0),
        cache_salt=request.get("cache_salt"),
        block_hasher=hasher,
    )


def play(case: dict[str, Any]) -> list[int]:
    """Nanoseconds per step."""
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import RequestStatus

    init_none_hash(sha256)
    engine = case["engine"]
    scheduler = make_scheduler(engine)
    hasher = get_request_block_hasher(engine["block_size"], sha256)
    scripts = {r["id"]: r["output_token_ids"] for r in case["requests"]}
    produced = dict.fromkeys(scripts, 0)
    times = []
    for step in case["steps"]:
        fresh = [
            make_request(r, hasher) for r in case["requests"] if r["arrival_step"] == step["step"]
        ]
        start = time.perf_counter_ns()
        for request in fresh:
            scheduler.add_request(request)
        for request_id in step.get("abort", []):
            scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        output = scheduler.schedule()
        ids = list(output.num_scheduled_tokens)
        spent = time.perf_counter_ns() - start
        requests = dict(scheduler.requests)
        for request_id in step.get("abort_mid", []):
            scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)
        sampled = []
        for request_id in ids:
            request = requests[request_id]
            done = request.num_computed_tokens >= request.num_tokens
            sampled.append([scripts[request_id][produced[request_id]]] if done else [])
            produced[request_id] += done
        result = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: i for i, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
        )
        start = time.perf_counter_ns()
        scheduler.update_from_output(output, result)
        times.append(spent + time.perf_counter_ns() - start)
        if step.get("free") is not None:
            assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == step["free"], step
    return times


if __name__ == "__main__":
    print(json.dumps(play(json.loads(Path(sys.argv[1]).read_text()))))
