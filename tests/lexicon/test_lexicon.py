"""Entries: strengths, labels, files, folding, boundaries, storage."""

import pickle

import numpy as np
import pytest

from trellis import Lexicon, Sentence, store
from trellis.errors import CorpusError, DataError, StoreError
from trellis.lexicon import PREFER, Entry, parse_strength
from trellis.lexicon.features import with_columns
from trellis.lexicon.lexicon import read_entries


def places(lexicon, tokens):
    return [(start, end, entry.surface) for start, end, entry in sorted(lexicon.find(tokens), key=lambda row: row[:2])]


class TestEntries:
    def test_are_surfaces_or_tuples_of_which_the_end_may_be_missing(self):
        lexicon = Lexicon(["a", ("b", "X"), ("c", None, "must"), ("d", "Y", 1), ("e", "", "feature")], strength=0.5)
        assert list(lexicon) == [
            Entry("a", None, 0.5),
            Entry("b", "X", 0.5),
            Entry("c", None, "must"),
            Entry("d", "Y", 1.0),
            Entry("e", None, "feature"),
        ]
        assert lexicon.labels == ("X", "Y")
        assert repr(lexicon) == "Lexicon(5 entries: 'a', 'b', 'c', ...)"

    @pytest.mark.parametrize("entries", ["云计算", b"abc", {"New York": "LOC"}])
    def test_a_string_or_a_mapping_is_no_list_of_entries(self, entries):
        with pytest.raises(DataError, match=r"entries must be surfaces or tuples \(surface, label, strength\), got"):
            Lexicon(entries)

    def test_only_lexicons_that_find_alike_are_joined(self):
        with pytest.raises(TypeError, match="unsupported operand"):
            Lexicon(["a"]) | ["b"]
        with pytest.raises(
            DataError, match=r"same folding and boundaries, got Folding\(case=False.* and Folding\(case=True"
        ):
            Lexicon(["a"]) | Lexicon(["b"], fold_case=True)

    def test_the_last_of_several_with_one_surface_and_label_counts(self):
        lexicon = Lexicon([("a", "X", 1), ("a", "Y", 2), ("a", "X", 3)])
        assert sorted(lexicon) == [Entry("a", "X", 3.0), Entry("a", "Y", 2.0)]
        joined = Lexicon([("a", "X", 1), "b"]) | Lexicon([("a", "X", "must")])
        assert {entry.surface: entry.strength for entry in joined} == {"b": PREFER, "a": "must"}

    @pytest.mark.parametrize(
        ("entries", "problem"),
        [
            ([" "], "entry 0: the surface is empty"),
            (["a", 7], "entry 1 must be"),
            ([(7, "X")], "entry 0: a surface must be a string, got 7"),
            ([("a", 7)], "entry 0: a label must be a string or None, got 7"),
            ([("a", "X", "perhaps")], "entry 0, 'a': a strength must be must, feature, prefer"),
            ([("a", "X", float("inf"))], "log odds"),
            ([("a", "X", 1, 2)], r"entry 0 must be \(surface, label, strength\)"),
        ],
    )
    def test_bad_ones_are_refused_by_their_number(self, entries, problem):
        with pytest.raises((DataError, TypeError), match=problem):
            Lexicon(entries)

    @pytest.mark.parametrize(
        ("text", "strength"),
        [("must", "must"), ("Feature", "feature"), ("prefer", PREFER), ("prefer=-1.5", -1.5), ("2", 2.0), (3, 3.0)],
    )
    def test_strengths_are_read_as_people_write_them(self, text, strength):
        assert parse_strength(text) == strength

    @pytest.mark.parametrize("text", ["must=1", "prefer=x", "prefer=nan", "2=3", "", "1e9"])
    def test_other_strengths_are_refused(self, text):
        with pytest.raises(DataError, match="a strength must be"):
            parse_strength(text)

    def test_they_come_from_a_corpus(self):
        sentences = [
            Sentence(["New", "York", "and", "Rome"], ["B-LOC", "I-LOC", "O", "B-LOC"]),
            Sentence(["Rome", "fell"], ["B-LOC", "O"]),
        ]
        assert list(Lexicon.from_corpus(sentences)) == [
            Entry("New York", "LOC", "feature"),
            Entry("Rome", "LOC", "feature"),
        ]
        assert [entry.surface for entry in Lexicon.from_corpus(sentences, min_count=2, strength=1)] == ["Rome"]
        words = [Sentence(list("北京人"), list("BES"))]
        assert list(Lexicon.from_corpus(words, strength=1)) == [Entry("北京", None, 1.0), Entry("人", None, 1.0)]
        with pytest.raises(DataError, match="sentence 0 has no tags"):
            Lexicon.from_corpus([["a"]])


