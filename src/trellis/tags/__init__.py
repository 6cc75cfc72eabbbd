"""Tag schemes: labels, spans, conversion, validation, and the constraints a scheme puts on a chain."""

from __future__ import annotations

from trellis.tags.bad_tags import (
    BadTag,
    Mended,
    OnBadTags,
    TagChange,
    check_on_bad_tags,
    mend,
    refusal,
    repair_tags,
    summary,
)
from trellis.tags.detection import Detection, SchemeFit, detect, detect_style, fit_schemes
from trellis.tags.scheme import Role, Scheme, Style
from trellis.tags.spans import (
    Span,
    Violation,
    convert_tags,
    make_label,
    parse_label,
    spans_from_sequences,
    spans_from_tags,
    tags_from_spans,
    validate_tags,
)
from trellis.tags.states import StateMap, scheme_to_learn
from trellis.tags.tagset import AllowedTransitions, SpanSteps, SpanTable, SpanWay, TagSet

__all__ = [
    "AllowedTransitions",
    "BadTag",
    "Detection",
    "Mended",
    "OnBadTags",
    "Role",
    "Scheme",
    "SchemeFit",
    "Span",
    "SpanSteps",
    "SpanTable",
    "SpanWay",
    "StateMap",
    "Style",
    "TagChange",
    "TagSet",
    "Violation",
    "check_on_bad_tags",
    "convert_tags",
    "detect",
    "detect_style",
    "fit_schemes",
    "make_label",
    "mend",
    "parse_label",
    "refusal",
    "repair_tags",
    "scheme_to_learn",
    "spans_from_sequences",
    "spans_from_tags",
    "summary",
    "tags_from_spans",
    "validate_tags",
]
