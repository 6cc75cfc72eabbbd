"""Tag schemes: labels, spans, conversion, validation, and the constraints a scheme puts on a chain."""

from __future__ import annotations

from trellis.tags.checking import (
    SchemeFit,
    Violation,
    convert_tags,
    detect_schemes,
    detect_style,
    fit_schemes,
    validate_tags,
)
from trellis.tags.finer import TagStates, scheme_to_learn
from trellis.tags.labels import Role, Style
from trellis.tags.schemes import Scheme
from trellis.tags.spans import (
    Span,
    make_label,
    parse_label,
    spans_from_sequences,
    spans_from_tags,
    tags_from_spans,
)
from trellis.tags.tagset import AllowedTransitions, TagSet
from trellis.tags.writing import SpanTable, SpanWay

__all__ = [
    "AllowedTransitions",
    "Role",
    "Scheme",
    "SchemeFit",
    "Span",
    "SpanTable",
    "SpanWay",
    "Style",
    "TagSet",
    "TagStates",
    "Violation",
    "convert_tags",
    "detect_schemes",
    "detect_style",
    "fit_schemes",
    "make_label",
    "parse_label",
    "scheme_to_learn",
    "spans_from_sequences",
    "spans_from_tags",
    "tags_from_spans",
    "validate_tags",
]
