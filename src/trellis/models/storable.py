"""How every tagger is written to a file and opened again, and copied between processes."""

from __future__ import annotations

from abc import ABC
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Self

from trellis import config, store
from trellis.errors import ConfigError, StoreError, TagError
from trellis.lexicon.storage import from_stored, to_stored
from trellis.models.estimator import C
from trellis.models.hooks import FamilyHooks
from trellis.models.transforming import Transforming
from trellis.tags import Scheme, Style, TagSet
from trellis.text import Splitter, splitter, splitter_from_dict

_LEARNED = ("tagset_", "tokenizer_", "settings_", "history_", "lexicon_", "lexical_")


class Storable(FamilyHooks[C], Transforming, ABC):
    """`save` and `load`, and pickle for copies."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        tags = self._fitted_tags()
        manifest, arrays = self._state()
        manifest |= {"config": config.to_dict(self.settings_), "labels": list(tags.labels)}
        manifest |= {"scheme": tags.scheme.value, "style": tags.style.value}
        manifest["tokenizer"] = splitter(self.tokenizer_).to_dict()
        if self.lexicon_ is not None:
            manifest["lexicon"], own = to_stored(self.lexicon_)
            arrays |= own
        if self.lexical_:
            manifest["lexical"] = list(self.lexical_)
        store.save(path, self.kind, manifest, arrays)

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> Self:
        """Open a saved model; `verify` compares checksums."""
        return cls.from_stored(store.load(path, cls.kind, verify=verify))

    @classmethod
    def from_stored(cls, stored: store.Stored) -> Self:
        """The model in a file."""
        fields = stored.manifest
        try:
            # Models of versions that did not fold forms have learned without.
            settings = config.from_dict(cls.config_class, _unfolded(cls.config_class) | fields.table("config").values)
        except ConfigError as error:
            problem = "the saved model has settings that this version of Trellis does not know"
            raise StoreError(f"{stored.where}: {problem}: {error}") from None
        model = cls(settings)
        model.settings_ = settings
        model.tagset_ = _stored_tags(stored)
        model.tokenizer_ = _stored_tokenizer(stored)
        model.lexicon_ = from_stored(stored) if "lexicon" in fields else None
        model.lexical_ = tuple(fields.items("lexical", str, type(None))) if "lexical" in fields else ()
        model._restore(stored)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Plain values and arrays, for copies between processes; files are written by `save`."""
        kept: dict[str, Any] = {"config": self.config}
        if hasattr(self, "_sklearn_output_config"):
            kept["output"] = self._sklearn_output_config
        if not self.__sklearn_is_fitted__():
            return kept
        learned = {name: self.__dict__[name] for name in _LEARNED if name in self.__dict__}
        return {**kept, "learned": learned, "state": self._state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        self.__init__(state["config"])  # type: ignore[misc]
        self.set_output(**state.get("output", {}))
        if "learned" in state:
            self.__dict__.update(state["learned"])
            self._restore(store.Stored.of("the pickled model", self.kind, *state["state"]))


def _unfolded(config_class: type[Any]) -> dict[str, Any]:
    return {"fold_width": False} if any(item.name == "fold_width" for item in fields_of(config_class)) else {}


def _stored_tokenizer(stored: store.Stored) -> Splitter:
    """The tokenizer of a file; older versions stored a name."""
    fields = stored.manifest
    if "tokenizer" not in fields:
        return splitter("words")
    if isinstance(fields.value("tokenizer", str, dict), str):
        return splitter(fields.choice("tokenizer", ("words", "characters", "whitespace")))
    return splitter_from_dict(fields.table("tokenizer"))


def _stored_tags(stored: store.Stored) -> TagSet:
    fields = stored.manifest
    labels = fields.texts("labels")
    scheme = Scheme(fields.choice("scheme", [scheme.value for scheme in Scheme]))
    style = Style(fields.choice("style", [style.value for style in Style]))
    if not labels:
        raise StoreError(f"{stored.where}: the saved model has no labels")
    try:
        return TagSet(labels, scheme, style)
    except TagError as error:
        raise StoreError(f"{stored.where}: the saved labels do not fit their scheme: {error}") from None
