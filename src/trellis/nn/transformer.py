"""Any pretrained encoder of Hugging Face as a part of a tagger: words in, one vector per word out.

    sentences --encode--> Subwords --batch--> tensors --forward--> features (B, T, H), mask (B, T)

`encode` runs once, ahead of training, for all sentences; `batch` pads some of them; `forward` runs the encoder and
pools its subwords. A sentence longer than the encoder's window is run in overlapping windows (`trellis.nn.subwords`),
of which the pooling takes each subword where it has most context; no word is ever cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_parameter_registration_hook

from trellis import store
from trellis.arrays import AnyArray, Arrays, Float32Array, IntArray
from trellis.errors import ConfigError, ModelError, StoreError, TrellisError, needed, shown
from trellis.nn.encoder import Batch, Part
from trellis.nn.lstm import BiLSTM, Packing
from trellis.nn.subwords import How, Subwords, SubwordTokenizer, WordPooling, check_window, pad_windows, windows_of
from trellis.ragged import offsets_of
from trellis.store import Stored
from trellis.untrusted import Fields, parse_json

_USUAL_WINDOW = 512  # for encoders whose positions have no end
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_NO_LIMIT = 1_000_000  # tokenizers without a limit have a number of thirty digits there
_SLACK = 64  # weights that are created and not kept, in addition to those that are kept: poolers, decoders
M = TypeVar("M", bound=nn.Module)
Freeze = Literal["nothing", "embeddings", "all"] | int
"""What is not trained; a number means the embeddings and that many layers from the bottom."""
Precision = Literal["float32", "bfloat16"]
_FEATURES = "word features"


class TransformerEncoder(nn.Module):
    """A pretrained encoder, its tokenizer, and the pooling of subwords to words.

    Args:
        model: the encoder, as `load_pretrained` gives it.
        tokenizer: its tokenizer.
        pooling: "mean", "first", "last" or "max" of a word's subwords.
        mix_layers: whether to mix the outputs of all layers with learned weights, or which: 0 is the embeddings, 1 the
            first layer, -1 the last. Without it the last layer is used.
        freeze: "nothing", "embeddings", "all", or a number: the embeddings and that many layers.
        window: the most subwords to run at once, special tokens included; by default as many as the encoder accepts.
        overlap: subwords that neighbouring windows of a long sentence share; by default half a window.
        checkpointing: whether to compute activations twice in training rather than keep them.
        source: where the encoder came from, for storage by reference.

    Attributes:
        output_size: H, the encoder's hidden size.

    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: SubwordTokenizer,
        *,
        pooling: How = "mean",
        mix_layers: bool | Sequence[int] = False,
        freeze: Freeze = "nothing",
        window: int | None = None,
        overlap: int | None = None,
        checkpointing: bool = False,
        source: str | None = None,
    ) -> None:
        super().__init__()
        config: Any = model.config
        self.model = model
        self.tokenizer = tokenizer
        self.source = source
        self.output_size = int(config.hidden_size)
        self.freeze: Freeze = freeze
        self.mixed = _mixed_layers(mix_layers, int(config.num_hidden_layers))
        self.pooling = WordPooling(
            pooling, size=self.output_size, layers=None if self.mixed is None else len(self.mixed)
        )
        positions = position_limit(model)
        limits = [limit for limit in (positions, tokenizer.limit) if limit is not None]
        if window is not None and positions is not None and window > positions:
            raise ConfigError(f"window must be at most {positions}, the positions of the encoder, got {window}")
        # Subwords of the text that fit next to the special tokens, and how many of them windows share.
        special = len(tokenizer.prefix) + len(tokenizer.suffix)
        self.window = (min(limits, default=_USUAL_WINDOW) if window is None else window) - special
        self.overlap = self.window // 2 if overlap is None else overlap
        check_window(self.window, self.overlap)
        freeze_parameters(model, freeze)
        self.checkpointing = checkpointing
        if checkpointing:
            library_model: Any = model
            if not library_model.supports_gradient_checkpointing:
                raise ConfigError(f"{type(model).__name__} has no gradient checkpointing")
            # The name since transformers 5.23, or the one before.
            enable = getattr(model, "activation_checkpointing_enable", None)
            (enable or library_model.gradient_checkpointing_enable)({"use_reentrant": False})
        self.train()  # the encoder may come in any mode

    @classmethod
    def load(cls, source: str | Path, *, offline: bool = False, **options: Any) -> TransformerEncoder:
        """Open a folder, or a model of the Hugging Face Hub by name; options are those of the constructor."""
        return cls(*load_pretrained(source, offline=offline), source=str(source), **options)

    @property
    def frozen(self) -> bool:
        """Whether the whole encoder is frozen, so that its part of the features never changes."""
        return self.freeze == "all"

    def train(self, mode: bool = True) -> TransformerEncoder:
        """As for any module, except that a wholly frozen encoder never uses dropout."""
        super().train(mode)
        if self.frozen:
            self.model.eval()
        return self

    def encode(self, sentences: Sequence[Sequence[str]]) -> Subwords:
        """The subwords of sentences given as words; once, for all of them."""
        subwords = self.tokenizer(sentences)
        model: Any = self.model
        table, largest = getattr(model.get_input_embeddings(), "weight", None), int(subwords.ids.max(initial=0))
        if isinstance(table, Tensor) and largest >= len(table):
            raise ModelError(f"the tokenizer gave subword {largest}, but the encoder knows only 0..{len(table) - 1}")
        return subwords

    def batch(self, subwords: Subwords, sentences: npt.ArrayLike | None = None) -> dict[str, Tensor]:
        """The input tensors of `forward`, of all sentences or of those with the given indices."""
        chosen = subwords if sentences is None else subwords.select(sentences)
        windows = windows_of(chosen.lengths, self.window, self.overlap)
        arrays = pad_windows(windows, chosen, self.tokenizer)
        mask = np.arange(int(chosen.tokens.max(initial=0))) < chosen.tokens[:, None]
        return {name: torch.from_numpy(array) for name, array in (*arrays.items(), ("mask", mask))}

    def forward(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Word features ``(B, T, H)`` and the mask ``(B, T)`` of places that hold a word.

        The batch is one of `batch`, or of a `WordFeatures` computed before.
        """
        on_device = {name: tensor.to(self.pooling.absent.device) for name, tensor in batch.items()}
        mask = on_device["mask"]
        if "pooled" in on_device:
            features = self.pooling.finish(on_device["pooled"].unbind(2), on_device["present"], mask)
        elif on_device["ids"].numel() == 0:
            features = self.pooling.finish(*self._nothing(mask), mask)
        else:
            features = self.pooling(self.states(on_device), on_device["word_ids"], mask, rows=on_device["rows"])
        return features, mask

    def pooled(self, batch: Mapping[str, Tensor]) -> tuple[Sequence[Tensor], Tensor]:
        """The pooling without its weights: each layer ``(B, T, H)``, and which words have subwords ``(B, T)``."""
        if batch["ids"].numel() == 0:
            return self._nothing(batch["mask"])
        return self.pooling.pool(self.states(batch), batch["word_ids"], batch["mask"], rows=batch["rows"])

    def _nothing(self, mask: Tensor) -> tuple[Sequence[Tensor], Tensor]:
        """The pooled layers of words that have no subwords at all."""
        empty = self.pooling.absent.new_zeros(*mask.shape, self.output_size)
        return [empty] * (self.pooling.layers or 1), torch.zeros_like(mask)

    def states(self, batch: Mapping[str, Tensor]) -> list[Tensor]:
        """The encoder's own output, ``(R, S, H)`` for each layer that is used."""
        inputs = {"input_ids": batch["ids"], "attention_mask": batch["attention"]}
        if "types" in batch:
            inputs["token_type_ids"] = batch["types"]
        with torch.no_grad() if self.frozen else nullcontext():
            output = self.model(**inputs, output_hidden_states=self.mixed is not None, return_dict=True)
        if self.mixed is None:
            return [output.last_hidden_state]
        return [output.hidden_states[layer] for layer in self.mixed]

    def options(self) -> dict[str, Any]:
        """The constructor's options, as plain values; together with model and tokenizer they make an equal encoder."""
        special = len(self.tokenizer.prefix) + len(self.tokenizer.suffix)
        return {
            "pooling": self.pooling.how,
            "mix_layers": False if self.mixed is None else list(self.mixed),
            "freeze": self.freeze,
            "window": self.window + special,
            "overlap": self.overlap,
            "checkpointing": self.checkpointing,
        }

    def fingerprint(self) -> str:
        """A hash of what a frozen encoder's features depend on: weights, configuration, tokenizer, pooling."""
        options = {key: value for key, value in self.options().items() if key not in ("freeze", "checkpointing")}
        texts = (json.dumps(options, sort_keys=True), describe(self.model), self.tokenizer.to_json())
        return hash_of(texts, self.model.state_dict())

    def to_arrays(self, *, reference: bool = False) -> tuple[Arrays, dict[str, Any]]:
        """Everything that `from_arrays` needs: arrays by name, and a description that JSON can hold.

        With ``reference`` the encoder's weights and tokenizer stay where they are, and only their place and their
        fingerprint are kept; that works only for a wholly frozen encoder.
        """
        state = self.pooling.state_dict(prefix="pooling.")
        description: dict[str, Any] = {"options": self.options(), "source": self.source}
        if reference:
            if not self.frozen:
                raise ModelError(f"only an encoder with freeze='all' can be stored by reference, got {self.freeze!r}")
            if self.source is None:
                raise ModelError(
                    "this encoder was not loaded from a folder or by name, so there is no place to refer to"
                )
            description["fingerprint"] = self.fingerprint()
        else:
            state |= self.model.state_dict(prefix="model.")
            description |= {"config": describe(self.model), "tokenizer": self.tokenizer.to_json(), "source": None}
        arrays, description["tied"] = arrays_of(state)
        return arrays, description

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, AnyArray], description: Mapping[str, Any], *, where: str = "the stored encoder"
    ) -> TransformerEncoder:
        """Rebuild what `to_arrays` returned: without network and files, or from the place referred to.

        Both may come from anybody. Memory is allocated only for weights that have arrays; `where` is for messages.
        """
        fields = Fields(dict(description), f"{where}: the encoder's description")
        tied, named = fields.table("tied"), dict(arrays)
        for name in tied.values:
            original = tied.text(name)
            if original not in arrays:
                raise StoreError(f"{tied.where}: {name!r} is said to be {original!r}, which is missing")
            named[name] = arrays[original]
        stored = Stored(where, "encoder", fields, named)
        options = _options_of(fields.table("options"))
        return cls._rebuilt(stored, options) if "config" in fields else cls._referred(stored, options)

    @classmethod
    def _rebuilt(cls, stored: Stored, options: dict[str, Any]) -> TransformerEncoder:
        """The encoder whose weights and tokenizer the file holds."""
        tokenizer = SubwordTokenizer.from_json(stored.manifest.text("tokenizer"))
        description = stored.manifest.text("config")

        def make(device: str) -> TransformerEncoder:
            with torch.device(device):
                return cls(rebuild(description, len(stored.arrays)), tokenizer, **options)

        planned = blueprint(partial(make, "meta"), len(stored.arrays), stored.where)
        check_state(planned.state_dict(), stored, "", finite=False)  # buffers may have infinities
        encoder = make("cpu")
        encoder.load_state_dict(_tensors(stored))
        # Run once, so that wrong settings that no shape reveals do not fail in the middle of tagging.
        try:
            with torch.no_grad():
                features, _ = encoder.eval()(encoder.batch(encoder.encode([["a"], ["a", "b"]])))
            if features.shape != (2, 2, encoder.output_size):
                raise ModelError(f"it gives features of shape {tuple(features.shape)}")
        except Exception as error:
            problem = f"the stored encoder does not run: {type(error).__name__}: {error}"
            raise StoreError(f"{stored.where}: {problem}") from error
        return encoder.train()

    @classmethod
    def _referred(cls, stored: Stored, options: dict[str, Any]) -> TransformerEncoder:
        """The encoder from elsewhere; the file has only what is learned after it."""
        encoder = cls.load(stored.manifest.text("source"), **options)
        if encoder.fingerprint() != stored.manifest.text("fingerprint"):
            raise ModelError(
                f"the encoder {encoder.source!r} is not the one that the model was trained with: its weights, "
                "configuration or tokenizer have changed"
            )
        check_state(encoder.pooling.state_dict(prefix="pooling."), stored, "", finite=False)
        encoder.load_state_dict(_tensors(stored) | encoder.model.state_dict(prefix="model."))
        return encoder


