"""How a kata is judged: against a reference, on all small inputs, the smallest first.

    kata_oracle.py KATA [--lang zh]        exit status 0 and one line, or 1 and the smallest counter-example

The first input on which the two differ is shown with both results: it is the smallest, since inputs
come in order of size. A kata that raises is shown the line that raised.
"""

import argparse
import copy
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from lessons.text import Language, say

Case = tuple[Any, ...]
"""Positional arguments."""


def differs(
    kata: Callable[..., Any], reference: Callable[..., Any], case: Case, language: Language
) -> str | None:
    """The counter-example as text, or None if both agree on this input."""
    call = f"{reference.__name__}({', '.join(map(repr, case))})"
    wanted = reference(*copy.deepcopy(case))
    try:
        got = kata(*copy.deepcopy(case))
    except NotImplementedError:
        return say("kata_stub", language, name=reference.__name__)
    except Exception as error:  # anybody's code: whatever it raises is the finding
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        said = f"{type(error).__name__}: {error}"
        return say("kata_raised", language, call=call, error=said, line=line, wanted=repr(wanted))
    if got == wanted:
        return None
    return say("kata_differs", language, call=call, got=repr(got), wanted=repr(wanted))


def load_kata(path: Path, name: str) -> Callable[..., Any]:
    """The function of that name in a Python file. Raises whatever the file raises, or AttributeError."""
    spec = importlib.util.spec_from_file_location("kata", path)
    assert spec is not None, f"{path} is not a Python file"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


def main(reference: Callable[..., Any], cases: Iterable[Case]) -> None:
    """Judge the kata named on the command line; `cases` come smallest first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kata", type=Path)
    parser.add_argument("--lang", choices=["en", "zh"], default="en")
    options = parser.parse_args()
    try:
        kata = load_kata(options.kata, reference.__name__)
    except Exception as error:  # a syntax error, a missing function, ...: told, not thrown
        print(say("kata_broken", options.lang, error=f"{type(error).__name__}: {error}"))
        sys.exit(1)
    count = 0
    for case in cases:
        found = differs(kata, reference, case, options.lang)
        if found is not None:
            print(found)
            sys.exit(1)
        count += 1
    print(say("kata_agrees", options.lang, count=count))
