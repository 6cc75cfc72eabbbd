"""Tag schemes: labels, spans, conversion, validation, and the constraints a scheme puts on a chain."""

from __future__ import annotations

from trellis.tags.checking import Violation, convert_tags, validate_tags
from trellis.tags.detection import Detection, SchemeFit, detect, detect_schemes, detect_style, fit_schemes
from trellis.tags.finer import TagStates, scheme_to_learn
from trellis.tags.labels import Role, Style
from trellis.tags.mending import (
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
from trellis.tags.schemes import Scheme
from trellis.tags.spans import (
    Span,
    make_label,
    parse_label,
    spans_from_sequences,
    spans_from_tags,
    tags_from_spans,
)
from trellis.tags.tagset import AllowedTransitions, SpanSteps, TagSet
from trellis.tags.writing import SpanTable, SpanWay

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
    "Style",
    "TagChange",
    "TagSet",
    "TagStates",
    "Violation",
    "check_on_bad_tags",
    "convert_tags",
    "detect",
    "detect_schemes",
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
