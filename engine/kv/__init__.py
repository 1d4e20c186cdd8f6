"""KV cache bookkeeping: which block holds which tokens. No tensors here; the executor owns those."""
