"""Replaying decisions of the real engines against ours, and saying where the first difference is."""
