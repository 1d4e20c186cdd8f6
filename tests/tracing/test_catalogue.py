import re
import tomllib
from pathlib import Path

import tracing
from tracing.codes import Code

CATALOGUE = tomllib.loads((Path(tracing.__file__).parent / "reasons.toml").read_text())
KINDS = {
    *("row", "cut", "skip", "stop", "order", "victim", "kv", "node", "lookup", "miss", "end"),
    *("fault", "control"),
}


def test_codes_and_catalogue_name_the_same_numbers() -> None:
    assert {name: reason["code"] for name, reason in CATALOGUE.items()} == {c.name: c for c in Code}


def test_each_kind_of_reason_has_its_hundred() -> None:
    hundreds: dict[int, set[str]] = {}
    for reason in CATALOGUE.values():
        assert reason["kind"] in KINDS
        hundreds.setdefault(reason["code"] // 100, set()).add(reason["kind"])
    assert hundreds[1] == {"row"}
    assert hundreds[8] == {"end"}
    assert hundreds[6] == {"kv", "node"}


def test_both_languages_use_the_same_placeholders_and_only_ones_that_exist() -> None:
    for name, reason in CATALOGUE.items():
        used = [set(re.findall(r"\{(\w+)\}", reason[language])) for language in ("en", "zh")]
        assert used[0] == used[1], name
        numbered = {f"a{i}" for i in range(len(reason["args"]))}
        assert used[0] <= numbered | {"req", "oth"}, name
        assert len(reason["args"]) <= 4, name
