"""Text in, text out: tokenizer, chat template, incremental detokeniser, stop strings."""
