"""Templates against feature strings expanded by hand, edges included, and their errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import DataError, TemplateError
from trellis.features import TEMPLATE_SETS, AttributeIndex, TemplateExtractor, Templates, get_templates
from trellis.text import Sentence


def strings(text, sentence):
    return TemplateExtractor(Templates.parse(text)).strings(sentence)


def test_cells_around_the_token_and_beyond_the_edges():
    found = strings("U00:%x[-2,0]\nU01:%x[-1,0]/%x[0,0]\nU02:%x[+1,0]x%x[2,0]!", ["He", "won", "it"])
    assert found == [
        ["U00:_B-2", "U01:_B-1/He", "U02:wonxit!"],
        ["U00:_B-1", "U01:He/won", "U02:itx_B+1!"],
        ["U00:He", "U01:won/it", "U02:_B+1x_B+2!"],
    ]


def test_a_sentence_of_one_token_has_edges_on_both_sides():
    assert strings("U0:%x[-1,0]%x[0,0]%x[1,0]", ["a"]) == [["U0:_B-1a_B+1"]]


def test_an_empty_sentence_has_no_features():
    assert strings("U0:%x[0,0]", []) == []


def test_further_columns_are_numbered_after_the_tokens():
    sentence = Sentence(["He", "won"], columns={"pos": ["PRP", "VBD"], "chunk": ["NP", "VP"]})
    assert strings("U0:%x[0,1]|%x[1,2]", sentence) == [["U0:PRP|VP"], ["U0:VBD|_B+1"]]


@pytest.mark.parametrize(
    ("function", "token", "value"),
    [
        ("x", "McDonald's", "McDonald's"),
        ("lower", "McDÉ's", "mcdé's"),
        ("shape", "McDé-42", "XxXx-dd"),
        ("short", "McDonald's42", "XxXx'xd"),
        ("shape", "中3Ж", "xdX"),
        ("prefix2", "naïve", "na"),
        ("prefix3", "日本語学", "日本語"),
        ("prefix9", "abc", "abc"),
        ("suffix2", "naïvé", "vé"),
        ("suffix3", "日本語学", "本語学"),
        ("suffix9", "abc", "abc"),
        ("type", "中", "h"),
        ("type", "三", "n"),
        ("type", "7", "d"),
        ("type", "７", "d"),
        ("type", "A", "l"),
        ("type", "Ａ", "l"),
        ("type", "。", "p"),
        ("type", "A1", "m"),
        ("suffix1", "a\U0001f600", "\U0001f600"),
        ("lower", "A\ud800", "a\ud800"),
    ],
)
def test_functions_of_a_cell(function, token, value):
    assert strings(f"U:%{function}[0,0]", [token]) == [[f"U:{value}"]]


@given(st.lists(st.text(min_size=1, max_size=6), max_size=6))
def test_prefix_suffix_and_lower_agree_with_python_on_any_text(tokens):
    found = strings("U%prefix2[0,0]\nU%suffix2[0,0]\nU%lower[0,0]\nU%x[1,0]", tokens)
    single = [token.translate({}) for token in tokens]
    for t, token in enumerate(single):
        lowered = "".join(c.lower() if len(c.lower()) == 1 else "i" if c == "İ" else c for c in token)
        after = tokens[t + 1] if t + 1 < len(tokens) else "_B+1"
        assert found[t] == [f"U{token[:2]}", f"U{token[-2:]}", f"U{lowered}", f"U{after}"]


def test_functions_are_not_applied_to_the_edge():
    assert strings("U:%shape[-1,0]", ["a"]) == [["U:_B-1"]]


def test_comments_and_blank_lines_are_skipped_and_b_gives_transitions():
    templates = Templates.parse("# hello\n\nU00:%x[0,0]\n  \nB\n")
    assert [template.line for template in templates.lines] == [3]
    assert templates.transitions
    assert not Templates.parse("U00:%x[0,0]").transitions


def test_a_line_without_cells_is_a_bias():
    assert strings("U99:bias", ["a", "b"]) == [["U99:bias"], ["U99:bias"]]


def test_compiled_features_are_the_strings():
    extractor = TemplateExtractor(get_templates("ner"))
    sentences = [["The", "U.N.", "met", "met"], [], ["The"]]
    index = AttributeIndex()
    data = extractor.compile(sentences, index, grow=True)
    token = 0
    for sentence in sentences:
        for names in extractor.strings(sentence):
            found = sorted(index.name(number) for number, _ in data.token_attributes(token))
            assert found == sorted(names)
            token += 1
    assert data.tokens == token == 5
    assert index.names() == list(dict.fromkeys(index.names()))


def test_a_fixed_index_leaves_new_features_out():
    extractor = TemplateExtractor(Templates.parse("U:%x[0,0]"))
    index = AttributeIndex()
    extractor.compile([["a", "b"]], index, grow=True)
    data = extractor.compile([["b", "c"]], index, grow=False)
    assert [data.token_attributes(n) for n in range(2)] == [[(1, 1.0)], []]
    assert index.names() == ["U:a", "U:b"]


@pytest.mark.parametrize("name", TEMPLATE_SETS)
def test_ready_made_sets_can_be_read(name):
    templates = get_templates(name)
    assert templates.transitions
    assert templates.num_columns == (2 if name == "chunk" else 1)


def test_a_template_file_is_read_by_path(tmp_path):
    (tmp_path / "template").write_text("U:%x[0,0]\n", encoding="utf-8")
    assert len(get_templates(str(tmp_path / "template")).lines) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U0:%x[0,0]\nB01:%x[0]", r"line 2: cannot read '%x\[0\]'"),
        ("B01:%x[0,0]", "has no U line"),
        ("X0:%x[0,0]", r"line 1: expected a line that starts with U, B, \* or #"),
        ("U0:%x[0]", r"line 1: cannot read '%x\[0\]'"),
        ("U0:%x[0,0]%y", "line 1: cannot read '%y'"),
        ("U0:%shap[0,0]", r"line 1: unknown function %shap.*did you mean %shape\?"),
        ("U0:%prefix[0,0]", r"expected the form %prefix3\[0,0\]"),
        ("U0:%lower2[0,0]", r"expected the form %lower\[0,0\]"),
        ("U0:%x[101,0]", "looks 101 tokens away"),
        ("U0:x[0,0]", r"line 1: cannot read 'x\[0,0\]' in 'U0:x\[0,0\]': expected e.g. %x\[-1,0\]"),
        ("U0:％x[0,0]", r"line 1: cannot read '％x\[0,0\]'"),
        ("U0:%x［0，0］", "line 1: cannot read"),
        ("U0:%x[0,0]/[-1, 0]", r"line 1: cannot read '\[-1, 0\]'"),
        (b"U0:%x[0,0]", "template must be a string, got b'U0"),
        ("B", "has no U line"),
        ("", "has no U line"),
    ],
)
def test_mistakes_in_templates_name_the_line(text, message):
    with pytest.raises(TemplateError, match=message):
        Templates.parse(text)


def test_a_missing_column_names_the_template_line():
    with pytest.raises(TemplateError, match=r"line 2: .* looks at column 1, but the sentences have only 0 \(token\)"):
        strings("U0:%x[0,0]\nU1:%x[0,1]", ["a"])


def test_a_column_that_one_sentence_lacks_is_named():
    extractor = TemplateExtractor(Templates.parse("U1:%x[0,1]"))
    sentences = [Sentence(["a"], columns={"pos": ["X"]}), Sentence(["b"])]
    with pytest.raises(DataError, match="'b' has no column 'pos'"):
        extractor.compile(sentences, AttributeIndex(), grow=True)


def test_an_unknown_set_suggests_the_nearest():
    with pytest.raises(TemplateError, match=r"did you mean 'ner'\?"):
        get_templates("nr")


@pytest.mark.parametrize("bad", [["a", 3], ["a", None], ["a", b"x"]])
def test_a_token_that_is_no_string_is_named(bad):
    with pytest.raises(DataError, match="sentence 0, position 1: token must be a string, got"):
        TemplateExtractor(Templates.parse("U:%x[0,0]")).compile([bad], AttributeIndex(), grow=True)


def test_a_string_in_place_of_a_sentence_is_refused():
    with pytest.raises(DataError, match="sentence 0 must be a sequence of strings, got one string"):
        TemplateExtractor(Templates.parse("U:%x[0,0]")).compile(["ab"], AttributeIndex(), grow=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("U0:%x[0,20000000]", "looks at column 20000000, at most 999 is possible"),
        ("U0:%x[0," + "9" * 5000 + "]", "looks at column 999999999999, at most 999 is possible"),
        ("U0:%x[" + "1" * 5000 + ",0]", "looks 111111111111 tokens away, at most 100 is possible"),
        ("U0:%prefix" + "9" * 5000 + "[0,0]", "takes 999999999999 characters, at most 1000 is possible"),
        (("U0:" + "%x[0,0]" * 1000 + "\n") * 5, "x looks at 5000 cells of each token, at most 4096 are possible"),
        ("U0:%x[0,0]" + "a" * 10_000, "x, line 1 has 10010 characters, at most 10000 are possible"),
    ],
)
def test_sizes_that_no_template_needs_are_refused_in_few_words(text, message):
    """Templates come with model files, too, and memory goes with what they look at."""
    with pytest.raises(TemplateError) as found:
        Templates.parse(text, name="x")
    assert message in str(found.value)
    assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("features", "feature", "words"),
    [
        ("ner", "U21:to", 'previous word is "to"'),
        ("ner", "U00:Paris", 'word is "Paris"'),
        ("ner", "U02:Xxxxx", "shape Xxxxx"),
        ("ner", "U08:don", "suffix -don"),
        ("ner", "U04:Lo", "prefix Lo-"),
        ("ner", "U23:who", 'word 2 after is "who"'),
        ("ner", "U30:in/paris", 'previous word is "in" and word in lower case is "paris"'),
        ("ner", "U21:_B-1", "first word"),
        ("ner", "U20:_B-1", "second word"),
        ("ner", "U23:_B+1", "last word but 1"),
        ("seg", "U20:d", "kind digit"),
        ("seg", "U01:人", 'previous character is "人"'),
        ("chunk", "U11:DT", 'column 1 of the previous word is "DT"'),
        ("ner", "something else", "something else"),
    ],
)
def test_features_are_said_in_words(features, feature, words):
    assert get_templates(features).words(feature) == words


@pytest.mark.parametrize("features", ["ner", "pos", "seg"])
def test_every_feature_of_a_sentence_has_words(features):
    templates = get_templates(features, clusters=False)
    names = TemplateExtractor(templates).strings(["Ada", "of/by", "1", "_B-1x"])
    assert names is not None
    assert all(templates.words(name) != name for token in names for name in token)
