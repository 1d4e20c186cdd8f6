"""How a kata is judged: against a reference, on all small inputs, the smallest first.

    kata_oracle.py KATA [--lang zh] [--seal WORD]    exit status 0, one line and the seal; or 1 and the
                                                     smallest counter-example

The first input on which the two differ is shown with both results: it is the smallest, since inputs
come in order of size. A kata that raises is shown the line that raised.

Invariant: only the oracle writes to its standard output, and the seal comes after the last case. A kata
that prints does so on standard error; one that ends the program leaves no seal, whatever the exit status.
"""

import argparse
import copy
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

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
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # anybody's code: whatever it raises, SystemExit too, is the finding
        line = traceback.extract_tb(error.__traceback__)[-1].lineno
        said = _named(error)
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
    parser.add_argument("--seal", default="", help="said last of all, after the last case")
    options = parser.parse_args()
    out = _own_output()
    try:
        kata = load_kata(options.kata, reference.__name__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a syntax error, a missing function, an exit: told, not thrown
        print(say("kata_broken", options.lang, error=_named(error)), file=out, flush=True)
        sys.exit(1)
    count = 0
    for case in cases:
        found = differs(kata, reference, case, options.lang)
        if found is not None:
            print(found, file=out, flush=True)
            sys.exit(1)
        count += 1
    print(
        say("kata_agrees", options.lang, count=count), options.seal, sep="\n", file=out, flush=True
    )


def _own_output() -> TextIO:
    """Standard output for the oracle alone; what a kata prints from now on goes to standard error."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
