"""The encoding that a file in another one than expected is probably in."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from trellis import corpus
from trellis.corpus.sniff import suggest_encoding
from trellis.errors import CorpusError, DataError

CHINESE = "我们 在 北京 看见 了 很多 漂亮 的 建筑 ， 这 是 一个 非常 好 的 城市 。"
FRENCH = "Nous avons été à l'hôtel près du café où l'élève répétait sa leçon ."
RUSSIAN = "Мы видели в Москве много красивых зданий , и это очень хороший город ."
TEXTS = [
    ("gb18030", "gb18030", CHINESE),
    ("gbk", "gb18030", CHINESE),
    ("big5", "big5", "我們 在 台北 看見 了 很多 漂亮 的 建築 ， 這 是 一個 非常 好 的 城市 。"),
    ("euc_kr", "euc_kr", "우리는 서울에서 아름다운 건물을 많이 보았습니다 ."),
    ("shift_jis", "shift_jis", "日本語の文章です。これは東京で書きました。"),
    ("euc_jp", "euc_jp", "日本語の文章です。これは東京で書きました。"),
    ("cp1251", "cp1251", RUSSIAN),
    ("koi8-r", "koi8-r", RUSSIAN),
    ("latin-1", "cp1252", FRENCH),
    ("latin-1", "cp1252", "Größe Straße über Äpfel und schöne Tage"),
    ("cp1252", "cp1252", "a naïve “quotation” – with dashes"),
    ("utf-8", "utf-8", CHINESE),
]


@pytest.mark.parametrize(("written", "suggested", "text"), TEXTS)
def test_the_encoding_is_known_by_what_texts_in_it_consist_of(written: str, suggested: str, text: str) -> None:
    assert suggest_encoding(text.encode(written)) == suggested


@pytest.mark.parametrize(("written", "suggested", "text"), TEXTS[:2])
def test_a_sample_that_ends_within_a_character_is_as_good(written: str, suggested: str, text: str) -> None:
    data = (text * 500).encode(written)
    assert suggest_encoding(data) == suggest_encoding(b"a" + data) == suggested


@pytest.mark.parametrize("data", [b"plain", b"a\xff", b"bad \xff byte", bytes(range(128, 256))])
def test_nothing_is_suggested_where_nothing_fits(data: bytes) -> None:
    assert suggest_encoding(data) is None


def test_an_error_names_the_encoding_and_the_option_to_give_it(tmp_path: Path) -> None:
    (tmp_path / "a.seg").write_bytes(f"{CHINESE}\n".encode("gb18030"))
    with pytest.raises(CorpusError, match=r'looks like gb18030: --encoding gb18030 \(in Python encoding="gb18030"\)'):
        corpus.read(tmp_path / "a.seg")
    assert corpus.read(tmp_path / "a.seg", encoding="gb18030").sentences[0].tokens[:2] == ("我", "们")


def test_a_file_in_utf_8_read_in_another_encoding_is_known_too(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Größe\tO\nüberäß\tO\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="looks like utf-8"):
        corpus.read(tmp_path / "a.conll", encoding="ascii")


BROKEN = {
    "conll": "Größe\tO\n日本\tO\n\n",
    "conllu": "1\tGröße\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n",
    "jsonl": '{"tokens": ["Größe", "日本"], "tags": ["O", "O"]}\n',
    "spans": '{"text": "Größe 日本", "spans": [{"start": 0, "end": 5, "label": "X"}]}\n',
    "segmented": "Größe 日本\n",
    "wordtag": "Größe/O 日本/O\n",
}


@pytest.mark.parametrize("read_in", ["utf-8", "ascii", "shift_jis", "euc_jp", "utf-16", "utf-7"])
@pytest.mark.parametrize("written_in", ["utf-8", "gb18030", "utf-16"])
@pytest.mark.parametrize("name", BROKEN)
def test_skipping_lines_in_a_wrong_encoding_costs_as_much_as_there_are_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, written_in: str, read_in: str
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("trellis.corpus.source.suggest_encoding", lambda data: asked.append(len(data)))

    def steps(sentences: int) -> int:
        """Calls of Python and native functions."""
        asked.clear()
        (tmp_path / "a").write_bytes((BROKEN[name] * sentences).encode(written_in))
        count = 0

        def add(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(add)
        try:
            with suppress(DataError):
                corpus.read(tmp_path / "a", format=name, encoding=read_in, on_error="skip")
        finally:
            sys.setprofile(None)
        assert len(asked) <= 1
        return count

    steps(1)  # what is imported and compiled once
    small, middle, large = (steps(sentences) for sentences in (150, 600, 2400))
    assert large - middle <= 5 * (middle - small) + 1000
