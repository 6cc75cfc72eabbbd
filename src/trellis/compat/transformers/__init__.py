"""Taggers where programs expect transformers: its pipeline, and folders of the Hugging Face Hub.

    pipeline("token-classification", model=...)       texts to dicts, as transformers writes them
    save_pretrained, from_pretrained, push_to_hub     a folder with a model card, here or on the Hub

Nothing here imports transformers; names of the Hub need ``huggingface_hub`` (extra ``hub``).
"""

from __future__ import annotations

from trellis.compat.transformers.hub import from_pretrained, push_to_hub, save_pretrained
from trellis.compat.transformers.pipelines import TokenClassificationPipeline, pipeline

__all__ = ["TokenClassificationPipeline", "from_pretrained", "pipeline", "push_to_hub", "save_pretrained"]
