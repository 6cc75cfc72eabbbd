"""How far a command is that works through sentences; `trellis.training.progress` does the same for training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trellis.errors import number_of

Tell = Callable[[int, int], None]
"""Called with how many more sentences and tokens are done."""


@contextmanager
def counted(shown: bool) -> Iterator[Tell]:
    """Sentences, tokens and tokens per second on standard error; `shown` says whether someone watches."""
    if not shown:
        yield lambda sentences, tokens: None
        return
    # Imported here, since most runs show nothing and should not wait for rich.
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    # Standard output is left alone: the tagged text may go there.
    with Progress(TextColumn("{task.description}"), console=Console(stderr=True), redirect_stdout=False) as progress:
        line, begin = progress.add_task("0 sentences"), time.monotonic()
        all_sentences = all_tokens = 0

        def tell(sentences: int, tokens: int) -> None:
            nonlocal all_sentences, all_tokens
            all_sentences, all_tokens = all_sentences + sentences, all_tokens + tokens
            rate = all_tokens / max(time.monotonic() - begin, 1e-9)
            said = f"{number_of(all_sentences, 'sentence')}, {number_of(all_tokens, 'token')}, {rate:,.0f} tokens/s"
            progress.update(line, description=said)

        yield tell
