"""Lessons that are graded by the learner's own trace.

    NN_topic/          one lesson: lesson.toml, lesson.md, lesson.zh.md, experiment.py, checks.sql, kata.py,
                       kata_oracle.py, picture.json and the two drawings made of it
    content.py         reads those files          text.py      two languages, one sentence
    grading.py         predictions, stops and checks against a run
    progress.py        what a learner has done    runner.py    experiments and katas as own processes
    lab.py             what experiments share     oracle.py    what kata oracles share

Nothing here loads torch or the engine: a lesson is text and queries, and the one part that drives
the engine, `experiment.py`, is a program that `runner` starts.
"""
