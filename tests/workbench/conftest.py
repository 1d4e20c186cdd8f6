"""The screens are still being built: tests that drive a browser or a terminal run with the slow ones."""

from pathlib import Path

import pytest

SCREENS = [Path(__file__).parent / name for name in ("tui", "web")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in SCREENS):
            item.add_marker(pytest.mark.slow)
