"""seqeval's names over Trellis: ``from trellis.compat.seqeval.metrics import f1_score`` and nothing else
changes.

Figures, averages, ``zero_division``, the occasions of warnings and the layout of reports are seqeval's
(1.2.2), also on illegal tags and in both modes. What differs:

- It is far faster, and time is linear in the tokens.
- A length mismatch or an unknown prefix is a ``DataError`` or ``TagError`` (both are ``ValueError``)
that names the
  place; seqeval raises a bare ``KeyError`` for a prefix it does not know.
- ``classification_report`` of tags without a single entity is a report; seqeval fails there.
- A label that does not look like an entity tag is warned of once a call, not once a token.
- Schemes are the six that seqeval has; classes derived from ``Token`` with patterns of their own are not
read.
"""

from __future__ import annotations

from trellis.compat.seqeval import metrics, reporters, scheme

__all__ = ["metrics", "reporters", "scheme"]
