"""Measurements. Ratios from interleaved rounds: a single number from a busy machine says little."""
