"""Numbers with what they count."""

from trellis.counts import number_of


def test_one_is_singular_and_thousands_have_commas():
    assert [number_of(count, "token") for count in (0, 1, 2, 12_345)] == [
        "0 tokens",
        "1 token",
        "2 tokens",
        "12,345 tokens",
    ]
    assert [number_of(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]
