"""Numbers as people write them: a decimal, or a quotient of two."""

from __future__ import annotations

import pytest

from lipcert.files.tables import number, quotient


@pytest.mark.parametrize(("text", "value"), [("0.1", 0.1), ("8/255", 8 / 255), (" 1e-3/2 ", 5e-4), ("-1/4", -0.25)])
def test_a_number_is_a_decimal_or_a_quotient(text: str, value: float) -> None:
    assert number(text) == value


def test_both_parts_of_a_quotient_are_kept() -> None:
    assert quotient("8/255") == (8.0, 255.0)


@pytest.mark.parametrize("text", ["", "/", "1/0", "1/2/3", "a/255", "8/", "folder/file.csv"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the callers name the option
        number(text)
