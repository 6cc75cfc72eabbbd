"""Tables with a header, as spreadsheets and Kaggle have them: where sentences begin, and which column is what."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pandas
import polars
import pyarrow
import pytest

from trellis import HMM, corpus
from trellis.corpus import from_rows
from trellis.errors import DataError, DataWarning
from trellis.text import Sentence

ADA = [(("Ada", "slept"), ("B-PER", "O")), (("London",), ("B-LOC",))]
"""What most of the files hold."""


def read(folder: Path, content: str | bytes, name: str = "a.csv", **options: Any) -> list[Any]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(one.tokens, one.tags) for one in corpus.read(folder / name, **options)]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n,slept,VBD,O\nSentence: 2,London,NNP,B-LOC\n", {}),
        ("sentence_id,token,label\n1,Ada,B-PER\n1,slept,O\n2,London,B-LOC\n", {}),
        ("token;tag\r\nAda;B-PER\r\nslept;O\r\n;\r\nLondon;B-LOC\r\n", {}),
        ("word\ttag\nAda\tB-PER\nslept\tO\n\nLondon\tB-LOC\n", {}),
        ("word_id|word|tag\n1|Ada|B-PER\n2|slept|O\n1|London|B-LOC\n", {}),
        ("sep=;\nsent;word;ner\n1;Ada;B-PER\n1;slept;O\n2;London;B-LOC\n", {}),
        ('"Sentence ID", "Word", "NER"\n"1", "Ada", "B-PER"\n"1", "slept", "O"\n"2", "London", "B-LOC"\n', {}),
        ("\ufeff句子,词,标签\n1,Ada,B-PER\n1,slept,O\n2,London,B-LOC\n", {}),
        ("no,word,ner\n1,Ada,B-PER\n,slept,O\n2,London,B-LOC\n", {"columns": ["sentence", "token", "tag"]}),
        ("1,Ada,B-PER\n1,slept,O\n2,London,B-LOC\n", {"columns": ["sentence", "token", "tag"]}),
        ("a,Ada,B-PER\na,slept,O\nb,London,B-LOC\n", {"columns": ["sentence", "token", "tag"]}),
        ("nr,form_x,klasse\n1,Ada,B-PER\n1,slept,O\n2,London,B-LOC\n", {"columns": ["sentence", "token", "tag"]}),
        ("x,y,sentence\nB-PER,Ada,1\nO,slept,1\nB-LOC,London,2\n", {"tokens": "y", "tags": "x"}),
        ("x,y,sentence\nB-PER,Ada,1\nO,slept,1\nB-LOC,London,2\n", {"tokens": 1, "tags": 0}),
        ("sentence,word,tag\n1,Ada,1\n1,slept,0\n2,London,2\n", {"names": ["O", "B-PER", "B-LOC"]}),
        ('sentence,word_labels\nAda slept,"B-PER,O"\nLondon,B-LOC\n', {}),
        ("Sentence #,Sentence,Tag\n1,Ada slept,\"['B-PER', 'O']\"\n2,London,['B-LOC']\n", {}),
        ('tokens,ner_tags\n"[""Ada"", ""slept""]",[1 0]\n"[\'London\']",[2]\n', {"names": ["O", "B-PER", "B-LOC"]}),
    ],
)
def test_a_table_is_read_as_the_sentences_that_it_shows(tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    assert read(tmp_path, content, **options) == ADA


def test_cells_of_other_encodings_are_read_or_the_encoding_is_named(tmp_path: Path) -> None:
    content = "satz;wort;tag\n1;Müller;B-PER\n1;grüßte;O\n2;Jürgen;B-PER\n".encode("cp1252")
    options = {"tokens": "wort"}
    assert read(tmp_path, content, encoding="cp1252", **options)[0] == (("Müller", "grüßte"), ("B-PER", "O"))
    with pytest.raises(DataError, match=r"a\.csv:2: expected text in utf-8, .* cp1252: --encoding cp1252"):
        read(tmp_path, content, **options)


def test_quotation_marks_and_missing_values_are_words(tmp_path: Path) -> None:
    content = 'sentence,word,tag\n1,"""",O\n1,",",O\n1,null,O\n1,NA,O\n'
    assert read(tmp_path, content) == [(('"', ",", "null", "NA"), ("O",) * 4)]
    assert read(tmp_path, 'word\ttag\n"\tO\nAda\tB-PER\n', "a.tsv") == [(('"', "Ada"), ("O", "B-PER"))]


