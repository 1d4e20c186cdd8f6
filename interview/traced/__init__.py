"""Drills made from recorded runs: right and wrong choices are computed from the trace."""
