"""Features of tokens: templates (CRF++ files and ready-made sets) or ready-made dicts, numbered natively."""

from __future__ import annotations

from trellis.features.attributes import AttributeIndex
from trellis.features.extraction import Compiled, Extractor, ReadyExtractor, TemplateExtractor
from trellis.features.ready import READY, get_templates
from trellis.features.templates import Template, Templates

__all__ = [
    "READY",
    "AttributeIndex",
    "Compiled",
    "Extractor",
    "ReadyExtractor",
    "Template",
    "TemplateExtractor",
    "Templates",
    "get_templates",
]
