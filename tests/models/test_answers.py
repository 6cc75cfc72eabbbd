"""What people look at: tagged texts and the trellis, as values, in Markdown and in HTML; folders and families."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser

import numpy as np

from tests.models.contract import POS, TRAIN
from trellis import CRF, HMM, Sentence
from trellis.models import Labelling, Tagged
from trellis.models.answers import Answers, LatticeView
from trellis.tags import SpanTable
from trellis.text import hue
from trellis.training import History, Step


class Text(HTMLParser):
    """The text of a page, once every element that opens is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open, self.seen = "", [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


SENTENCE = Sentence(["<b>", "<i>&", "Co"], text="<b> <i>& Co", offsets=[(0, 3), (4, 8), (9, 11)])


def found_in_sentence() -> Tagged:
    """O B-ORG I-ORG with probabilities."""
    one = np.array([0])
    spans = SpanTable(one, np.array([1]), np.array([3]), one, ("ORG",))
    answers = Answers(
        [SENTENCE],
        [None],
        " ",
        ("O", "B-ORG", "I-ORG"),
        np.array([0, 1, 2]),
        np.array([0.9, 0.6, 0.7]),
        spans,
        np.array([0.5]),
        np.array([0, 3]),
        np.array([0, 1]),
    )
    return Tagged(answers, 0)


def test_spans_are_by_character_and_pieces_are_the_words():
    found = found_in_sentence()
    assert (found.spans[0].start, found.spans[0].end, found.spans[0].text) == (4, 11, "<i>& Co")
    assert found.words == ["<b>", "<i>& Co"]
    assert json.loads(json.dumps(found.to_dict()))["spans"] == [
        {"start": 4, "end": 11, "label": "ORG", "text": "<i>& Co", "probability": 0.5}
    ]
    assert len(found) == 1
    assert found.tags == ("O", "B-ORG", "I-ORG")
    assert found.probabilities == (0.9, 0.6, 0.7)


def test_a_copy_of_a_tagged_text_takes_only_its_own_part_along():
    tagger = CRF(features="ner").fit(TRAIN)
    found = tagger(["Anna met Rome", "", "Anna lives in Rome."])
    copies = [pickle.loads(pickle.dumps(one)) for one in found]
    assert copies == found
    assert copies[0] != found[2]
    assert len({*copies, *found}) == 3
    assert [len(one._answers.ids) for one in copies] == [3, 0, 5]


def test_notebooks_show_tagged_texts_with_everything_escaped():
    found = found_in_sentence()
    page = Text(found._repr_html_())
    assert page.text == "<b> <i>& Co ORG 0.50"
    assert page.seen == ["div", "mark", "sub"]


def test_notebooks_show_sentences_with_their_tags():
    assert Text(SENTENCE._repr_html_()).text == "<b> <i>& Co"
    page = Sentence(["<b>", "Rome"], ["O", "B-<LOC>"])._repr_html_()
    assert Text(page).text == "<b> RomeB-<LOC>"
    assert page.count("background") == 1
    both = Sentence(["a", "b"], ["B-X", "X-E"])._repr_html_()
    assert both.count(f"hsl({hue('X')},") == 2  # one type, one colour, whatever the style


def test_a_text_for_tokens_that_have_none():
    assert Sentence(["a", "bc"]).with_text().offsets == ((0, 1), (2, 4))
    joined = Sentence(["我", "们"], ["B", "E"]).with_text("")
    assert (joined.text, joined.offsets, joined.tags) == ("我们", ((0, 1), (1, 2)), ("B", "E"))
    assert SENTENCE.with_text() is SENTENCE
    assert Sentence([]).with_text().text == ""


VIEW = LatticeView(
    ("<a>", "b"),
    ("O", "X", "Y"),
    ((0.7, 0.2, 0.1), (0.395, 0.6, 0.005)),
    (Labelling(["O", "X"], 0.5), Labelling(["O", "O"], 0.25), Labelling(["X", "X"], 0.1)),
)


def test_the_trellis_marks_both_paths_and_leaves_out_what_never_matters():
    assert VIEW.shown() == [0, 1, 2]
    assert VIEW.shown(least=0.15) == [0, 1]
    assert [[VIEW.mark(t, j) for j in range(3)] for t in range(2)] == [["●", " ", " "], ["○", "●", " "]]
    assert VIEW.grid().rows[0] == ("O", "● 0.700", "○ 0.395")
    assert VIEW.to_markdown().splitlines()[0].split() == ["|", "label", "|", "<a>", "|", "b", "|"]


def test_the_trellis_in_a_notebook():
    page = VIEW._repr_html_()
    assert "label<a>bO● 0.700○ 0.395X  0.200● 0.600Y" in Text(page).text
    assert page.count('stroke="#2a2"') == 2
    assert page.count("<li>") == 3


def test_the_trellis_in_a_terminal_of_any_width():
    from rich.console import Console

    for width in (30, 100):
        console = Console(width=width, file=open("/dev/null", "w"), record=True)  # noqa: SIM115
        console.print(VIEW.draw(width))
        lines = console.export_text().splitlines()
        console.file.close()
        assert max(map(len, lines)) <= width
        assert sum(line.count("●") for line in lines) == 3
        assert any("b/O" in line for line in lines)


def test_a_plain_tag_is_a_span_of_its_own():
    assert [(s.text, s.label) for s in HMM().fit(POS)("a dog")] == [("a", "DET"), ("dog", "NOUN")]


def test_later_versions_may_add_to_a_history():
    later = {"reason": "converged", "kept": 0, "steps": [{"iteration": 1, "loss": 2.0, "seconds": 0.5, "new": 1}]}
    assert History.from_dict(later) == History((Step(1, 2.0, None, None, 0.5, None),), "converged", 0)
