"""What README claims is what the commands say."""

import re
from pathlib import Path

from click.testing import CliRunner

from workbench.conformance.command import conformance

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_table_of_equality_is_the_commands_own_output():
    result = CliRunner().invoke(conformance, [str(ROOT / "tests/golden"), "--markdown"])
    assert result.exit_code == 0
    found = re.search(r"<!-- equal:begin -->\n(.*)\n<!-- equal:end -->", README, re.S)
    assert found is not None
    assert found[1] == result.output.rstrip()


def test_every_path_that_readme_names_exists():
    tree = re.search(r"^engine/ .*?^```", README, re.S | re.M)
    assert tree is not None
    folder = ""
    for line in tree[0].splitlines()[:-1]:
        name = line.split()[0].rstrip(",")
        if not line.startswith(" "):
            folder = "" if "/" in name.rstrip("/") else name
            assert (ROOT / name).exists(), name
        else:
            assert (ROOT / folder / name).exists(), (folder, name)
