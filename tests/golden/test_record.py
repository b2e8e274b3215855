"""What the product makes is what was recorded; `record.py` says how it is recorded."""

from pathlib import Path

import pytest
from record import SECTIONS, differences


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_golden_record(section: str, tmp_path: Path) -> None:
    assert differences(section, tmp_path) == []