class TestMatching:
    def test_finds_all_that_overlap(self):
        lexicon = Lexicon(["北京", "北京大学", "大学", "学", "大学生"])
        assert places(lexicon, list("在北京大学生")) == [
            (1, 3, "北京"),
            (1, 5, "北京大学"),
            (3, 5, "大学"),
            (3, 6, "大学生"),
            (4, 5, "学"),
        ]

    def test_agrees_with_a_search_by_hand(self):
        random = np.random.default_rng(0)
        words = {"".join(random.choice(list("abc"), size=random.integers(1, 5))) for _ in range(40)}
        lexicon = Lexicon(sorted(words), boundaries="character")
        sentences = [random.choice(list("abcd"), size=random.integers(0, 30)).tolist() for _ in range(50)]
        found = lexicon.matches(sentences)
        rows = {
            (b, i, j, lexicon[e].surface) for b, i, j, e in zip(*(column.tolist() for column in found), strict=True)
        }
        expected = {
            (b, i, j, "".join(text[i:j]))
            for b, text in enumerate(sentences)
            for i in range(len(text))
            for j in range(i + 1, len(text) + 1)
            if "".join(text[i:j]) in words
        }
        assert rows == expected
        assert len(found.entry) == len(expected)

    def test_tokens_are_never_cut_and_sentences_never_joined(self):
        lexicon = Lexicon(["York", "new", "a b"])
        assert places(lexicon, ["Yorkshire", "York", "renew"]) == [(1, 2, "York")]
        assert not len(lexicon.matches([["x", "a"], ["b"]]).entry)

    def test_blanks_stand_between_tokens(self):
        lexicon = Lexicon(["a part", "apart", "Jean-Luc", "together"])
        assert places(lexicon, ["a", "part", "is", "apart", "to", "get", "her"]) == [(0, 2, "a part"), (3, 4, "apart")]
        assert places(lexicon, ["Jean", "-", "Luc"]) == [(0, 3, "Jean-Luc")]
        assert places(lexicon, ["Jean-Luc"]) == [(0, 1, "Jean-Luc")]

    def test_offsets_tell_where_blanks_are(self):
        lexicon = Lexicon(["北京", "大 学", "cannot", "can not"])
        text = Sentence(tuple("北京大学"), text="北 京大 学", offsets=((0, 1), (2, 3), (3, 4), (5, 6)))
        assert places(lexicon, text) == [(2, 4, "大 学")]
        one = Sentence(("can", "not"), text="cannot", offsets=((0, 3), (3, 6)))
        two = Sentence(("can", "not"), text="can not", offsets=((0, 3), (4, 7)))
        assert (places(lexicon, one), places(lexicon, two)) == ([(0, 2, "cannot")], [(0, 2, "can not")])

    def test_a_run_of_letters_is_one_word_also_if_characters_are_tokens(self):
        for boundaries, found in (("token", []), ("character", [(3, 6, "cat")])):
            assert places(Lexicon(["cat"], boundaries=boundaries), list("concatenate")) == found
        assert places(Lexicon(["cat"]), list("一cat一")) == [(1, 4, "cat")]
        assert places(Lexicon(["cat"]), list("a cat")) == [(2, 5, "cat")]
        with pytest.raises(DataError, match="boundaries must be"):
            Lexicon(["a"], boundaries="word")

    def test_folding_keeps_places_right_where_it_changes_lengths(self):
        lexicon = Lexicon(["STRASSE", "rom", "ﬁne"], fold_case=True)
        tokens = ["die", "Straße", "ﬁn", "nach", "ROM", "FINE"]
        assert places(lexicon, tokens) == [(1, 2, "STRASSE"), (4, 5, "rom"), (5, 6, "ﬁne")]
        assert places(Lexicon(["rom"]), tokens) == []

    def test_widths_are_the_same_unless_they_are_not_folded(self):
        assert places(Lexicon(["ABC"]), ["ＡＢＣ"]) == [(0, 1, "ABC")]
        assert places(Lexicon(["ABC"], fold_width=False), ["ＡＢＣ"]) == []

    def test_strange_tokens_are_no_trouble(self):
        lexicon = Lexicon(["b", "\ud800"])
        assert places(lexicon, ["\ud800x", "", " ", "b", "\n"]) == [(3, 4, "b")]
        assert places(Lexicon([]), ["a"]) == []
        assert not len(lexicon.matches([]).entry)
        with pytest.raises(DataError, match="a lexicon needs tokens that are strings, got 7"):
            lexicon.find(["a", 7])

    def test_without_the_library_the_error_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "daachorse", None)
        with pytest.raises(DataError, match=r"pip install 'trellis-crf\[lexicon\]'"):
            Lexicon(["ab"]).find(["ab"])


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "text", "format", "entries"),
        [
            ("w.txt", "云计算\n\nNew York\n", "words", [("云计算", None, 2.0), ("New York", None, 2.0)]),
            (
                "userdict.txt",
                "云计算 5\n创新办 3 i\n台中\n凱特琳 nz\nEdu Trust认证 2000\n",
                "jieba",
                [
                    ("云计算", None, 2.0 + np.log(5)),
                    ("创新办", "i", 2.0 + np.log(3)),
                    ("台中", None, 2.0),
                    ("凱特琳", "nz", 2.0),
                    ("Edu Trust认证", None, 2.0 + np.log(2000)),
                ],
            ),
            ("tags.txt", "凱特琳 nz\n台中\n", "jieba", [("凱特琳", "nz", 2.0), ("台中", None, 2.0)]),
            (
                "names.tsv",
                "New York\tLOC\tmust\nRome\tLOC\nMay\t\t-1\n",
                "tsv",
                [("New York", "LOC", "must"), ("Rome", "LOC", 2.0), ("May", None, -1.0)],
            ),
            ("tabs.txt", "Rome\tLOC\n", "tsv", [("Rome", "LOC", 2.0)]),
            (
                "names.jsonl",
                '{"surface": "Rome", "label": "LOC", "strength": "feature"}\n{"label": "ORG", "pattern": "Apple"}\n',
                "jsonl",
                [("Rome", "LOC", "feature"), ("Apple", "ORG", 2.0)],
            ),
            ("objects.txt", '{"surface": "Rome", "strength": 1.5}\n', "jsonl", [("Rome", None, 1.5)]),
        ],
    )
    def test_formats_are_recognised(self, tmp_path, name, text, format, entries):
        (tmp_path / name).write_text(text, encoding="utf-8")
        reading = read_entries(tmp_path / name, None, 2.0, None)
        assert reading.format == format
        assert reading.reason
        for entry, expected in zip(reading.entries, entries, strict=True):
            assert entry[:2] == expected[:2]
            assert entry.strength == (expected[2] if isinstance(expected[2], str) else pytest.approx(expected[2]))

    def test_a_format_and_a_label_may_be_given(self, tmp_path):
        (tmp_path / "names").write_text("new york\nrome 3\n", encoding="utf-8")
        lexicon = Lexicon.read(tmp_path / "names", format="words", label="LOC", strength="must", fold_case=True)
        assert list(lexicon) == [Entry("new york", "LOC", "must"), Entry("rome 3", "LOC", "must")]
        assert places(lexicon, ["New", "York"]) == [(0, 2, "new york")]
        with pytest.raises(DataError, match=r"unknown format of lexicons 'jeiba'.*did you mean 'jieba'"):
            Lexicon.read(tmp_path / "names", format="jeiba")

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("a.tsv", "Rome\tLOC\nParis\tLOC\tperhaps\n", r"a\.tsv:2: a strength must be .*'perhaps'"),
            ("a.tsv", "\tLOC\n", r"a\.tsv:1: the surface is empty"),
            ("a.tsv", "a\tb\tmust\td\n", "got 4 cells"),
            ("a.jsonl", '{"surface": "a"}\n{"surface": \n', r"a\.jsonl:2: expected JSON"),
            ("a.jsonl", '{"label": "X"}\n', r"a\.jsonl:1: the entry lacks the field 'surface'"),
            ("a.jsonl", '{"surface": "a", "strength": [1]}\n', "'strength' must be"),
        ],
    )
    def test_errors_name_file_and_line(self, tmp_path, name, text, problem):
        (tmp_path / name).write_text(text)
        with pytest.raises(CorpusError, match=problem):
            Lexicon.read(tmp_path / name)

    def test_what_was_saved_is_what_is_loaded(self, tmp_path):
        lexicon = Lexicon(
            ["a", ("New York", "LOC", "must"), ("x", "LOC", "feature"), ("\ud800", "Y", -1.5)],
            fold_case=True,
            fold_width=False,
            boundaries="character",
        )
        lexicon.find(["a"])
        lexicon.save(tmp_path / "words")
        for again in (Lexicon.load(tmp_path / "words"), pickle.loads(pickle.dumps(lexicon))):
            assert list(again) == list(lexicon)
            assert (again.folding, again.boundaries) == (lexicon.folding, lexicon.boundaries)
            assert places(again, ["NEW", "York"]) == [(0, 2, "New York")]

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("lexicon.labels", np.array([7], dtype=np.int32)),
            ("lexicon.strengths", np.array([9], dtype=np.uint8)),
            ("lexicon.bonus", np.array([np.inf])),
            ("lexicon.surfaces.bytes", np.array([32], dtype=np.uint8)),
        ],
    )
    def test_a_file_with_anything_else_is_refused(self, tmp_path, name, value):
        Lexicon(["a"]).save(tmp_path / "words")
        stored = store.load(tmp_path / "words")
        store.save(tmp_path / "bad", "lexicon", stored.manifest.values, {**stored.arrays, name: value})
        with pytest.raises(StoreError):
            Lexicon.load(tmp_path / "bad")


