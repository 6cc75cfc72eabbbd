"""seqeval's names over Trellis: ``from trellis.compat.seqeval.metrics import f1_score``, and nothing else changes.

Figures, averages, ``zero_division``, warnings and the layout of reports are those of seqeval 1.2.2, also for illegal
tags and in both modes. What differs:

- It is far faster, and time is linear in the tokens.
- A length mismatch or an unknown prefix is a ``DataError`` or ``TagError`` (both are ``ValueError``) that names the
  place; seqeval raises a bare ``KeyError`` for an unknown prefix.
- ``classification_report`` of tags without a single entity is a report; seqeval fails there.
- Labels that do not look like entity tags give one warning per call, not one per token.
- The schemes are the six of seqeval, as classes without instances; those with patterns of their own are not supported.
"""

from __future__ import annotations

from trellis.compat.seqeval import metrics, scheme

__all__ = ["metrics", "scheme"]
