"""An encoder of transformers with a CRF on top, as transformers' own ``Trainer`` expects a model.

    input_ids (B, T) --encoder, dropout, linear--> logits (B, T, L) --CRF over places with a label--> loss

Labels are those of the usual scripts: one per word at its first subword, -100 everywhere else. The chain runs over the
places with a label only, so a transition leads from word to word, whatever number of subwords lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_outputs import TokenClassifierOutput

from trellis.nn.crf import CRF
from trellis.tags import TagSet

IGNORED = -100


class CRFForTokenClassification(nn.Module):
    """A token classifier whose loss is that of a CRF: the negative log-likelihood of whole label sequences.

    ``logits`` are the emissions of the CRF. Its best labels need its transitions too: `best_labels` has the arguments
    of ``Trainer(preprocess_logits_for_metrics=...)``, so that metrics see them rather than the largest logits.

    Args:
        encoder: any encoder of transformers that returns ``last_hidden_state``.
        labels: how many; or a `TagSet`, whose scheme then forbids impossible transitions.
        dropout: of the encoder's output.

    """

    def __init__(self, encoder: nn.Module, labels: int | TagSet, *, dropout: float = 0.1) -> None:
        super().__init__()
        legal = None
        if isinstance(labels, TagSet):
            transitions, start, end = map(torch.from_numpy, labels.allowed_transitions())
            labels, legal = len(labels), (transitions, start, end)
        config: Any = encoder.config
        self.config = config  # where Trainer looks for the names of keys to leave out of predictions
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(int(config.hidden_size), labels)
        self.crf = CRF(labels, batch_first=True, constraints=legal, ignore_index=IGNORED)

    @classmethod
    def from_encoder(cls, source: str | Path, labels: int | TagSet, **options: Any) -> CRFForTokenClassification:
        """Over the encoder in a folder, or one of the Hub by name; options are those of the constructor."""
        return cls(AutoModel.from_pretrained(source), labels, **options)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **inputs: Any,
    ) -> TokenClassifierOutput:
        """Loss, if there are labels, and logits.

        Args:
            input_ids: ``(B, T)``.
            attention_mask: ``(B, T)``.
            labels: ``(B, T)``, -100 where there is none.
            num_items_in_batch: labels of all batches that are summed before a step: the loss is divided by it, so that
                accumulated gradients are those of one large batch. By default it is divided by the labels of this one.
            inputs: what else the encoder takes.

        """
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **inputs).last_hidden_state
        logits = self.classifier(self.dropout(states))
        loss = None
        if labels is not None:
            reduction = "token_mean" if num_items_in_batch is None else "sum"
            loss = self.crf.nll(logits.float(), labels, reduction=reduction)
            loss = loss if num_items_in_batch is None else loss / num_items_in_batch
        return TokenClassifierOutput(loss=loss, logits=logits)

    @torch.no_grad()
    def best_labels(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The most probable labels ``(B, T)`` of the places that have one in `labels`; -100 at all others."""
        best = self.crf.viterbi(logits.float(), labels != IGNORED).tags
        return best.where(labels != IGNORED, IGNORED)


def align_labels(word_ids: Sequence[int | None], labels: Sequence[int] | None = None) -> list[int]:
    """Labels of words as labels of subwords: the first subword of a word has its label, all else -100.

    Without labels those places have 0, which says to `best_labels` where words begin.

    >>> align_labels([None, 0, 0, 1, None], [3, 4])
    [-100, 3, -100, 4, -100]
    """
    aligned, previous = [], None
    for word in word_ids:
        if word is None or word == previous:
            aligned.append(IGNORED)
        else:
            aligned.append(0 if labels is None else labels[word])
        previous = word
    return aligned