def _mixed_layers(mix_layers: bool | Sequence[int], count: int) -> tuple[int, ...] | None:
    """The outputs to mix, counted from the embeddings at 0; None for the last one alone."""
    if isinstance(mix_layers, bool):
        return tuple(range(count + 1)) if mix_layers else None
    if not 0 < len(mix_layers) <= count + 1 or not all(-count - 1 <= layer <= count for layer in mix_layers):
        raise ConfigError(
            f"mix_layers must be true, false or some of {-count - 1}..{count}, where 0 is the embeddings and {count} "
            f"the last layer, got {list(mix_layers)}"
        )
    return tuple(layer % (count + 1) for layer in mix_layers)


def freeze_parameters(encoder: nn.Module, freeze: Freeze) -> None:
    if freeze == "all":
        encoder.requires_grad_(False)
    elif freeze == "embeddings":
        _embeddings(encoder).requires_grad_(False)
    elif freeze != "nothing":
        if isinstance(freeze, bool) or not isinstance(freeze, int):
            raise ConfigError(f"freeze must be 'nothing', 'embeddings', 'all' or a number of layers, got {freeze!r}")
        config: Any = encoder.config
        lists = (module for module in encoder.modules() if isinstance(module, nn.ModuleList))
        layers = next((modules for modules in lists if len(modules) == config.num_hidden_layers), None)
        if layers is None:
            raise ConfigError(
                f"the layers of {type(encoder).__name__} cannot be frozen one by one: it has no list of "
                f"{config.num_hidden_layers} separate layers"
            )
        if not 0 <= freeze <= len(layers):
            raise ConfigError(f"freeze must be in 0..{len(layers)}, the layers of the encoder, got {freeze}")
        for module in (_embeddings(encoder), *layers[:freeze]):
            module.requires_grad_(False)


