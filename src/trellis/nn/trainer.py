"""An encoder of transformers with a CRF on top, as transformers' own ``Trainer`` expects a model.

    input_ids (B, T) --encoder, dropout, linear--> logits (B, T, L) --CRF over places with a label--> loss

Labels are those of the usual scripts: one per word at its first subword, -100 everywhere else. The chain runs over the
places with a label only, so a transition leads from word to word, whatever number of subwords lies between.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForTokenClassification, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

from trellis.errors import ConfigError
from trellis.nn.crf import CRF
from trellis.tags import Scheme, TagSet

IGNORED = -100


class CRFForTokenClassificationConfig(PretrainedConfig):  # type: ignore[no-untyped-call,unused-ignore]
    """The content of config.json: the encoder's configuration, the labels (`id2label`), their scheme, the dropout."""

    model_type = "trellis-crf"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]

    def __init__(
        self, encoder: dict[str, Any] | None = None, scheme: str | None = None, dropout: float = 0.1, **others: Any
    ) -> None:
        self.encoder, self.scheme, self.dropout = encoder or {}, scheme, dropout
        super().__init__(**others)

    def tag_set(self) -> TagSet | None:
        """The labels with their scheme, if they have one."""
        if self.scheme is None:
            return None
        names: Any = self.id2label
        return TagSet(tuple(names[i] for i in sorted(names)), Scheme(self.scheme))


class CRFForTokenClassification(PreTrainedModel):  # type: ignore[misc,unused-ignore]
    """A token classifier whose loss is that of a CRF: the negative log-likelihood of whole label sequences.

    ``logits`` are the emissions of the CRF. Its best labels need its transitions too: `best_labels` has the arguments
    of ``Trainer(preprocess_logits_for_metrics=...)``, so that metrics see them rather than the largest logits.

    ``save_pretrained`` writes config.json and the weights, and ``from_pretrained`` opens them.

    Args:
        encoder: any encoder of transformers that returns ``last_hidden_state``; or the configuration of a whole model.
        labels: how many; or a `TagSet`, whose scheme then forbids impossible transitions.
        dropout: of the encoder's output.

    """

    config_class = CRFForTokenClassificationConfig
    base_model_prefix = "encoder"

    def __init__(
        self,
        encoder: nn.Module | CRFForTokenClassificationConfig,
        labels: int | TagSet | None = None,
        *,
        dropout: float = 0.1,
    ) -> None:
        if isinstance(encoder, CRFForTokenClassificationConfig):
            super().__init__(encoder)
            initialised = False
            inner = dict(encoder.encoder)
            of_kind: Any = AutoModel
            encoder = of_kind.from_config(AutoConfig.for_model(inner.pop("model_type"), **inner))
        else:
            if labels is None:
                raise ConfigError("labels must be a number or a TagSet, got None")
            own: Any = encoder.config
            initialised = True
            names = labels.labels if isinstance(labels, TagSet) else [f"LABEL_{i}" for i in range(labels)]
            scheme = labels.scheme.value if isinstance(labels, TagSet) else None
            inner = own.to_dict()
            id2label = dict(enumerate(names))
            label2id = {name: i for i, name in id2label.items()}
            super().__init__(
                CRFForTokenClassificationConfig(inner, scheme, dropout, id2label=id2label, label2id=label2id)
            )
        config: Any = self.config
        self.encoder: Any = encoder
        self.dropout = nn.Dropout(config.dropout)
        of_encoder: Any = self.encoder.config
        self.classifier = nn.Linear(int(of_encoder.hidden_size), config.num_labels)
        self.crf = CRF(config.num_labels, batch_first=True, constraints=self._legal(), ignore_index=IGNORED)
        for module in self.modules() if initialised else ():
            module._is_hf_initialized = True  # type: ignore[assignment]
        self.post_init()  # type: ignore[no-untyped-call,unused-ignore]

    def _legal(self) -> tuple[Tensor, Tensor, Tensor] | None:
        config: Any = self.config
        tags = config.tag_set()
        if tags is None:
            return None
        transitions, start, end = map(torch.from_numpy, tags.allowed_transitions())
        return transitions, start, end

    def _init_weights(self, module: nn.Module) -> None:
        """Called for what a checkpoint lacks; the encoder has a method like this for its own modules."""
        if isinstance(module, nn.Linear):
            module.reset_parameters()

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """The model in a folder that ``save_pretrained`` wrote, or of the Hub by its name."""
        loaded = super().from_pretrained(*arguments, **options)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        # Which transitions are legal follows from the labels and is in no checkpoint.
        model.crf._register_constraints(model._legal())
        model.crf.to(model.classifier.weight.device)
        return loaded

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


AutoConfig.register(CRFForTokenClassificationConfig.model_type, CRFForTokenClassificationConfig, exist_ok=True)
AutoModelForTokenClassification.register(CRFForTokenClassificationConfig, CRFForTokenClassification, exist_ok=True)
