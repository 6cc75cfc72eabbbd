"""Models learn in one scheme and answer in that of the data, exactly."""

from itertools import product

import numpy as np
import pytest

from tests.models.contract import TRAIN
from trellis.errors import ModelError, TagError
from trellis.models import CRF, load
from trellis.tags import Scheme, Span, convert_tags, spans_from_tags, tags_from_spans, validate_tags
from trellis.text import Sentence

SENTENCE = ["Paul", "met", "Anna"]


def make(family, **options):
    if family == "crf":
        return CRF(c2=0.1, max_iterations=20, **options)
    from trellis.models import NeuralTagger

    small = {"words": {"size": 8}, "hidden": 8, "characters": {"kind": "none"}}
    return NeuralTagger(head=family, encoder=small, training={"epochs": 4}, **options)


def written(scheme):
    found = [Sentence(s.tokens, convert_tags(s.tags, Scheme.IOB2, scheme)) for s in TRAIN]
    # Spans that adjoin, which IOB1 and IOE1 write in their own way and IO cannot tell apart.
    two = [Span(0, 1, "PER"), Span(1, 2, "PER")]
    if scheme is not Scheme.IO:
        found.append(Sentence(["Anna", "Paul", "left"], tags_from_spans(two, 3, scheme)))
    return found


@pytest.mark.parametrize("family", ["crf", "softmax"])
@pytest.mark.parametrize("scheme", [Scheme.IO, Scheme.IOB1, Scheme.IOB2, Scheme.IOE1, Scheme.IOE2])
def test_answers_are_exact_in_the_scheme_of_the_data(scheme, family):
    model = make(family, scheme=scheme.value).fit(written(scheme))
    assert model.states_.scheme is Scheme.BIOES
    assert model.tagset_.scheme is scheme
    every = [list(path) for path in product(model.labels_, repeat=3)]
    legal = [path for path in every if not validate_tags(path, scheme)]
    p = np.array([model.sequence_probabilities([SENTENCE], [path])[0] for path in legal])
    assert p.sum() == pytest.approx(1)
    best = model.kbest([SENTENCE], len(every))[0]
    assert {tuple(own.tags) for own in best} == {tuple(path) for path in legal}
    assert len(best) == len(legal)
    for t, label in product(range(3), model.labels_):
        total = sum(q for path, q in zip(legal, p, strict=True) if path[t] == label)
        assert model.marginals([SENTENCE])[0][t, model.tagset_.id(label)] == pytest.approx(total)
    span = Span(0, 2, "PER")
    total = sum(q for path, q in zip(legal, p, strict=True) if span in spans_from_tags(path, scheme))
    assert model.span_probabilities([SENTENCE], [[span]])[0][0].probability == pytest.approx(total)


def test_learning_bioes_from_bio_is_learning_from_bioes():
    # Spans of three tokens, so that the data in BIOES have an I of each type, too.
    long = [Sentence(["Mary", "Ann", "Jones"], ["B-PER", "I-PER", "I-PER"])]
    long.append(Sentence(["New", "South", "Wales"], ["B-LOC", "I-LOC", "I-LOC"]))
    ours = make("crf").fit(TRAIN + long)
    theirs = make("crf").fit(
        [Sentence(s.tokens, convert_tags(s.tags, Scheme.IOB2, Scheme.BIOES)) for s in TRAIN + long]
    )
    span = [[Span(2, 3, "PER"), Span(0, 1, "PER")]]
    one, two = ([own.probability for own in m.span_probabilities([SENTENCE], span)[0]] for m in (ours, theirs))
    assert one == pytest.approx(two, rel=1e-6)


@pytest.mark.parametrize("family", ["crf", "softmax"])
def test_a_saved_model_keeps_the_scheme_it_learned(family, tmp_path):
    model = make(family, learn_scheme="ioe2").fit(TRAIN)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.states_.scheme is Scheme.IOE2
    assert again.marginals([SENTENCE])[0].tolist() == model.marginals([SENTENCE])[0].tolist()


def test_the_states_are_the_labels_on_request_and_where_sequences_need_not_be_legal():
    for options in ({"learn_scheme": "data"}, {"constraints": False}, {"decoding": "argmax"}):
        model = make("softmax" if "decoding" in options else "crf", **options).fit(TRAIN)
        assert model.states_.names == model.labels_
        assert model.chain_scores([SENTENCE]).num_labels == len(model.labels_)


def test_a_warm_start_goes_on_in_the_scheme_of_the_earlier_model():
    model = make("crf", learn_scheme="data").fit(TRAIN)
    model.config = make("crf").config
    model.fit([*TRAIN, Sentence(["Bonn"], ["B-ORG"])], warm_start=True)
    assert model.states_.scheme is Scheme.IOB2
    model = make("crf").fit(TRAIN)
    before = dict(zip(model.states_.names, model.parameters_.transitions.diagonal().tolist(), strict=True))
    model.set_params(max_iterations=0).fit([*TRAIN, Sentence(["Bonn"], ["B-ORG"])], warm_start=True)
    after = dict(zip(model.states_.names, model.parameters_.transitions.diagonal().tolist(), strict=True))
    assert before.items() <= after.items()


def test_a_feature_table_takes_a_label_or_a_state():
    model = make("crf").fit(TRAIN)
    assert {f.label for f in model.top_features("S-PER", n=50).features} == {"S-PER"}
    assert {f.label for f in model.top_features("I-PER", n=50).features} <= {"I-PER", "E-PER"}


def test_a_scheme_that_cannot_be_learned_is_named():
    with pytest.raises((TagError, ModelError), match="learn_scheme must be data or one of IOB2"):
        make("crf", learn_scheme="io").fit(TRAIN)
