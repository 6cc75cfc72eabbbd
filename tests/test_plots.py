"""Pictures of results as SVG, and by matplotlib."""

import sys
import xml.etree.ElementTree as ET
from fractions import Fraction
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trellis import CRF, HMM, demo
from trellis.errors import ConfigError
from trellis.metrics import entity_scores, tagging_scores, token_calibration
from trellis.plots import HEIGHT, MARGIN, WIDTH, svg, ticks
from trellis.training import History, Step

matplotlib.use("Agg")

SVG = "{http://www.w3.org/2000/svg}"


def pictures(losses, devs, kept=0):
    steps = [Step(n, loss, None, dev, 1.0, None) for n, (loss, dev) in enumerate(zip(losses, devs, strict=True), 1)]
    return History(tuple(steps), "max_iterations", kept).pictures()


def lines(picture):
    """The points of each curve."""
    curves = ET.fromstring(picture).iter(f"{SVG}polyline")
    return [[tuple(map(float, point.split(","))) for point in curve.attrib["points"].split()] for curve in curves]


def test_loss_and_score_each_in_its_panel():
    top, right, bottom, left = MARGIN
    loss, dev = lines(svg(pictures([4.0, 2.0, 0.0], [0.0, 0.5, 1.0], kept=2)))
    assert [y for _, y in loss] == [top, (top + HEIGHT - bottom) / 2, HEIGHT - bottom]
    assert [y for _, y in dev] == [HEIGHT - bottom, (top + HEIGHT - bottom) / 2, top]
    step = (WIDTH - right - left) / 3
    assert [x for x, _ in loss] == pytest.approx([left + step, left + 2 * step, WIDTH - right], abs=0.1)


def test_without_held_out_data_there_is_one_panel():
    picture = svg(pictures([3.0, 1.0], [None, None]))
    assert len(lines(picture)) == 1
    assert "dev score" not in picture
    assert ET.fromstring(picture).attrib["width"] == str(WIDTH)


def test_the_kept_epoch_is_marked():
    assert svg(pictures([3.0, 1.0], [0.2, 0.1])).count(">kept<") == 2
    assert ">kept<" not in svg(pictures([], [], kept=-1))


FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST = sys.float_info.max


@given(st.lists(FINITE, max_size=5), st.floats(0, 1))
@example([LARGEST, -LARGEST], 0.5)
def test_any_history_can_be_drawn_inside_the_frame(losses, dev):
    top, right, bottom, left = MARGIN
    for curve in lines(svg(pictures(losses, [dev] * len(losses), kept=len(losses) - 1))):
        assert all(left <= x <= WIDTH - right and top <= y <= HEIGHT - bottom for x, y in curve)


@given(st.tuples(FINITE, FINITE).map(sorted))
@example((-5e-324, 6.0))
@example((-5e-324, 5e-324))
@example((-LARGEST, LARGEST))
@example((LARGEST, LARGEST))
def test_ticks_are_few_even_and_reach_around(ends):
    found = ticks(*ends)
    assert found[0] <= ends[0]
    assert found[-1] >= ends[1]
    assert 2 <= len(found) <= 7
    inner = [Fraction(repr(x)) for x in found if abs(x) != LARGEST]  # of decimals as they are written
    assert len({b - a for a, b in pairwise(inner)}) <= 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.31, 0.42, [0.3, 0.35, 0.4, 0.45]),
        (-3.0, 47.0, [-10.0, 0.0, 10.0, 20.0, 30.0, 40.0, 50.0]),
        (7.0, 7.0, [7.0, 7.002]),
    ],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == expected


def test_labels_stay_short():
    assert max(map(len, ET.fromstring(svg(pictures([1e300, 2e300], [None, None]))).itertext())) < 20


@pytest.fixture(scope="module")
def pictured():
    """Every result that can be drawn."""
    data = demo.english()
    tagger = CRF(features="ner", max_iterations=10).fit(data.train[:100], dev=data.dev[:30])
    gold, best = [one.tags for one in data.test], tagger.predict(data.test)
    ids = [tagger.tagset_.encode(tags) for tags in best]
    right = [rows[np.arange(len(tags)), tags] for rows, tags in zip(tagger.marginals(data.test), ids, strict=True)]
    return {
        "history": tagger.history_,
        "transitions": tagger.transitions(),
        "HMM": HMM().fit(data.train[:100]).transitions(),
        "entities": tagger.evaluate(data.test).confusion,
        "tags": tagging_scores(gold, best).confusion,
        "calibration": token_calibration(right, best, gold),
        "trellis": tagger.trellis("Farid Ito flew to London."),
    }


