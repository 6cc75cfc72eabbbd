"""Tag schemes: labels, spans, conversion, validation, and the constraints a scheme puts on a chain."""

from __future__ import annotations

from trellis.tags.detection import Detection, detect, detect_pairs, detect_style, fit_schemes, respelled
from trellis.tags.scheme import Role, Scheme, Style
from trellis.tags.spans import (
    Span,
    SpanTable,
    Violation,
    convert_tags,
    make_label,
    parse_label,
    spans_from_sequences,
    spans_from_tags,
    tags_from_spans,
    try_parse_label,
    validate_tags,
)
from trellis.tags.tagset import AllowedTransitions, SpanWay, StateMap, TagSet, scheme_to_learn

__all__ = [
    "AllowedTransitions",
    "Detection",
    "Role",
    "Scheme",
    "Span",
    "SpanTable",
    "SpanWay",
    "StateMap",
    "Style",
    "TagSet",
    "Violation",
    "convert_tags",
    "detect",
    "detect_pairs",
    "detect_style",
    "fit_schemes",
    "make_label",
    "parse_label",
    "respelled",
    "scheme_to_learn",
    "spans_from_sequences",
    "spans_from_tags",
    "tags_from_spans",
    "try_parse_label",
    "validate_tags",
]
