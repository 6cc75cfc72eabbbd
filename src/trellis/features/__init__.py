"""Features of tokens: templates (CRF++ files and ready-made sets) or ready-made dicts, numbered natively."""

from __future__ import annotations

from trellis.features.clusters import Clusters
from trellis.features.extract import AttributeIndex, Compiled, Extractor, GivenExtractor, TemplateExtractor
from trellis.features.templates import TEMPLATE_SETS, Template, Templates, get_templates

__all__ = [
    "TEMPLATE_SETS",
    "AttributeIndex",
    "Clusters",
    "Compiled",
    "Extractor",
    "GivenExtractor",
    "Template",
    "TemplateExtractor",
    "Templates",
    "get_templates",
]
