"""A CRF over any encoder in transformers' own Trainer: losses, places without labels, accumulated gradients."""

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, Trainer, TrainingArguments

from tests.nn.tiny import bert, wordpiece
from trellis.nn import CRFForTokenClassification, align_labels
from trellis.tags import Scheme, TagSet

LABELS = TagSet(("O", "B-X", "I-X"), Scheme.IOB2)
SENTENCES = [["the", "abc", "q"], ["going"], ["b", "the", "the", "xyz"], ["abc", "the"]]
TAGS = [[0, 1, 2], [1], [0, 1, 2, 2], [1, 0]]


def rows() -> list[dict[str, list[int]]]:
    """Padded to one length, so that the default collator takes them."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=wordpiece(), pad_token="[PAD]")
    found = []
    for words, tags in zip(SENTENCES, TAGS, strict=True):
        encoded = tokenizer(words, is_split_into_words=True, padding="max_length", max_length=16)
        labels = align_labels(encoded.word_ids(), tags)
        found.append({"input_ids": encoded.input_ids, "attention_mask": encoded.attention_mask, "labels": labels})
    return found


def batch() -> dict[str, torch.Tensor]:
    given = rows()
    return {name: torch.tensor([row[name] for row in given]) for name in given[0]}


def model(labels: int | TagSet = LABELS) -> CRFForTokenClassification:
    torch.manual_seed(3)
    return CRFForTokenClassification(bert(), labels).eval()


def test_the_loss_is_that_of_enumeration_over_first_subwords() -> None:
    """Every labelling of the first subwords, one by one, illegal ones left out."""
    own, given = model(), batch()
    with torch.no_grad():
        out = own(**given)
    start, transitions, end = (
        value.detach().double() for value in (own.crf.start_transitions, own.crf.transitions, own.crf.end_transitions)
    )
    total, legal = 0.0, LABELS.allowed_transitions()
    for row, (logits, labels) in enumerate(zip(out.logits.double(), given["labels"], strict=True)):
        words = logits[labels != -100]
        scores = {}
        for path in product(range(3), repeat=len(words)):
            steps = list(pairwise(path))
            if not (legal.start[path[0]] and legal.end[path[-1]] and all(legal.transitions[a, b] for a, b in steps)):
                continue
            value = start[path[0]] + end[path[-1]] + sum(words[t, y] for t, y in enumerate(path))
            scores[path] = float(value + sum(transitions[a, b] for a, b in steps))
        total += np.logaddexp.reduce(list(scores.values())) - scores[tuple(TAGS[row])]
        best = own.best_labels(out.logits[row : row + 1], labels[None])[0]
        assert tuple(best[labels != -100].tolist()) == max(scores, key=lambda path: scores[path])
        assert set(best[labels == -100].tolist()) == {-100}
    assert float(out.loss) == pytest.approx(total / sum(map(len, TAGS)), rel=1e-5)


def test_without_labels_there_are_logits_and_no_loss() -> None:
    given = batch()
    labels = given.pop("labels")
    out = model()(**given)
    assert (out.loss, tuple(out.logits.shape)) == (None, (*labels.shape, 3))


def test_accumulated_gradients_are_those_of_one_batch() -> None:
    own, given = model(3), batch()
    own(**given).loss.backward()
    whole = own.classifier.weight.grad.clone()
    own.zero_grad()
    count = int((given["labels"] != -100).sum())
    for rows in (slice(0, 1), slice(1, 4)):
        own(**{name: value[rows] for name, value in given.items()}, num_items_in_batch=count).loss.backward()
    torch.testing.assert_close(own.classifier.weight.grad, whole)


@pytest.mark.filterwarnings("default")
def test_the_trainer_of_transformers_trains_evaluates_and_saves_it(tmp_path: Path) -> None:
    own = model()
    seen: dict[str, Any] = {}

    def metrics(prediction: Any) -> dict[str, float]:
        seen["best"] = prediction.predictions
        known = prediction.label_ids != -100
        return {"accuracy": float((prediction.predictions == prediction.label_ids)[known].mean())}

    options = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=30,
        learning_rate=0.02,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        logging_strategy="no",
    )
    trainer = Trainer(
        model=own,
        args=options,
        train_dataset=rows(),
        eval_dataset=rows(),
        compute_metrics=metrics,
        preprocess_logits_for_metrics=own.best_labels,
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < 0.5 * before["eval_loss"]
    assert after["eval_accuracy"] == 1.0
    assert seen["best"].shape == (4, 16)
    trainer.save_model(str(tmp_path / "saved"))
    assert (tmp_path / "saved" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("words", "labels", "expected"),
    [
        ([None, 0, 0, 1, None], [3, 4], [-100, 3, -100, 4, -100]),
        ([None, 0, 2, 2, None, None], [1, 5, 2], [-100, 1, 2, -100, -100, -100]),
        ([None, 0, 1, 1, None], None, [-100, 0, 0, -100, -100]),
        ([], [], []),
    ],
)
def test_first_subwords_have_the_labels(words: list[int | None], labels: list[int] | None, expected: list[int]) -> None:
    assert align_labels(words, labels) == expected


def test_over_an_encoder_in_a_folder(tmp_path: Path) -> None:
    bert().save_pretrained(tmp_path)
    own = CRFForTokenClassification.from_encoder(tmp_path, 3, dropout=0.0)
    assert own.crf.num_tags == 3
    assert own(**batch()).loss.requires_grad


def test_a_saved_model_opens_with_its_labels_scheme_and_answers(tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification, pipeline

    own, given = model(), batch()
    own.save_pretrained(tmp_path)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=wordpiece(), pad_token="[PAD]", model_max_length=16)
    for kind in (CRFForTokenClassification, AutoModelForTokenClassification):
        opened = kind.from_pretrained(tmp_path).eval()
        assert type(opened) is CRFForTokenClassification
        assert opened.config.tag_set() == LABELS
        assert opened.device == torch.device("cpu")
        with torch.no_grad():
            theirs, ours = own(**given), opened(**given)
        assert torch.equal(ours.logits, theirs.logits)
        assert torch.equal(ours.loss, theirs.loss)  # so the forbidden transitions are there again
        for name, value in own.crf.named_buffers():
            assert torch.equal(value, opened.crf.get_buffer(name))
    found = pipeline("token-classification", model=opened, tokenizer=tokenizer)("the abc")
    assert {row["entity"] for row in found} <= set(LABELS.labels)
    free = model(3)
    free.save_pretrained(tmp_path / "free")
    assert CRFForTokenClassification.from_pretrained(tmp_path / "free").config.id2label[2] == "LABEL_2"


def test_labels_must_be_given_with_an_encoder() -> None:
    with pytest.raises(ValueError, match="labels must be a number or a TagSet, got None"):
        CRFForTokenClassification(bert())
