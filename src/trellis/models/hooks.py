"""What a family of models says about itself; what all taggers do with that is in `trellis.models.base`.

A family says where the scores come from (`_scores`), how it learns (`_learn`), and what it stores (`_state`,
`_restore`); one whose chain has states finer than labels also says which label each of them stands for
(`_state_labels`), one whose transitions depend on their place how many scores a token has (`_cells`), one that
folds full-width forms natively that it does (`_folds_itself`), one that finds the best labels without the scores of a
posterior how (`_decoded`), and one that learns from sentences on disk how (`_learn_stream`). It overrides nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from trellis import chain, store
from trellis.arrays import Arrays, IntArray
from trellis.errors import ModelError, NotFittedError, shown
from trellis.lexicon import Lexicon
from trellis.models.data import Labelled
from trellis.models.estimator import C, Estimator
from trellis.models.fitting import FitOptions
from trellis.models.raw_text import folded
from trellis.models.streams.once import LabelledStream
from trellis.tags import TagSet
from trellis.text import OwnTokenizer, Splitter
from trellis.training import History

LexiconOption = Lexicon | Literal["own"] | None


class FamilyHooks(Estimator[C], ABC):
    """Settings, what was learned, and what each family provides."""

    kind: ClassVar[str]
    free_settings: ClassVar[frozenset[str] | None] = None
    """What may be changed when training is resumed, by dotted names; None if it learns in one go."""
    shares_sentences: ClassVar[bool] = False
    """Whether processes with sentences of their own can train it together; see `trellis.training.processes`."""
    tagset_: TagSet
    settings_: C
    """What it was trained with: `config` with a value for everything that was left unset."""
    tokenizer_: Splitter | str | OwnTokenizer
    """How raw text is split: as the setting `tokenizer` says, or like the training data; may be changed."""
    history_: History
    """The training; it does not exist for a model that was opened from a file."""
    lexicon_: Lexicon | None = None
    """What the model knows about words and names, saved with it; may be set to another one, or to None."""
    lexical_: tuple[str | None, ...] = ()
    """The labels of the lexicon whose matches are features of the model, None for entries without a label."""

    @abstractmethod
    def _learn(self, data: Labelled, dev: Labelled | None, options: FitOptions) -> None:
        """Learn from checked data; sets `tagset_`, `settings_`, `history_` and what `_scores` needs."""

    @abstractmethod
    def _scores(self, inputs: Sequence[Any]) -> chain.ChainScores:
        """Scores of the inputs, by a fitted model."""

    def _state_labels(self) -> IntArray | None:
        """The label of each state of a fitted model's chain; None if the states are the labels."""
        return None

    def _folds_itself(self) -> bool:
        """Whether `_scores` takes inputs as they are given, and folds full-width forms on its own."""
        return False

    def _decoded(self, inputs: Sequence[Any]) -> list[list[str]] | None:
        """The best labels of inputs as they are given; None if a posterior must be asked, for an error too."""
        return None

    def _cells(self) -> int:
        """How many scores a token of a fitted model's chain has: with more of them, fewer sentences make a block."""
        finer = self._state_labels()
        return len(self._fitted_tags()) if finer is None else len(finer)

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """Manifest entries and arrays, from which `_restore` makes the model again."""

    @abstractmethod
    def _restore(self, stored: store.Stored) -> None:
        """The inverse of `_state`, for a file that may contain anything; `tagset_` and `settings_` exist already."""

    def _learn_stream(
        self, stream: LabelledStream, dev: Labelled | None, options: FitOptions, begin: Callable[[str], None]
    ) -> None:
        """Like `_learn`, for families that have the setting `out_of_core`.

        Once the stream is read, `begin` is called with the fingerprint of its sentences.
        """
        raise NotImplementedError

    @property
    def learns_lexicons(self) -> bool:
        """Whether matches of a lexicon can be features."""
        return False

    @property
    def labels_(self) -> tuple[str, ...]:
        """The labels, in the order of their ids."""
        return self._fitted_tags().labels

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is anything to predict with."""
        return hasattr(self, "tagset_")

    def _fitted_tags(self) -> TagSet:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit or load first")
        return self.tagset_

    @property
    def _scheme_asked(self) -> str | None:
        return getattr(self.config, "scheme", None)

    def _lexicons(self, lexicon: LexiconOption) -> list[Lexicon]:
        """The lexicons that count: the model's own, and the one that is given."""
        if lexicon is not None and lexicon != "own" and not isinstance(lexicon, Lexicon):
            raise ModelError(f"lexicon must be a Lexicon, 'own' or None, got {shown(lexicon)}")
        own = [] if lexicon is None or self.lexicon_ is None else [self.lexicon_]
        return [*own, lexicon] if isinstance(lexicon, Lexicon) else own

    def _folded(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs as the model sees them."""
        return folded(inputs) if getattr(self.config, "fold_width", False) else inputs
