"""Engines with one thing wrong, and the recorded runs in which a drill asks to find it. Spoilers inside."""