def test_further_columns_lines_and_names_of_sentences_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Sentence #,Word,POS,Tag,\nx,Ada,NNP,B-PER,\n,slept,VBD,O,\n")
    (sentence,) = corpus.read(path)
    assert sentence == Sentence(["Ada", "slept"], ["B-PER", "O"], columns={"POS": ["NNP", "VBD"]})
    assert [sentence.line_of(i) for i in range(2)] == [2, 3]
    corpus.write(tmp_path / "b.csv", [sentence])
    assert (tmp_path / "b.csv").read_text() == "sentence,token,POS,tag\nx,Ada,NNP,B-PER\nx,slept,VBD,O\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            "a,b\nAda,O\n",
            r"a\.csv:1: expected the name of a column of tokens .*, found 'a', 'b'; .*--columns token,tag",
        ),
        ("Satz,Wort,Etikett\n1,Ada,O\n", r":1: expected the name of a column of tokens .* found 'Satz', 'Wort'"),
        (
            "text,label\nI love it,pos\nI hate it,neg\n",
            r":1: expected a token per row, .* found 'I love it' with 'pos'",
        ),
        ("id,text\n1,I love it.\n", r":1: expected a token per row, .* found 'I love it\.'"),
        ("text,start,end,label\nAda slept,0,3,PER\n", r"found 'Ada slept' with 'PER'; spans are read from JSON Lines"),
        ("word,tag,x\nAda,O\n", r"a\.csv:2: expected 3 cells as in the first row, found 2: 'Ada,O'"),
        ("sentence,word,tag\n1,Ada,\n", r"a\.csv:2: expected a tag in the column 'tag', found an empty cell"),
        ("sentence,word,tag\n1,,O\n", r"a\.csv:2: expected a token in the column 'word', found an empty cell"),
        ('word,tag\nAda,O\n"b,O\nc,O\n', r"a\.csv:3: expected a closing quotation mark, found the end of the file"),
        ('word,tag\n"b,O\nc"d,O\n', r"a\.csv:2: expected a cell whose quotation marks are closed"),
        ('word,tag\n"b\nc",O\n', r"a\.csv:2: expected a token, found a cell of several lines"),
        (
            "tokens,tags\na b c,O O O\na b,O O\na b,O\n",
            r"a\.csv:4: expected as many tags as words, found 1 in 'tags' and 2",
        ),
        ("word,tag,tag\nAda,O,O\n", r"a\.csv:1: expected columns of different names, found two named 'tag'"),
        ("word,tag\n" + "Ada,O\n" * 201, r"expected a column that names the sentences .* found 201 rows"),
    ],
)
def test_what_a_table_lacks_is_named_with_its_line(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read(tmp_path, content)


def test_plain_tags_below_a_header_of_other_names_are_told_from_it_by_the_numbers_of_sentences(tmp_path: Path) -> None:
    content, columns = "nr,form_x,art\nS1,Ada,NNP\nS1,slept,VBD\n", ["sentence", "token", "pos"]
    assert read(tmp_path, content, columns=columns) == [(("Ada", "slept"), ("NNP", "VBD"))]
    assert len(read(tmp_path, content.replace("nr", "S0"), columns=columns)) == 2
    assert read(tmp_path, "Ada,PER\nslept,O\nwell,O\n", columns=["token", "tag"])[0][0] == ("Ada", "slept", "well")


def test_a_table_whose_sentences_nothing_divides_is_to_be_renamed() -> None:
    rows = pandas.DataFrame({"nr": range(201), "word": ["a"] * 201, "tag": ["O"] * 201})
    with pytest.raises(DataError, match="found 201 rows that nothing divides; rename the column that divides them to"):
        list(from_rows(rows))


def test_a_bad_row_costs_its_sentence_only(tmp_path: Path) -> None:
    content = "sentence,word,tag\n1,a,O\n1,b\n1,c,O\n2,d,O\n3,,O\n4,e,O\n"
    assert read(tmp_path, content, on_error="skip") == [(("d",), ("O",)), (("e",), ("O",))]


def test_columns_that_were_chosen_and_names_that_come_again_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("sent_id,word,ner,label\n1,a,O,X\n1,b,O,X\n2,c,O,Y\n1,d,O,Y\n")
    found = corpus.read(path)
    assert found.report.reason.endswith("; tokens in word, tags in label, sentences in sent_id")
    assert found.report.notes()[0].endswith("are the rows of sentences not together?): 1")
    assert found.report.notes()[1:] == [f"  {path}:5: 1"]
    with pytest.warns(DataWarning, match=r"^sentences with the name of an earlier one .*: 1, row 2: 1$"):
        assert (
            len(list(from_rows(pandas.DataFrame({"sentence": [1, 2, 1], "word": ["a", "b", "c"], "tag": ["O"] * 3}))))
            == 3
        )


def test_the_index_of_a_table_may_name_the_sentences() -> None:
    rows = pandas.DataFrame({"sentence": [1, 1, 2], "word": ["Ada", "slept", "London"], "tag": ["B-PER", "O", "B-LOC"]})
    assert [(one.tokens, one.tags) for one in from_rows(rows.set_index("sentence"))] == ADA
    assert [(one.tokens, one.tags) for one in from_rows(rows.groupby("sentence").agg(list))] == ADA


def test_a_table_is_learned_from_tagged_and_evaluated_like_sentences() -> None:
    rows = pandas.DataFrame({"sentence": [1, 1, 2], "word": ["Ada", "slept", "London"], "tag": ["B-PER", "O", "B-LOC"]})
    tagger = HMM().fit(rows)
    assert tagger.predict(rows) == [["B-PER", "O"], ["B-LOC"]]
    assert [one.tokens for one in tagger.tag(rows)] == [tokens for tokens, _ in ADA]
    assert [one.text for one in tagger(rows)] == ["Ada slept", "London"]
    assert tagger.evaluate(rows).micro.f1 == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("train.csv", r"put it into a list; of a file, trellis\.corpus\.read\(path\)"),
        (Path("train.csv"), r"Path: put it into a list; of a file, trellis\.corpus\.read\(path\)"),
        ({"tokens": [["a"]], "tags": [["O"]]}, r"found a mapping of 'tokens', 'tags'"),
        ([{"tokens": ["a"], "tags": ["O"]}], r"^sentence 0 is a dict .* trellis\.corpus\.from_rows"),
        ([[("Ada", "B-PER"), ("slept", "O")]], r"Sentence\(\*zip\(\*pairs\)\)"),
        ([["a"]], r"^sentence 0 is a list without labels: give labels"),
    ],
)
def test_data_that_a_tagger_does_not_take_name_the_call_that_makes_sentences(data: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        HMM().fit(data)


def test_sentences_of_other_columns_cannot_stand_in_one_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the columns sentence, token, tag, found sentence, token"):
        corpus.write(tmp_path / "a.csv", [Sentence(["a"], ["O"]), Sentence(["b"])])


TOKENS = {"Sentence #": ["1", float("nan"), "2"], "Word": ["Ada", "slept", "London"], "Tag": ["B-PER", "O", "B-LOC"]}
LISTS = {"tokens": [["Ada", "slept"], ["London"]], "tags": [["B-PER", "O"], ["B-LOC"]]}


CELLS = {name: [None if x != x else x for x in values] for name, values in TOKENS.items()}


@pytest.mark.parametrize(
    "table",
    [
        pandas.DataFrame(TOKENS),
        pandas.DataFrame(LISTS),
        polars.DataFrame(CELLS),
        polars.DataFrame(LISTS).lazy(),
        pyarrow.table(CELLS),
        pyarrow.table(LISTS),
        pyarrow.table(CELLS).to_batches()[0],
        [{"word": "Ada", "tag": "B-PER"}, {"word": "slept", "tag": "O"}, {}, {"word": "London", "tag": "B-LOC"}],
    ],
)
def test_tables_in_memory_have_a_row_per_token_or_per_sentence(table: Any) -> None:
    assert [(one.tokens, one.tags) for one in from_rows(table)] == ADA


def test_ids_of_tokens_are_spelled_by_the_features() -> None:
    names = SimpleNamespace(names=["O", "B-PER", "B-LOC"])
    cells = {"sentence": [1, 1, 2], "word": ["Ada", "slept", "London"], "tag": [1, 0, 2]}

    class Dataset(list[dict[str, Any]]):
        """A data set of Hugging Face: rows, and what their numbers stand for."""

        features: ClassVar[dict[str, Any]] = {"tag": names, "word": SimpleNamespace(dtype="string")}

    rows = Dataset(dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True))
    assert [(one.tokens, one.tags) for one in from_rows(rows)] == ADA


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            pandas.DataFrame({"a": ["x"], "b": ["O"]}),
            r"found the columns 'a', 'b': corpus\.from_rows\(table, tokens=.*, tags=.*\) names",
        ),
        (
            pandas.DataFrame({"token": ["a"], "tag": [1]}),
            r"^row 0: expected strings in 'tag', found the number 1: .*names=\[\.\.\.\]",
        ),
        (
            pandas.DataFrame({"sentence": [1, 1], "token": ["a", None], "tag": ["O", "O"]}),
            r"^row 1: .* found an empty cell; .*keep_default_na=False",
        ),
        ({"train": [], "test": []}, r"found a mapping of 'train', 'test': .* from_rows\(rows\[\.\.\.\]\)"),
    ],
)
def test_a_table_that_is_not_understood_names_the_call_that_reads_it(table: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        list(from_rows(table))


def test_sheets_of_excel_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.xlsx"
    with pandas.ExcelWriter(path) as book:
        pandas.DataFrame(TOKENS).to_excel(book, sheet_name="data", index=False)
        pandas.DataFrame({"about": ["names"]}).to_excel(book, sheet_name="notes", index=False)
    found = corpus.read(path)
    assert [(one.tokens, one.tags) for one in found] == ADA
    assert found.report.notes() == ["sheets behind the first, which are not read: 1", "  notes"]
    with pytest.raises(DataError, match="expected text, found a ZIP archive"):
        read(tmp_path, b"PK\x03\x04...", "a.zip")
    with pytest.raises(DataError, match=r"a\.xlsx"):
        read(tmp_path, b"PK\x03\x04...", "a.xlsx")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Exception, match=r"trellis-crf\[excel\]"):
        corpus.read(path)
