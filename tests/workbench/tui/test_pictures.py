"""Every screen as a picture, compared with the one that was looked at and found good.

A picture differs? Look at both (the new one is named in the failure), then say so:
CUTAWAY_UPDATE_SNAPSHOTS=1 pytest tests/workbench/tui/test_pictures.py
"""

import difflib
import html
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.tui.conftest import drive, top
from workbench.tui.svg import put_right

FOLDER = Path(__file__).parent / "snapshots"
SMALL, MIDDLE, LARGE = (80, 24), (120, 36), (200, 60)
PICTURES: dict[str, tuple[tuple[int, int], list[str], dict[str, Any]]] = {
    "overview-80x24": (SMALL, ["1"], {}),
    "overview-80x24-zh": (SMALL, ["1"], {"lang": "zh"}),
    "overview-80x24-mono-ascii": (SMALL, ["1"], {"theme": "mono", "ascii_only": True}),
    "overview-120x36-light": (MIDDLE, ["1"], {"theme": "light"}),
    "overview-200x60": (LARGE, ["1"], {}),
    "batch-80x24": (SMALL, ["2", "down"], {}),
    "batch-80x24-zh": (SMALL, ["2", "down"], {"lang": "zh"}),
    "blocks-80x24": (SMALL, ["3"], {}),
    "blocks-120x36-safe": (MIDDLE, ["3", "right", "right"], {"theme": "safe"}),
    "requests-80x24": (SMALL, ["4", "down", "down"], {}),
    "requests-80x24-zh": (SMALL, ["4", "down", "down"], {"lang": "zh"}),
    "request-120x36": (MIDDLE, ["4", "enter", "up"], {}),
    "decisions-80x24": (SMALL, ["6", "up", "up"], {}),
    "decisions-80x24-contrast": (SMALL, ["6", "up", "up"], {"theme": "contrast"}),
    "help-80x24": (SMALL, ["question_mark"], {}),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_screen_looks_as_it_did(name: str, run_dir: Path, tmp_path: Path) -> None:
    size, keys, look = PICTURES[name]
    seen: list[str] = []

    async def main() -> None:
        async with top(run_dir, size, **look) as t:
            await t.press(*keys)
            seen.append(normalise(t.app.export_screenshot()))

    drive(main)
    kept = FOLDER / f"{name}.svg"
    if os.environ.get("CUTAWAY_UPDATE_SNAPSHOTS"):
        kept.write_text(seen[0])
    expected = kept.read_text()
    if seen[0] != expected:
        new = tmp_path / kept.name
        new.write_text(seen[0])
        lines = difflib.unified_diff(rows_of(expected), rows_of(seen[0]), lineterm="", n=0)
        said = "\n".join(list(lines)[:40]) or "only shapes or colours differ"
        pytest.fail(f"{new} differs from {kept}:\n{said}", pytrace=False)


def test_blocks_become_shapes_and_chinese_gets_its_room() -> None:
    text = '<text class="a" x="12.2" y="43" textLength="{}" clip-path="c">{}</text>'
    seen = put_right(text.format("61", "r&lt;██▄"))
    shapes = re.findall(r'<rect class="a" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', seen)
    assert shapes == [("36.6", "24.5", "24.4", "24.4"), ("61", "36.7", "12.2", "12.2")]
    assert seen.endswith('textLength="61" clip-path="c">r&lt;&#160;&#160;&#160;</text>')
    assert put_right(text.format("36.6", "预填充")) == text.format("73.2", "预填充")
    assert put_right(text.format("24.4", "▌▌")).count('width="6.1"') == 2
    assert "<text" not in put_right(text.format("24.4", "▅▅"))


def normalise(svg: str) -> str:
    """The picture without the exporter's random names."""
    names = sorted(set(re.findall(r"terminal-\d+", svg)))
    assert len(names) == 1, "one picture, one name"
    return svg.replace(names[0], "terminal")


def rows_of(svg: str) -> list[str]:
    """The text of a picture, line by line."""
    lines: dict[float, str] = {}
    for y, text in re.findall(r'<text class="[^"]*" x="[^"]*" y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        lines[float(y)] = lines.get(float(y), "") + html.unescape(text).replace("\xa0", " ")
    return [lines[y] for y in sorted(lines)]
