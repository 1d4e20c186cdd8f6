"""V1, the batch strip: who is in each step, and how many tokens each one gets.

Query: `queries.steps` (tables step and step_request); drawn by `assets/view_batch.mjs`. Unused budget stays
visible as paper: the room that nobody took is half of the story.
"""

from dash import html

from workbench.look.words import Words
from workbench.web.parts import term
from workbench.web.views.plot import timeline_view


def view(words: Words, budget: int | None) -> html.Section:
    """The view; `budget`: tokens a step may compute, None if no step was recorded."""
    said = words("web.view.budget", n=f"{budget:,}" if budget else "–")
    return timeline_view(words, "batch", term(words, "budget", said))
