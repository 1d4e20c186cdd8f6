"""Whether an answer makes a point or a mistake: terms that stand together, undenied, about the right thing.

The idea: a pattern `block|page & table` is heard when one sentence (or two neighbours) holds a term of each
group, none of them only in clauses that deny it; a group `not` asks for the denial instead, a group `-left`
for absence, and `@vllm` for all the others within what is said of that subject. A mistake must stand closer
together. Terms are Chinese, heard anywhere, or Latin: up to three letters a whole word, longer ones the
beginning of a word. So one pattern serves both languages, and answers that mix them.

    point      patterns or figures; gone if an `unless` pattern is heard, or a mistake that takes it
    mistake    patterns within a short claim; none if the claim is called wrong, or says when it holds

Invariant: what is heard comes with the sentence it was heard in.
Source: our own.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from interview.prose import Clause, Sentence, denies, latin, read
from interview.quantities import agree, quantities
from interview.questions import Figure, Mistake, Pattern, Point, Question
from interview.subjects import Run, runs

NOT = "not"
ABOUT = "@"
ABSENT = "-"
VERSION_TERM = "#version"
VERSION = re.compile(
    r"\b\d+\.\d+\.\d+\b"
    r"|(?:vllm|sglang|transformers|torch|version|release|版本)\W{0,2}(?:v|at |in |的)?\s?\d+\.\d+"
    r"|\d+\.\d+\s?(?:版|release)"
)
"""A release: three numbers, or two beside a name that has releases."""
DO_NOT = r"\b(?:do not|don't|never) do (?:that|this|so|it)\b"
DO_NOT_ZH = r"(?:千万)?(?:别|不要|不能|不该)(?:这么|这样|那么|那样)(?:做|算|干)"
REFUTES = re.compile(
    r"\b(?:mistakes?|myth|misconception|misreading|wrong|false|not true|outdated|traps?|refuted?)\b"
    r"|\b(?:disagree|naive(?:ly)?|(?:common|classic|usual|typical|frequent) errors?)\b"
    r"|\bfool (?:your|one|my|our)sel"
    r"|错误|误解|误区|不对|不成立|反驳|过时|谬误|不同意|不认同|反对"
    r"|天真|想当然|自欺欺人|常犯的错|说法.{0,4}(?:不|错|站不住|有问题)"
    rf"|{DO_NOT}|{DO_NOT_ZH}"
    r"|\b(?:people|teams|many|some|most)\b.*"
    r"\b(?:wonder|surprised?|only to|find out|regret|explodes?|collapses?)\b"
    r"|(?:很多|不少|有些|有的|大家).*(?:才发现|后悔|吃亏|踩坑|傻眼|栽)"
)
"""A sentence with one of these speaks about a mistake."""
UPHOLDS = re.compile(
    r"\b(?:not|n't|never|nothing|no)\s(?:\w+\s){0,2}?"
    r"(?:wrong|false|mistakes?|myth|misconception|disagree|refuted?|naive|errors?)\b"
    r"|n't (?:be )?(?:wrong|false|disagree|refute)\w*"
    r"|(?:不是|没有?|并非|不算|不能说(?:是)?|谈不上)什?么?(?:错误?|误解|误区|不对|问题)"
    r"|(?:不|没有?|无法|没法)(?:能|会|想|要)?(?:反驳|反对)|没有不(?:同意|对)"
)
"""It does not, if it is denied itself."""
DISMISSES = re.compile(
    r"(?:but |no, )?(?:that|this|which|it)(?:'s| is| was) (?:simply |just |plainly )?"
    r"(?:wrong|false|naive|not (?:so|true|right|the case)|a (?:myth|mistake|misconception|misreading))"
    rf"|(?:but |please |no, )?{DO_NOT}|{DO_NOT_ZH}"
    r"|(?:但|可|其实)?(?:这|那)(?:是|种|个|话|样|说法|想法|么|都|就)*(?:不对|错|误解|误区|不成立|站不住)"
)
"""A sentence that begins so calls the one before it wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as the marker has it before any term is looked for."""

    prose: tuple[Sentence, ...]
    with_numbers: tuple[Sentence, ...]
    """The prose and the calculations."""
    claiming: tuple[Sentence, ...]
    """These, and what is too terse to make a point, but not to be wrong."""
    runs: tuple[Run, ...]


def take_in(question: Question, text: str) -> Answer:
    """Read an answer to this question; an echo of the question claims nothing."""
    asked = {s.text for half in (question.question.en, question.question.zh) for s in read(half)}
    said = tuple(s for s in read(text) if s.kind != "list" and s.text not in asked)
    prose = tuple(s for s in said if s.kind == "prose")
    numbers = tuple(s for s in said if s.kind != "terse")
    return Answer(prose, numbers, said, tuple(runs(said, question.subjects)))


def hear_point(point: Point, answer: Answer) -> str:
    """The sentence, or pair of sentences, that makes the point; empty if none does."""
    if any(hear(point.unless, answer.with_numbers, answer.runs)):
        return ""
    sentences = answer.with_numbers if point.dimension == "number" else answer.prose
    return hear(point.patterns, sentences, answer.runs) or hear_figure(point.figures, sentences)


def hear(
    patterns: tuple[Pattern, ...], sentences: tuple[Sentence, ...], about: tuple[Run, ...] = ()
) -> str:
    """Where one of the patterns is heard."""
    windows = [(sentence.text, sentence.clauses) for sentence in sentences]
    windows += [(f"{a.text} {b.text}", a.clauses + b.clauses) for a, b in pairwise(sentences)]
    for text, clauses in windows:
        if any(holds(pattern, clauses) for pattern in patterns):
            return text
    return next((r.text for r in about if any(_holds_of(pattern, r) for pattern in patterns)), "")


def hear_mistake(mistake: Mistake, question: Question, answer: Answer) -> str:
    """The sentence that claims the mistake. A claim is short, and naming it as a mistake is none."""
    if mistake.takes:
        said = answer.claiming
        dismissed = {s.text for i, s in enumerate(said) if _refuted(said, i)}
        for run in answer.runs:
            if run.text not in dismissed and any(_holds_of(p, run) for p in mistake.patterns):
                return run.text
    for index, sentence in enumerate(answer.claiming):
        if _refuted(answer.claiming, index):
            continue
        for phrase, claims in zip(sentence.wholes, sentence.claims, strict=True):
            heard = any(holds(p, claim) for p in mistake.patterns for claim in claims)
            if heard and not _redeemed(phrase, mistake, question):
                return sentence.text
    return ""


def _redeemed(phrase: tuple[Clause, ...], mistake: Mistake, question: Question) -> bool:
    """A claim that makes a boundary point, or says when it does hold, is no mistake."""
    if any(holds(pattern, phrase) for pattern in mistake.unless):
        return True
    points = (point for point in question.points if point.dimension == "boundary")
    return any(holds(pattern, phrase) for point in points for pattern in point.patterns)


def _refuted(sentences: tuple[Sentence, ...], index: int) -> bool:
    """Whether the sentence is about a mistake, or the next one calls it so."""
    if REFUTES.search(UPHOLDS.sub(" ", sentences[index].text)):
        return True
    return index + 1 < len(sentences) and DISMISSES.match(sentences[index + 1].text) is not None


def holds(pattern: Pattern, clauses: tuple[Clause, ...]) -> bool:
    """Every group is affirmed somewhere; with a `not` group, one of them stands in a denying clause."""
    if any(group[0].startswith(ABOUT) for group in pattern):
        return False
    if not _is_absent(pattern, clauses):
        return False
    wanted = [group for group in pattern if not group[0].startswith(ABSENT)]
    groups = [group for group in wanted if group != (NOT,)]
    if len(groups) == len(wanted):
        return all(any(_affirms(group, clause) for clause in clauses) for group in groups)
    places = [[c for c in clauses if any(says(term, c) for term in group)] for group in groups]
    return all(places) and any(clause.negated for place in places for clause in place)


def _is_absent(pattern: Pattern, clauses: tuple[Clause, ...]) -> bool:
    """No clause says a term that the pattern wants absent."""
    absent = [group for group in pattern if group[0].startswith(ABSENT)]
    return not any(says(t.removeprefix(ABSENT), c) for g in absent for t in g for c in clauses)


def _holds_of(pattern: Pattern, run: Run) -> bool:
    """The pattern names the subject of the run, and the rest holds there; absent means in all of it."""
    rest = tuple(group for group in pattern if group != (ABOUT + run.subject,))
    if not _is_absent(pattern, run.clauses):
        return False
    windows = [(one,) for one in run.clauses] + list(pairwise(run.clauses))
    return len(rest) < len(pattern) and any(holds(rest, window) for window in windows)


def _affirms(group: tuple[str, ...], clause: Clause) -> bool:
    """A term of the group stands here undenied; a term like "no gain" is a denial by itself."""
    return any(
        says(term, clause) and (not clause.negated or term == VERSION_TERM or denies(term))
        for term in group
    )


def says(term: str, clause: Clause) -> bool:
    """Whether the term stands in the clause."""
    if term == VERSION_TERM:
        return VERSION.search(clause.text) is not None
    if not term.isascii() or not term[-1].isalnum():  # "99%", "c++": no words of their own
        return term in clause.text
    want = latin(term)
    for start in range(len(clause.words) - len(want) + 1):
        if all(_is(w, word) for w, word in zip(want, clause.words[start:], strict=False)):
            return True
    return False


def _is(want: str, word: str) -> bool:
    return word == want if len(want) <= 3 or want[0].isdigit() else word.startswith(want)


def hear_figure(figures: tuple[Figure, ...], sentences: tuple[Sentence, ...]) -> str:
    """The sentence that gives one of the numbers within its tolerance."""
    for figure in figures:
        expected = quantities(figure.value)[0]
        for sentence in sentences:
            near = not figure.near or any(
                says(term, clause) for term in figure.near for clause in sentence.clauses
            )
            found = quantities(sentence.text) if near else []
            if any(agree(quantity, expected, figure.tolerance) for quantity in found):
                return sentence.text
    return ""
