import json

import pytest
from click.testing import CliRunner

from interview.numbers import EXAMPLES
from interview.numbers.worked import results
from workbench.numbers_command import numbers
from workbench.numbers_measure import measure


def run(*args: str) -> str:
    done = CliRunner().invoke(numbers, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def inputs(name: str, **changed) -> dict:
    return {param.name: param.default for param in EXAMPLES[name].params} | changed


def test_the_list_names_every_example_in_both_languages():
    english, chinese = run(), run("--lang", "zh")
    for example in EXAMPLES.values():
        assert example.name in english
        assert example.name in chinese
        assert example.title.zh in chinese
    assert "\x1b" not in english


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_example_is_shown_line_by_line(name, language):
    shown = " ".join(run(name, "--lang", language).split())
    example = EXAMPLES[name]
    for text in (example.title, example.moral):
        assert " ".join(text.in_(language).split()) in shown
    assert len(shown.splitlines()) <= 1
    assert "\x1b" not in shown


def test_inputs_can_be_changed_and_presets_taken():
    changed = json.loads(run("kv", "--preset", "smollm2-135m", "--block-size", "32", "--json"))
    assert changed["inputs"]["layers"] == 30
    assert changed["results"]["block"] == 2 * 360 * 2**10
    listed = json.loads(run("rounds", "--outputs", "4,1,1,4", "--slots", "2", "--json"))
    assert listed["results"]["static"] == 8
    assert json.loads(run("--json"))["fleet"]["fleet"] == 9


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("rounds", "--outputs", "2,x"), "not a list of numbers"),
        (("rounds", "--outputs", "0,2"), "below 1"),
        (("kv", "--layers", "0"), "x>=1"),
        (("kv", "--layers", "1.5"), "not a valid integer"),
        (("fleet", "--rate", "-1"), "x>=0.001"),
        (("kv", "--preset", "gpt-9"), "gpt-9"),
        (("nothing",), "nothing"),
        (("restore", "--recompute-ms", "nan"), "not a finite number"),
        (("restore", "--load-ms", "inf", "--lang", "zh"), "不是有限的数"),
        (("loops", "--rates", "3,nan"), "not a finite number"),
        (("fleet", "--target", "1.5"), "above 1"),
        (("fleet", "--lang", "zh", "--target", "1.5"), "大于 1"),
        (("layouts", "--weights-gib", "100", "--card-gib", "24", "--cards", "1"), "fit in none"),
    ],
)
def test_an_input_that_makes_no_sense_is_refused(args, message):
    done = CliRunner().invoke(numbers, args)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("rounds", {}),
        ("rounds", {"outputs": (4, 1, 1, 4, 7, 2), "slots": 3}),
        ("request-r", {}),
        ("request-r", {"prompt": 9, "common": 9, "unit": 4}),
        ("repeat", {}),
        ("repeat", {"lengths": (1, 32, 33, 100), "block_size": 32}),
        ("shared-prefix", {"requests": 2}),
        ("shared-prefix", {"common": 207, "own": 30}),
        ("kv", {"layers": 3, "kv_heads": 2, "head_size": 64}),
        ("kv", {"layers": 30, "kv_heads": 3, "head_size": 64, "block_size": 7}),
        ("kv", {"pool_mib": 0.0}),
    ],
)
def test_our_engine_has_the_values_of_the_derivation(name, changed):
    values = inputs(name, **changed)
    computed = results(EXAMPLES[name].run(**values))
    measured = measure(name, values)
    assert len(measured) >= 2
    assert measured == pytest.approx({key: computed[key] for key in measured})


def test_measured_values_stand_beside_the_computed_ones():
    shown = run("rounds", "--measure")
    assert shown.count("✓ 5 rounds") == 2  # rounds of continuous, wait of static
    assert "✕" not in shown
    assert json.loads(run("repeat", "--measure", "--json"))["measured"]["cached_65"] == 64


def test_every_line_of_the_kv_pool_is_measured_on_our_engine():
    shown = run("kv", "--preset", "smollm2-135m", "--measure")
    for text in ("✓ 182 blocks", "✓ 2,912 tokens", "✓ 181 blocks", "✓ 2,896 tokens"):
        assert text in " ".join(shown.split())
    assert "–" not in shown, "a dash says that our engine has no such value"
    tiny = measure("kv", inputs("kv", pool_mib=0.5))
    assert set(tiny) == {"token", "block"}, "a pool that holds no request is none of our engine's"


def test_a_layout_that_does_not_fit_is_said():
    args = ("layouts", "--weights-gib", "100", "--card-gib", "60", "--cards", "4")
    assert "do not fit" in run(*args)
    assert "放不下权重" in run(*args, "--lang", "zh")
    assert "do not fit" not in run("layouts")


def test_what_our_engine_does_not_have_is_said():
    assert "No value of our engine" in run("fleet", "--measure")
    assert "我们的引擎" in run("fleet", "--measure", "--lang", "zh")
    assert measure("fleet", inputs("fleet")) == {}
