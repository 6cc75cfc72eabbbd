"""The comparison of the demo: what is trained, and that its figures are what they say."""

from dataclasses import replace

import pytest
import torch

import trellis
from trellis.demo import DemoCorpus, comparison
from trellis.demo.comparison import NER, TASKS
from trellis.tags import Scheme, TagSet


def fraction(corpus):
    return DemoCorpus(corpus.train[:60], corpus.dev[:20], corpus.test[:40])


@pytest.fixture(scope="module")
def corpus():
    return fraction(NER.corpus())


def test_families_by_what_is_installed():
    assert [family.name for family in comparison.families(NER, neural=False)] == ["HMM", "CRF"]
    names = [family.name for family in comparison.families(NER, neural=True)]
    assert names == ["HMM", "CRF", "BiLSTM-softmax", "BiLSTM-CRF"]


@pytest.mark.parametrize("missing", ["torch", "accelerate", None])
def test_neural_taggers_need_two_libraries(monkeypatch, missing):
    monkeypatch.setattr(comparison, "find_spec", lambda name: None if name == missing else object())
    assert comparison.neural_is_installed() is (missing is None)


def test_the_figures_are_those_of_the_tagger(corpus):
    family = comparison.Contestant("CRF", lambda: trellis.CRF(c2=0.1), argmax=True)
    steps = []
    trained = comparison.train(family, corpus, steps.append)
    own, greedy = comparison.results(family, trained, corpus)
    assert steps[-1].iteration == len(trained.tagger.history_.steps)
    assert own.f1 == trained.tagger.score(corpus.test)
    assert (own.name, own.illegal, own.seconds) == ("CRF", 0, trained.seconds)
    assert own.tokens_per_second > 0
    assert greedy.f1 < own.f1
    assert greedy.illegal > 0
    assert (greedy.seconds, greedy.tokens_per_second) == (None, None)


def test_argmax_takes_the_best_label_of_each_token(corpus):
    tagger = trellis.CRF(c2=0.1).fit(corpus.train)
    found = comparison.argmax(tagger, corpus.test)
    scores = tagger.chain_scores(corpus.test[:1]).emissions
    assert found[0] == [tagger.labels_[tagger.states_.labels[row.argmax()]] for row in scores]
    assert [len(tags) for tags in found] == [len(sentence) for sentence in corpus.test]


def test_sentences_are_illegal_once_however_much_is_wrong():
    tags = TagSet(("O", "B-PER", "I-PER"), Scheme.IOB2)
    assert comparison.illegal([["O", "I-PER"], ["B-PER", "I-PER"], ["I-PER", "O", "I-PER"], []], tags) == 2


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_texts_are_in_no_part_of_the_corpus(task):
    corpus = task.corpus()
    known = {"".join(s.tokens).lower() for part in (corpus.train, corpus.dev, corpus.test) for s in part}
    texts = {text.replace(" ", "").lower() for text in (*task.texts, task.drawn)}
    assert not texts & known


def test_neural_families_learn(corpus):
    threads = torch.get_num_threads()
    for family in comparison.families(replace(NER, epochs=1), neural=True)[2:]:
        trained = comparison.train(family, corpus)
        rows = comparison.results(family, trained, corpus)
        assert [row.illegal for row in rows[:1]] == [0]
        assert len(rows) == (2 if family.name == "BiLSTM-softmax" else 1)
        assert len(trained.tagger.history_.steps) == 1
    assert torch.get_num_threads() == threads