def _embeddings(encoder: Any) -> nn.Module:
    """The whole block of embeddings if there is one, otherwise the table of subwords."""
    block = getattr(encoder, "embeddings", None)
    return block if isinstance(block, nn.Module) else encoder.get_input_embeddings()


def _transformers() -> Any:
    """The library, imported on first use: that takes seconds."""
    return needed("transformers", "neural", "a pretrained encoder")


def load_pretrained(source: str | Path, *, offline: bool = False) -> tuple[nn.Module, SubwordTokenizer]:
    """A pretrained encoder and its tokenizer; if that fails, a `ModelError` says what was tried.

    Weights come from safetensors, or from pytorch_model.bin read with ``weights_only``; no file is ever unpickled as
    code and no code of a repository is run. Heads and poolers are dropped: what remains gives one vector per subword.

    Args:
        source: a folder with config.json, weights and tokenizer, or the name of a model of the Hugging Face Hub.
        offline: look for a name in the local cache only, as with HF_HUB_OFFLINE in the environment.

    """
    transformers = _transformers()  # huggingface_hub comes with it
    name, offline = _locate(source, offline)
    options = {"trust_remote_code": False, "local_files_only": offline}
    with _quiet(), torch.random.fork_rng(devices=[]):
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, **options)
            model, report = transformers.AutoModel.from_pretrained(name, output_loading_info=True, **options)
        except Exception as error:  # the libraries below raise errors of many kinds for files of many kinds
            hub = "offline, so not on the Hub" if offline else "then on the Hub"
            tried = f"it is not a folder here; it was looked for in the cache {_hub_constants().HF_HUB_CACHE}, {hub}"
            if Path(name).is_dir():
                tried = "it was looked for in that folder"
            raise ModelError(
                f"the encoder {name!r} cannot be loaded: {tried}. {type(error).__name__}: {error}"
            ) from error
    encoder = _encoder_of(model)
    # Weights that the files lack would be random numbers.
    prefix = next(prefix for prefix, module in model.named_modules() if module is encoder)
    weights = {f"{prefix}.{key}" if prefix else key for key in encoder.state_dict()}
    lacking = sorted(set(report["missing_keys"]) & weights)
    if lacking:
        raise ModelError(
            f"the encoder {name!r} is incomplete: its files lack {len(lacking)} of {len(weights)} weights of "
            f"{type(encoder).__name__}, such as {lacking[0]}"
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer of {name!r} is slow ({type(tokenizer).__name__}): a fast one (tokenizer.json) is needed, "
            "since only a fast one says which word a subword belongs to"
        )
    limit, pad = tokenizer.model_max_length, tokenizer.pad_token_id
    return encoder, SubwordTokenizer(
        tokenizer.backend_tokenizer,
        pad=0 if pad is None else int(pad),
        limit=int(limit) if limit is not None and limit < _NO_LIMIT else None,
    )