class TestColumns:
    LEXICON = Lexicon(
        [("New York", "LOC"), ("New York State", "LOC"), ("York", "PER"), ("I", None)], strength="feature"
    )

    def columns(self, sentence, gold=None, lexicon=LEXICON):
        (made,) = with_columns([sentence], [sentence], [lexicon], lexicon.feature_labels, gold)
        return {name: " ".join(values) for name, values in made.columns.items()}

    def test_say_how_tokens_lie_in_matches_of_each_label(self):
        assert self.columns(["I", "saw", "New", "York", "State"]) == {
            "lexicon *": "S - - - -",
            "lexicon LOC": "- - B3 I3E2 E3",
            "lexicon PER": "- - - S -",
        }

    def test_a_name_that_is_known_from_its_own_sentence_only_is_left_out(self, monkeypatch):
        monkeypatch.setattr("trellis.lexicon.features._DROPPED", 0.0)
        names = [("New York", "LOC"), ("Rome", "LOC")]
        lexicon = Lexicon(names, strength="feature")
        X = [["New", "York"], ["Rome"], ["in", "Rome"], ["New", "York", "Rome"]]
        gold = [[("New York", "LOC")], [("Rome", "LOC")], [("Rome", "LOC")], []]
        made = with_columns(X, X, [lexicon], lexicon.feature_labels, gold)
        assert [" ".join(one.columns["lexicon LOC"]) for one in made] == ["- -", "S", "- S", "B2 E2 S"]

    def test_half_of_the_matches_of_a_lexicon_from_the_training_data_are_left_out(self):
        lexicon = Lexicon([("Rome", "LOC")], strength="feature")
        X = [["Rome"]] * 1000
        made = with_columns(X, X, [lexicon], lexicon.feature_labels, [[("Rome", "LOC")]] * 1000)
        assert 400 < sum(one.columns["lexicon LOC"] == ("S",) for one in made) < 600

    def test_a_lexicon_from_elsewhere_always_counts(self):
        gold = [[("New York", "LOC"), *((f"name {i}", "LOC") for i in range(9))]]
        assert self.columns(["New", "York"], gold)["lexicon LOC"] == "B2 E2"

    def test_strengths_other_than_feature_are_no_columns(self):
        lexicon = Lexicon([("aa", "X", "must"), ("bb", "Y", 1.0), ("aa", "Z", "feature")])
        assert lexicon.feature_labels == ("Z",)
        assert self.columns(["aa", "bb"], lexicon=lexicon) == {"lexicon Z": "S -"}
