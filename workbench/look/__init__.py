"""The look that browser and terminal share: one palette, one catalogue of sentences per language.

    palette.toml, palette.py      colours by meaning; a request's hue
    en.toml, zh.toml, words.py    what screens say, whole sentences, the same keys in both languages

Why something was decided is not said here but in `tracing/reasons.toml`: the trace carries its own reasons.
"""