def _locate(source: str | Path, offline: bool) -> tuple[str, bool]:
    """A complete folder, or a name of the Hub, for transformers; and whether to stay offline."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        # Look only for what is needed: the folder may come from a model file that anybody wrote.
        for wanted in (("config.json",), _WEIGHTS):
            if not any((folder / name).is_file() for name in wanted):
                raise ModelError(f"the encoder in {str(folder)!r} cannot be loaded: it has no {' or '.join(wanted)}")
        return str(folder), True
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or folder.exists():
        raise ModelError(f"the encoder {str(source)!r} cannot be loaded: there is no such folder")
    offline = offline or bool(_hub_constants().HF_HUB_OFFLINE)
    return source, offline or os.environ.get("TRANSFORMERS_OFFLINE") == "1"


def _hub_constants() -> Any:
    return import_module("huggingface_hub.constants")


def _encoder_of(model: Any) -> nn.Module:
    """The part that gives subword states, in float32."""
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder.float()  # type: ignore[no-any-return]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from printing bars and reports; important ones are raised as errors here."""
    logging, hub = _transformers().utils.logging, import_module("huggingface_hub.utils.logging")
    verbosity, bars, hub_verbosity = logging.get_verbosity(), logging.is_progress_bar_enabled(), hub.get_verbosity()
    logging.set_verbosity_error()
    hub.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        hub.set_verbosity(hub_verbosity)
        if bars:
            logging.enable_progress_bar()


