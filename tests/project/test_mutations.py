"""Every mutation and its tests exist in the source. `tests/support/mutations.py` applies them, slowly."""

from pathlib import Path

import pytest
from mutation_table import MUTATIONS, Mutation

HOME = Path(__file__).parents[2]


@pytest.mark.parametrize("one", MUTATIONS, ids=lambda one: one.name)
def test_a_mutation_matches_one_line(one: Mutation) -> None:
    text = (HOME / "pipeline" / one.file).read_text()
    assert text.count(one.right) == 1
    assert one.right != one.wrong
    for test in one.tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (HOME / "tests" / file).read_text()


def test_the_table_in_contributing_lists_all_mutations() -> None:
    table = (HOME / "CONTRIBUTING.md").read_text().partition("## Do the tests notice?")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| ") and not row.startswith("| broken")]
    assert [(name[2:], file) for name, file, _ in rows] == [(one.name, f"`{Path(one.file).name}`") for one in MUTATIONS]
