"""What each format holds beyond the round trip, and how it is told from name and content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis import corpus
from trellis.corpus import Corpus
from trellis.errors import DataError
from trellis.text import Sentence

UD = """\
# newdoc
# text = Dámelo ya, eh
1-2\tDámelo\t_\t_\t_\t_\t_\t_\t_\t_
1\tDa\tdar\tVERB\tV\t_\t0\troot\t_\t_
2\tmelo\tyo\tPRON\tP\t_\t1\tobj\t_\t_
2.1\tnada\t_\t_\t_\t_\t_\t_\t_\t_
3\tya\tya\tADV\tR\t_\t1\tadvmod\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\tF\t_\t1\tpunct\t_\t_
5\teh\teh\tINTJ\tI\t_\t1\tdiscourse\t_\t_
"""


def read(folder: Path, content: str, name: str = "file", **options: Any) -> Corpus:
    path = folder / name
    path.write_bytes(content.encode())
    return corpus.read(path, **options)


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.conll", "a\tO\n", "conll"),
        ("a.conll", "a\n", "conll"),
        ("a.conll", "a b/c\n", "conll"),
        ("a.conll.txt", "a O\nb O\n\nc O\n", "conll"),
        ("a.conll", UD, "conllu"),
        ("a.txt", UD, "conllu"),
        ("a.conllu", "", "conllu"),
        ("a", "a\tX\tO\n", "conll"),
        ("a", "-DOCSTART- -X- O\n\na X O\nb X O\n\n", "conll"),
        ("a", "a O\nb B-PER\n", "conll"),
        ("a.tsv", '{"\tO\n', "conll"),
        ("a.txt", "[\tO\n", "conll"),
        ("a.txt", "a b\nc d e\n", "segmented"),
        ("a.txt", "a b\n\nc d e\n", "segmented"),
        ("a.txt", "我们\u3000在\n玩\n", "segmented"),
        ("a.seg", "a/b c/d\n", "segmented"),
        ("a.txt", "a/X b/Y\n1/2/CD c/Z\n", "wordtag"),
        ("a.txt", "a/X b\n", "segmented"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n', "jsonl"),
        ("a.json", '[{"tokens": ["a"], "tags": ["O"]}]', "jsonl"),
        ("a", '\n{"tokens": ["a"], "tags": ["O"]}\n', "jsonl"),
        ("a.jsonl", '{"text": "a", "label": []}\n', "spans"),
        ("a.jsonl", '["a", {"entities": []}]\n', "spans"),
        ("a.json", '[\n  {"id": 1, "data": {"text": "a"}, "annotations": []}\n]', "spans"),
        ("a.json", "[]", "jsonl"),
        ("a.csv", "Sentence #,Word,POS,Tag\n", "csv"),
        ("a.txt", "word;tag\nAda;O\n", "csv"),
        ("a.tsv", "token\tlabel\nAda\tO\n", "csv"),
        ("a", "sep=;\nsentence_id;token\n1;Ada\n", "csv"),
        ("a.csv", "Ada\tO\nBob\tO\n", "conll"),
        ("a", "", "conll"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*words of a segmentation")
def test_the_format_is_told_from_name_and_content(tmp_path: Path, name: str, content: str, format: str) -> None:
    read_back = read(tmp_path, content, name)
    assert read_back.format == format
    assert read_back.report.reason


def test_a_given_format_is_not_doubted(tmp_path: Path) -> None:
    given = read(tmp_path, "a/X b/Y\n", "a.txt", format="conll")
    assert (given.format, given.report.reason) == ("conll", "it was asked for")
    assert given.sentences == [Sentence(["a/X"], ["b/Y"])]


def test_a_file_to_write_needs_a_name_that_tells_or_a_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the name tells no format"):
        corpus.write(tmp_path / "a.txt", [])
    assert corpus.write(tmp_path / "a.txt", [], format="wordtag") == 0


def test_conll_tells_comments_from_tokens(tmp_path: Path) -> None:
    content = "# sent_id = 1\n#\tO\n#tag\tO\n# \tO\n\n# only a comment\n\nb\tO\n"
    found = read(tmp_path, content, format="conll")
    assert [sentence.tokens for sentence in found] == [("#", "#tag", "# "), ("b",)]
    assert found.sentences[0].lines == [2, 3, 4]
    assert found.report.ignored == {"comments": 2}


def test_conll_comment_prefix_takes_every_such_line(tmp_path: Path) -> None:
    found = read(tmp_path, "%% x\na O\n%% y z\nb % O\n".replace(" % ", " "), format="conll", comment="%%")
    assert [sentence.tokens for sentence in found] == [("a", "b")]
    assert found.report.ignored == {"comments": 2}


def test_conll_document_marks_of_any_width_are_passed_over(tmp_path: Path) -> None:
    content = "-DOCSTART-\n\na X O\n\n-DOCSTART- -X- O\nb X O\n\n-DOCSTART-x X O\n"
    found = read(tmp_path, content, format="conll")
    assert [sentence.tokens for sentence in found] == [("a",), ("b",), ("-DOCSTART-x",)]
    assert [sentence.line_of(0) for sentence in found] == [3, 6, 8]
    assert found.report.ignored == {"document marks": 2}


def test_conll_runs_of_spaces_and_edges_count_once(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, "  a  \t X O \nb X   O\n", format="conll", separator="space")
    assert sentence == Sentence(["a", "b"], ["O", "O"], columns={"1": ["X", "X"]})


def test_conll_columns_are_chosen_by_index_and_name(tmp_path: Path) -> None:
    content = "1\ta\tX\tO\t\n2\tb\tY\tO\t\n"
    (by_index,) = read(tmp_path, content, format="conll", tokens=1, tags=2)
    assert by_index == Sentence(["a", "b"], ["X", "Y"], columns={"0": ["1", "2"], "3": ["O", "O"], "4": ["", ""]})
    names = ["id", "word", "pos", "ner", "nothing"]
    (by_name,) = read(tmp_path, content, format="conll", columns=names, tokens="word", tags="ner")
    assert by_name.tags == ("O", "O")
    assert set(by_name.columns) == {"id", "pos", "nothing"}
    (untagged,) = read(tmp_path, content, format="conll", tokens=1, tags=None)
    assert untagged.tags is None


@pytest.mark.parametrize(
    ("content", "problem", "options"),
    [
        ("Word Tag\nIda B-PER\n", ":1: .* found a header: remove this line", {}),
        ("sentence_id word label\n0 Ida B-PER\n", ":1: .* found a header", {}),
        ("a b c\nIda NNP B-PER\n", ":1: .* found a header", {"columns": ["a", "b", "c"]}),
        ("T1\tPER 0 3\tIda\nT2\tLOC 4 6;8 9\tRome\n", ":1: .* an annotation of brat", {}),
    ],
)
def test_conll_refuses_tables_of_other_kinds(
    tmp_path: Path, content: str, problem: str, options: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match=problem):
        read(tmp_path, content, "file.conll", **options)


def test_conll_words_that_headers_have_are_tokens_elsewhere(tmp_path: Path) -> None:
    found = read(tmp_path, "Word\tO\ntag\tO\n\nWord\tTag\n", "file.conll")
    assert [sentence.tokens for sentence in found] == [("Word", "tag"), ("Word",)]


def test_conll_equal_tags_are_one_string_in_memory(tmp_path: Path) -> None:
    one, two = read(tmp_path, "a\tB-X\n\nb\tB-X\n", format="conll")
    assert one.tags is not None
    assert two.tags is not None
    assert one.tags[0] is two.tags[0]


def test_conllu_passes_over_ranges_and_empty_nodes(tmp_path: Path) -> None:
    found = read(tmp_path, UD, "a.conllu")
    (sentence,) = found
    assert sentence.tokens == ("Da", "melo", "ya", ",", "eh")
    assert sentence.tags == ("VERB", "PRON", "ADV", "PUNCT", "INTJ")
    assert sentence.columns["lemma"] == ("dar", "yo", "ya", ",", "eh")
    assert sentence.lines == [4, 5, 7, 8, 9]
    assert found.report.ignored == {"comments": 2, "multiword tokens": 1, "empty nodes": 1}


def test_conllu_words_that_do_not_spell_the_text_have_no_offsets(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, UD, "a.conllu")
    assert sentence.text == "Dámelo ya, eh"
    assert sentence.offsets is None
    (more,) = read(tmp_path, UD.replace("Dámelo ya", "Da-melo ya"), "a.conllu")
    assert more.offsets is None
    (spelled,) = read(tmp_path, UD.replace("Dámelo ya", "Damelo ya"), "a.conllu")
    assert spelled.offsets == ((0, 2), (2, 6), (7, 9), (9, 10), (11, 13))


def test_conllu_other_tags_and_segmentation(tmp_path: Path) -> None:
    (xpos,) = read(tmp_path, UD, "a.conllu", tags="xpos", columns=["upos"])
    assert xpos.tags == ("V", "P", "R", "F", "I")
    assert list(xpos.columns) == ["upos"]
    (characters,) = read(tmp_path, UD, "a.conllu", tags="form")
    assert characters.text == "Dameloya,eh"
    assert "".join(characters.tags or ()) == "BEBMMEBESBE"
    assert corpus.words_from_sentence(characters) == ["Da", "melo", "ya", ",", "eh"]


def test_segmented_lines_keep_their_numbers_when_blank(tmp_path: Path) -> None:
    found = read(tmp_path, " 我们  在\u3000\u3000玩\t好 \n\n\u3000\n大\n", format="segmented", unit="words")
    assert [sentence.tokens for sentence in found] == [("我们", "在", "玩", "好"), (), (), ("大",)]
    assert [sentence.line_of(0) for sentence in found] == [1, 2, 3, 4]


def test_wordtag_splits_at_the_last_delimiter(tmp_path: Path) -> None:
    (sentence,) = read(tmp_path, "1/2/CD\u3000//SYM  a/b/NN\n", format="wordtag")
    assert sentence == Sentence(["1/2", "/", "a/b"], ["CD", "SYM", "NN"])
    (sentence,) = read(tmp_path, "a_X b_Y\n", format="wordtag", delimiter="_")
    assert sentence == Sentence(["a", "b"], ["X", "Y"])


@pytest.mark.parametrize(
    "record",
    [
        '{"text": "Ada in Ulm", "label": [[0, 3, "PER"], [7, 10, "LOC"]]}',
        '{"id": 1, "text": "Ada in Ulm", "labels": [[7, 10, "LOC"], [0, 3, "PER"]]}',
        '{"text": "Ada in Ulm", "entities": [{"id": 4, "start_offset": 0, "end_offset": 3, "label": "PER"},'
        ' {"id": 5, "start_offset": 7, "end_offset": 10, "label": "LOC"}], "relations": []}',
        '{"text": "Ada in Ulm", "spans": [{"start": 0, "end": 3, "label": "PER"},'
        ' {"start": 7, "end": 10, "label": "LOC", "token_start": 2}]}',
        '["Ada in Ulm", {"entities": [[0, 3, "PER"], [7, 10, "LOC"]]}]',
        '{"text": "Ada in Ulm", "label": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]},'
        ' {"start": 7, "end": 10, "text": "Ulm", "labels": ["LOC"]}]}',
        '{"id": 3, "data": {"text": "Ada in Ulm"}, "annotations": [{"was_cancelled": true, "result": []},'
        ' {"result": [{"type": "labels", "value": {"start": 0, "end": 3, "labels": ["PER"]}},'
        ' {"type": "choices", "value": {"choices": ["x"]}},'
        ' {"type": "labels", "value": {"start": 6, "end": 10, "labels": ["LOC"]}}]}]}',
        '[\n {"data": {"body": "Ada in Ulm"}, "annotations": [{"result": [{"value": {"start": 0, "end": 3,'
        ' "labels": ["PER"]}}, {"value": {"start": 7, "end": 10, "labels": ["LOC"]}}]}]}\n]',
    ],
)
def test_spans_of_every_shape(tmp_path: Path, record: str) -> None:
    (sentence,) = read(tmp_path, f"{record}\n", "a.jsonl", format="spans")
    assert sentence.tokens == ("Ada", "in", "Ulm")
    assert sentence.tags == ("B-PER", "O", "B-LOC")
    assert sentence.offsets == ((0, 3), (4, 6), (7, 10))
    (bioes,) = read(tmp_path, f"{record}\n", "a.jsonl", format="spans", scheme="BIOES")
    assert bioes.tags == ("S-PER", "O", "S-LOC")


def test_spans_of_an_array_over_many_lines_know_their_lines(tmp_path: Path) -> None:
    found = read(tmp_path, '[\n{"text": "a"},\n{"text":\n"b"}\n,\n{"text": "c"}\n]\n', "a.json")
    assert [(sentence.tokens, sentence.line_of(0)) for sentence in found] == [(("a",), 2), (("b",), 3), (("c",), 6)]


def test_a_finer_tokenizer_settles_a_span_that_cuts_a_word(tmp_path: Path) -> None:
    record = '{"text": "Covid19 x", "label": [[0, 5, "D"]]}\n'
    with pytest.raises(DataError, match="cuts the token 'Covid19'"):
        read(tmp_path, record, "a.jsonl", align="error")
    (sentence,) = read(tmp_path, record, "a.jsonl", tokenizer="characters", align="error")
    assert sentence.tags == ("B-D", "I-D", "I-D", "I-D", "I-D", "O", "O", "O")


def test_jsonl_finds_the_usual_fields_and_spells_ids(tmp_path: Path) -> None:
    record = '{"id": "7", "tokens": ["a", "b"], "pos_tags": ["X", "Y"], "ner_tags": [1, 0], "n": [1, 2]}\n'
    (sentence,) = read(tmp_path, record, "a.jsonl", names=["O", "B-X"])
    assert sentence == Sentence(["a", "b"], ["B-X", "O"], columns={"pos_tags": ["X", "Y"]})
    (other,) = read(tmp_path, record, "a.jsonl", tokens="pos_tags", tags="tokens")
    assert (other.tokens, other.tags) == (("X", "Y"), ("a", "b"))


@pytest.mark.parametrize(
    ("format", "sentence", "options", "message"),
    [
        ("conll", Sentence(["a\tb"], ["O"]), {}, "'a\\tb' cannot be a column: it is empty or holds a separator"),
        ("conll", Sentence(["a b"], ["O"]), {"separator": "space"}, "'a b' cannot be a column"),
        ("conll", Sentence(["a b"]), {}, "'a b' cannot be a column"),
        ("conll", Sentence(["a"], [""]), {}, "'' cannot be a column"),
        ("conll", Sentence(["a\r"], ["O"]), {}, "'a\\r' cannot be a column"),
        ("conll", Sentence(["-DOCSTART-"], ["O"]), {}, "the token -DOCSTART- would be read as a document mark"),
        ("conll", Sentence(["\ud800"], ["O"]), {}, "sentence 1 cannot be written as utf-8: surrogates not allowed"),
        ("conll", Sentence(["好"], ["O"]), {"encoding": "ascii"}, "sentence 1 cannot be written as ascii"),
        ("conllu", Sentence(["a"], columns={"ner": ["O"]}), {}, "CoNLL-U has no column 'ner'; it has id, form"),
        ("conllu", Sentence(["a"], text="a\n"), {}, "a text with a line break cannot be written as CoNLL-U"),
        ("jsonl", Sentence(["a"], columns={"text": ["O"]}), {}, "a column named 'text' would hide the field"),
        ("spans", Sentence(["a"], ["I-X"]), {}, "the tags are not legal IOB2: I-X must follow B-X or I-X, not O"),
        ("spans", Sentence(["a"], ["O"]), {"shape": "x"}, "unknown shape 'x', expected one of label, entities"),
        ("segmented", Sentence(["a b"]), {}, "'a b' cannot be a word on a line"),
        ("segmented", Sentence(["a", "b"], ["B", "B"]), {}, "the tags are not legal BMES: B must be followed by"),
        ("wordtag", Sentence(["a"]), {}, "a sentence without tags cannot be written as word/TAG"),
        ("wordtag", Sentence(["a"], ["X/Y"]), {}, "the tag 'X/Y' holds the delimiter '/'"),
        ("wordtag", Sentence(["a"], ["X"]), {"scheme": "x"}, "writing wordtag knows no option 'scheme', only delim"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    tmp_path: Path, format: str, sentence: Sentence, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError) as caught:
        corpus.write(tmp_path / "f", [sentence], format=format, **options)
    assert message in str(caught.value)