def describe(encoder: nn.Module) -> str:
    """The encoder's configuration as JSON, without its source."""
    config: Any = encoder.config
    values = parse_json(config.to_json_string(use_diff=False))
    return json.dumps({key: value for key, value in values.items() if key not in ("_name_or_path", "auto_map")})


def rebuild(description: str, most_layers: int) -> nn.Module:
    """An encoder of the configuration that `describe` returned; its weights are still to be loaded."""
    transformers = _transformers()
    try:
        kind, values = _checked(parse_json(description), most_layers)
        with _quiet(), torch.random.fork_rng(devices=[]):
            config = transformers.AutoConfig.for_model(kind, **values)
            return _encoder_of(transformers.AutoModel.from_config(config, trust_remote_code=False))
    except TrellisError:
        raise
    except Exception as error:
        raise StoreError(f"the stored encoder cannot be rebuilt: {type(error).__name__}: {error}") from error


def _checked(description: Any, most_layers: int) -> tuple[str, dict[str, Any]]:
    """The kind of encoder and its settings, without settings that fetch weights or code from elsewhere."""
    fields = Fields(description, "the stored encoder's configuration")
    for name, value in fields.values.items():
        if ("backbone" in name and value) or (isinstance(value, dict) and "model_type" in value):
            raise StoreError(f"{fields.where}: an encoder made of others is not supported, got {name!r}")
        if "layer" in name and isinstance(value, int) and value > most_layers:
            raise StoreError(f"{fields.where}: {name!r} is {shown(value)}, but the file has {most_layers} arrays")
    foreign = ("model_type", "auto_map", "quantization_config")
    ours = {k: v for k, v in fields.values.items() if k not in foreign and "implementation" not in k and k[:1] != "_"}
    # Rows per chunk: changes no result, but fails for sentences of other lengths.
    return fields.text("model_type"), ours | {"chunk_size_feed_forward": 0}