@pytest.mark.parametrize("name", ["history", "transitions", "HMM", "entities", "tags", "calibration", "trellis"])
def test_every_result_is_drawn_in_both_ways(pictured, name, tmp_path):
    result = pictured[name]
    axes = result.plot()
    assert len(axes) == len(result.pictures()) == (2 if name == "history" else 1)
    assert [one.get_title() for one in axes] == [one.title for one in result.pictures()]
    axes[0].figure.savefig(tmp_path / "picture.png")
    root = ET.fromstring(svg(result.pictures()))
    width, height = (int(root.attrib[side]) for side in ("width", "height"))
    cells = list(root.iter(f"{SVG}rect"))[1:]
    for cell in cells:
        x, y, right, bottom = (float(cell.attrib[key]) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + right <= width
        assert 0 <= y <= y + bottom <= height
    if name not in ("history", "calibration"):
        (heat_map,) = result.pictures()
        assert len(cells) == len(heat_map.rows) * len(heat_map.columns)
        drawn = axes[0].images[0].get_array()
        assert drawn.shape == (len(heat_map.rows), len(heat_map.columns), 3)
        numbers = [text.text for text in root.iter(f"{SVG}text") if text.find(f"{SVG}title") is not None]
        assert numbers == ([text.get_text() for text in axes[0].texts] if len(heat_map.columns) <= 12 else [])
    if name != "trellis":
        assert "<svg" in result._repr_html_()


def test_the_legend_stands_behind_the_title(pictured):
    root = ET.fromstring(svg(pictured["calibration"].pictures()))
    title, first = (
        next(text for text in root.iter(f"{SVG}text") if text.text == name) for name in ("share that is right", "model")
    )
    assert float(first.attrib["x"]) > float(title.attrib["x"]) + 7 * len(title.text)


def test_colours_say_for_against_and_forbidden(pictured):
    table = pictured["transitions"]
    (heat_map,) = table.pictures()
    colours = {
        np.sign(value): heat_map.colour(value) for row in heat_map.values for value in row if 0.1 < abs(value) < 99
    }
    forbidden = heat_map.colour(-np.inf)
    assert forbidden[0] == forbidden[1] == forbidden[2] < 255
    assert colours[1.0][0] > colours[1.0][2]
    assert colours[-1.0][2] > colours[-1.0][0]
    assert "-inf" not in str(table)


def test_without_matplotlib_the_extra_is_named(monkeypatch, pictured):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ConfigError, match=r"plot needs matplotlib: pip install 'trellis-crf\[plot\]'"):
        pictured["history"].plot()


def test_confusion_of_types_counts_every_span_once():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O", "B-LOC", "I-LOC"], ["B-PER", "O", "O"]]
    predicted = [["B-PER", "I-PER", "O", "B-ORG"], ["O", "B-PER", "B-LOC", "O"], ["B-PER", "O", "O"]]
    table = entity_scores(gold, predicted).confusion
    assert table.labels == ("LOC", "ORG", "PER", "O")
    assert table.counts == ((1, 1, 0, 0), (0, 0, 0, 1), (0, 0, 2, 0), (0, 0, 1, 0))
    assert table.worst(1) == [("LOC", "ORG", 1)]


@given(st.lists(st.lists(st.tuples(*[st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])] * 2), max_size=6), max_size=4))
def test_rows_and_columns_of_the_confusion_are_the_spans(pairs):
    gold, predicted = ([[pair[side] for pair in one] for one in pairs] for side in (0, 1))
    scores = entity_scores(gold, predicted)
    counts = np.array(scores.confusion.counts).reshape(len(scores.types) + 1, -1)
    assert counts.sum(axis=1)[:-1].tolist() == [score.gold for score in scores.types.values()]
    assert counts.sum(axis=0)[:-1].tolist() == [score.predicted for score in scores.types.values()]
