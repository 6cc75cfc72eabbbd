"""Pretrained encoders of Hugging Face: opened from a folder or the cache by name, or rebuilt from a description.

Weights come from safetensors, or from pytorch_model.bin read with ``weights_only``; no file is ever unpickled as code
and no code of a repository is run. Heads and poolers are dropped: what remains gives one vector per subword.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trellis.errors import ModelError, StoreError, TrellisError, shown
from trellis.nn.subwords import SubwordTokenizer
from trellis.optional import needed
from trellis.untrusted import Fields, parse_json

_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
_NO_LIMIT = 1_000_000  # tokenizers without a limit have a number of thirty digits there


def _transformers() -> Any:
    """The library, imported on first use: that takes seconds."""
    return needed("transformers", "neural", "a pretrained encoder")


def load_pretrained(source: str | Path, *, offline: bool = False) -> tuple[nn.Module, SubwordTokenizer]:
    """The encoder and its tokenizer; if that fails, a `ModelError` says what was tried.

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
            model, found = transformers.AutoModel.from_pretrained(name, output_loading_info=True, **options)
        except Exception as error:  # the libraries below raise errors of many kinds for files of many kinds
            raise ModelError(_failure(name, offline, error)) from error
    encoder = _encoder_of(model)
    _check_complete(name, model, encoder, found["missing_keys"])
    return encoder, _subword_tokenizer(name, tokenizer)


def _locate(source: str | Path, offline: bool) -> tuple[str, bool]:
    """What to pass to transformers: a complete folder, or a name and whether to stay offline."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        return str(folder), True
    if isinstance(source, Path) or source.startswith((".", "/", "~")) or folder.exists():
        raise ModelError(f"the encoder {str(source)!r} cannot be loaded: there is no such folder")
    from huggingface_hub import constants

    return source, offline or bool(constants.HF_HUB_OFFLINE) or os.environ.get("TRANSFORMERS_OFFLINE") == "1"


def _check_folder(folder: Path) -> None:
    """Look only for what is needed: the folder may come from a model file that anybody wrote."""
    for wanted in (("config.json",), _WEIGHTS):
        if not any((folder / name).is_file() for name in wanted):
            raise ModelError(f"the encoder in {str(folder)!r} cannot be loaded: it has no {' or '.join(wanted)}")


def _failure(name: str, offline: bool, error: Exception) -> str:
    if Path(name).is_dir():
        tried = "it was looked for in that folder"
    else:
        from huggingface_hub import constants

        hub = "offline, so not on the Hub" if offline else "then on the Hub"
        tried = f"it is not a folder here; it was looked for in the cache {constants.HF_HUB_CACHE}, {hub}"
    return f"the encoder {name!r} cannot be loaded: {tried}. {type(error).__name__}: {error}"


def _encoder_of(model: Any) -> nn.Module:
    """The part that gives subword states, in float32."""
    encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    module: nn.Module = encoder.float()
    return module


def _check_complete(name: str, model: nn.Module, encoder: nn.Module, missing: Any) -> None:
    """Refuse files with missing weights, which would be random numbers."""
    prefix = next(prefix for prefix, module in model.named_modules() if module is encoder)
    kept = {f"{prefix}.{key}" if prefix else key for key in encoder.state_dict()}
    lacking = sorted(set(missing) & kept)
    if lacking:
        raise ModelError(
            f"the encoder {name!r} is incomplete: its files lack {len(lacking)} of {len(kept)} weights of "
            f"{type(encoder).__name__}, such as {lacking[0]}"
        )


def _subword_tokenizer(name: str, tokenizer: Any) -> SubwordTokenizer:
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(
            f"the tokenizer of {name!r} is slow ({type(tokenizer).__name__}): a fast one (tokenizer.json) is needed, "
            "since only a fast one says which word a subword belongs to"
        )
    limit = tokenizer.model_max_length
    pad = tokenizer.pad_token_id
    return SubwordTokenizer(
        tokenizer.backend_tokenizer,
        pad=0 if pad is None else int(pad),
        limit=int(limit) if limit is not None and limit < _NO_LIMIT else None,
    )


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
    kept = {k: v for k, v in fields.values.items() if k not in foreign and "implementation" not in k and k[:1] != "_"}
    # Rows per chunk: changes no result, but fails for sentences of other lengths.
    return fields.text("model_type"), kept | {"chunk_size_feed_forward": 0}


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