def position_limit(encoder: nn.Module) -> int | None:
    """How many subwords the encoder has positions for, special tokens included; None without a limit."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    for name, module in encoder.named_modules():
        is_table = isinstance(module, nn.Embedding) and name.endswith("position_embeddings")
        if is_table and module.padding_idx is not None:
            return positions - int(module.padding_idx) - 1  # RoBERTa and similar models count from the padding on
    return positions


def blueprint(make: Callable[[], M], arrays: int, where: str) -> M:
    """The network that `make` builds on torch's meta device, where a weight has a shape and no memory.

    A file may claim a million layers or a width of ten million: it stops at far more weights than there are arrays.
    `check_state` compares the shapes with the arrays that the file does hold.
    """
    owner, limit, seen = threading.get_ident(), 4 * arrays + _SLACK, 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal seen
        seen += threading.get_ident() == owner
        if seen > limit:
            raise StoreError(f"{where}: the saved settings describe more than {limit} weights, which the file lacks")

    hook = register_module_parameter_registration_hook(count)
    try:
        return make()
    except TrellisError:
        raise
    except Exception as error:  # torch and transformers raise errors of many kinds for impossible sizes
        raise StoreError(f"{where}: the saved settings describe no network: {type(error).__name__}: {error}") from error
    finally:
        hook.remove()


def check_state(
    state: Mapping[str, Tensor], stored: Stored, prefix: str, *, finite: bool = True, left_out: str | None = None
) -> None:
    """The arrays under the prefix must be exactly those of the state, each of its type and shape.

    Args:
        state: names and shapes that are expected.
        stored: the file.
        prefix: of the arrays' names.
        finite: whether infinities are refused; NaN always is.
        left_out: names of the state with this prefix are not expected in the file.

    """
    wanted = {name: tensor for name, tensor in state.items() if not (left_out and name.startswith(left_out))}
    stored.refuse_others(prefix, wanted)
    for name, tensor in wanted.items():
        limits = () if finite or not tensor.is_floating_point() else (-torch.inf, torch.inf)
        stored.array(f"{prefix}{name}", str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), *limits)


def arrays_of(state: Mapping[str, Tensor]) -> tuple[Arrays, dict[str, str]]:
    """Arrays of a state dict, numbers as float32, each shared tensor once, and its other names."""
    arrays: Arrays = {}
    tied: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    for name, tensor in state.items():
        storage = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() and storage in seen:
            tied[name] = seen[storage]
            continue
        seen[storage] = name
        arrays[name] = (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().numpy().copy()
    return arrays, tied


def hash_of(texts: Iterable[str], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of texts and of names, types, shapes and bytes of tensors."""
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(content)} ".encode() + content)
    for name, tensor in sorted(state.items()):
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _tensors(stored: Stored) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)) for name, array in stored.arrays.items()}


