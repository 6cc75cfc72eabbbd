"""Features of tokens: templates (CRF++ files and ready-made sets) or ready-made dicts, numbered natively."""

from __future__ import annotations

from trellis.features.attributes import AttributeIndex
from trellis.features.clusters import Clusters
from trellis.features.extraction import Compiled, Extractor, GivenExtractor, TemplateExtractor
from trellis.features.template_sets import TEMPLATE_SETS, get_templates
from trellis.features.templates import Template, Templates

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
