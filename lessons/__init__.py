"""Lessons: content and checks on the learner's own trace. No engine in here; an experiment is a subprocess."""