def _options_of(fields: Fields) -> dict[str, Any]:
    """The constructor's options in a file; the constructor checks their values."""
    mixed = fields.value("mix_layers", bool, list)
    sizes = {name: fields.integer(name, 0, 2**31) for name in ("window", "overlap")}
    return {
        "pooling": fields.text("pooling"),
        "mix_layers": mixed if isinstance(mixed, bool) else list(fields.integers("mix_layers", -(2**31), 2**31)),
        "freeze": fields.value("freeze", str, int),
        "checkpointing": fields.value("checkpointing", bool),
        **sizes,
    }


def set_precision(module: nn.Module, precision: Precision) -> None:
    """Let all linear layers of the module compute in this precision: for tagging, never for training.

    CPUs with AVX-512 BF16 or AMX multiply twice as many numbers of bfloat16 at a time. The layers take a copy of their
    weights; everything between them (norms, activations, sums) stays in single precision, and so does what is saved.
    """
    for layer in module.modules():
        if type(layer) is nn.Linear:
            vars(layer).pop("forward", None)
            if precision == "bfloat16":
                bias = None if layer.bias is None else layer.bias.detach().bfloat16()
                weight = layer.weight.detach().bfloat16()
                layer.forward = partial(_linear, weight, bias)  # type: ignore[method-assign]


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    return F.linear(x.to(torch.bfloat16), weight, bias).to(x.dtype)


@dataclass(frozen=True, slots=True)
class WordFeatures:
    """The features that a frozen encoder gives sentences, one row per word."""

    pooled: Float32Array  # (N, layers, H)
    present: npt.NDArray[np.uint8]  # (N,) 1 for words that have subwords
    tokens: IntArray  # (B,) words of each sentence

    def __len__(self) -> int:
        return len(self.tokens)

    def batch(self, sentences: npt.ArrayLike | None = None) -> dict[str, Tensor]:
        """Tensors for the encoder's ``forward``, of all sentences or of those with the given indices."""
        chosen = np.arange(len(self)) if sentences is None else np.asarray(sentences, dtype=np.int64).reshape(-1)
        tokens = self.tokens[chosen]
        mask = np.arange(int(tokens.max(initial=0))) < tokens[:, None]
        places = (offsets_of(self.tokens)[chosen][:, None] + np.arange(mask.shape[1]))[mask]
        pooled = np.zeros((*mask.shape, *self.pooled.shape[1:]), dtype=np.float32)
        present = np.zeros(mask.shape, dtype=bool)
        pooled[mask], present[mask] = self.pooled[places], self.present[places]
        arrays = {"pooled": pooled, "present": present, "mask": mask}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


