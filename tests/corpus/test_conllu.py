"""CoNLL-U in, CoNLL-U out: nothing but the tags changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora import shared
from trellis import corpus
from trellis.corpus.conllu import FIELDS

FILE = """\
# sent_id = 1
# text = Dámelo ya
1-2\tDámelo\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=Yes
1\tDa\tdar\tVERB\tV\tMood=Imp\t0\troot\t0:root\t_
2\tmelo\tme\tPRON\tP\t_\t1\tobj\t1:obj\tA=b
2.1\tx\tx\tVERB\t_\t_\t_\t_\t0:x\tCopyOf=1
3\tya\tya\tADV\tR\t_\t1\tadvmod\t1:advmod\t_

# a comment
1\tSí\tsí\tINTJ\tI\t_\t0\troot\t0:root\t_

"""


@pytest.mark.parametrize("tags", ["upos", "xpos", "deprel", None])
def test_a_file_is_written_as_it_was_read(tmp_path: Path, tags: str | None) -> None:
    (tmp_path / "a.conllu").write_text(FILE)
    corpus.write(tmp_path / "b.conllu", corpus.read(tmp_path / "a.conllu", tags=tags))
    assert (tmp_path / "b.conllu").read_text() == FILE


def test_only_the_tagged_column_of_words_changes(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(FILE)
    tagged = [sentence.with_tags(["T"] * len(sentence)) for sentence in corpus.read(tmp_path / "a.conllu")]
    corpus.write(tmp_path / "b.conllu", tagged)
    before, after = FILE.splitlines(), (tmp_path / "b.conllu").read_text().splitlines()
    changed = [(a.split("\t"), b.split("\t")) for a, b in zip(before, after, strict=True) if a != b]
    assert [a[0] for a, _ in changed] == ["1", "2", "3", "1"]
    assert all(b[3] == "T" and [*a[:3], *a[4:]] == [*b[:3], *b[4:]] for a, b in changed)


def test_tags_may_go_beside_what_is_in_misc(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(FILE)
    corpus.write(tmp_path / "b.conllu", corpus.read(tmp_path / "a.conllu", tags="xpos"), tags="misc.NER")
    rows = [line.split("\t") for line in (tmp_path / "b.conllu").read_text().splitlines() if line[:1].isdigit()]
    assert [row[9] for row in rows if row[0].isdecimal()] == ["NER=V", "A=b|NER=P", "NER=R", "NER=I"]
    assert [row[FIELDS.index("upos")] for row in rows if row[0].isdecimal()] == ["VERB", "PRON", "ADV", "INTJ"]


@pytest.mark.parametrize("corpus_name", ["ud_english_ewt", "ud_chinese_gsd"])
def test_files_of_universal_dependencies_come_out_byte_by_byte(tmp_path: Path, corpus_name: str) -> None:
    for path in sorted(shared(corpus_name).glob("*.conll*")):
        found = corpus.read(path)
        assert found.format == "conllu"
        corpus.write(tmp_path / "out.conllu", found)
        assert (tmp_path / "out.conllu").read_bytes() == path.read_bytes(), path.name