class FeatureCache:
    """Word features of a frozen encoder, computed once and kept in a folder.

    The name of a file is a hash of everything that its content depends on (weights, configuration, tokenizer, pooling,
    tokens), so that nothing stale is ever read. What is learned after the encoder (mix of layers, the vector of words
    without subwords) is not in the file and stays trainable.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def features(self, encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> WordFeatures:
        """The features of these sentences: from the folder if they are there, otherwise computed and kept."""
        _check_frozen(encoder)  # also if an equal frozen encoder has left them in the folder
        path = self.path(encoder, sentences)
        try:
            return self._stored(path, encoder, sentences)
        except StoreError:  # absent or damaged
            features = compute_features(encoder, encoder.encode(sentences))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be made: {error.strerror}") from None
        arrays: dict[str, Any] = {name: getattr(features, name) for name in WordFeatures.__slots__}
        store.save(path, _FEATURES, {}, arrays)
        return features

    def _stored(self, path: Path, encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> WordFeatures:
        """The features of a file, which must be of these sentences and of the form that this encoder gives."""
        stored = store.load(path, _FEATURES)
        tokens = stored.array("tokens", np.int64, (len(sentences),))
        if tokens.tolist() != list(map(len, sentences)):
            raise stored.refused("tokens", "must be the lengths of the sentences")
        N, layers = int(tokens.sum()), encoder.pooling.layers or 1
        pooled = stored.array("pooled", np.float32, (N, layers, encoder.output_size), -np.inf, np.inf)
        return WordFeatures(pooled, stored.array("present", np.uint8, (N,), 0, 1), tokens)

    def path(self, encoder: TransformerEncoder, sentences: Sequence[Sequence[str]]) -> Path:
        words = (text for words in sentences for text in (str(len(words)), *words))
        return self.folder / f"{hash_of((encoder.fingerprint(), *words), {})}.features"


def compute_features(encoder: TransformerEncoder, subwords: Subwords) -> WordFeatures:
    """Run a frozen encoder over sentences, those of similar length together."""
    _check_frozen(encoder)
    starts = offsets_of(subwords.tokens)
    layers = encoder.pooling.layers or 1
    pooled = np.zeros((int(starts[-1]), layers, encoder.output_size), dtype=np.float32)
    present = np.zeros(len(pooled), dtype=np.uint8)
    device = encoder.pooling.absent.device
    with torch.no_grad():
        for chosen in subwords.by_length(device.type):
            batch = {name: tensor.to(device) for name, tensor in encoder.batch(subwords, chosen).items()}
            values, has_subwords = encoder.pooled(batch)
            mask = batch["mask"]
            places = (torch.from_numpy(starts[chosen])[:, None] + torch.arange(mask.shape[1]))[mask.cpu()].numpy()
            pooled[places] = torch.stack([layer[mask] for layer in values], dim=1).float().cpu().numpy()
            present[places] = has_subwords[mask].cpu().numpy()
    return WordFeatures(pooled, present, subwords.tokens)


def _check_frozen(encoder: TransformerEncoder) -> None:
    if not encoder.frozen:
        raise ModelError(f"only the features of an encoder with freeze='all' can be kept, got {encoder.freeze!r}")


class PretrainedPart(Part):
    """The features of a pretrained transformer, one row per word.

    With `hidden`, BiLSTM layers read its subwords, window by window, before these are pooled to words.
    """

    def __init__(
        self, transformer: TransformerEncoder, *, hidden: int = 0, layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.output_size = hidden or transformer.output_size
        self.lstm = BiLSTM(transformer.output_size, hidden, layers, dropout=dropout) if hidden else None
        self.pooling = WordPooling(transformer.pooling.how, size=hidden) if hidden else None

    def forward(self, batch: Batch) -> Tensor:
        assert batch.pretrained is not None
        if self.pooling is None:
            features, mask = self.transformer(batch.pretrained)
            flat: Tensor = features[mask]
            return flat
        assert self.lstm is not None
        given = {name: tensor.to(self.pooling.absent.device) for name, tensor in batch.pretrained.items()}
        mask = given["mask"]
        if given["ids"].numel() == 0:
            return self.pooling.absent.expand(int(mask.sum()), -1)
        (states,), real = self.transformer.states(given), given["attention"].bool()  # real: [R, S], no padding
        read = self.lstm(states[real], Packing.of(real.sum(dim=1).cpu().numpy()).to(states.device))
        padded = states.new_zeros(*real.shape, self.output_size)
        padded = padded.masked_scatter(real[..., None], read.to(states.dtype))
        words: Tensor = self.pooling(padded, given["word_ids"], mask, rows=given["rows"])
        return words[mask]
