"""What a server accepts: every bound in one place, each with the error that a client sees beyond it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from trellis.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Bounds of one request, of the queue, and of a connection."""

    body_bytes: int = 4 * 2**20
    """Of a request; beyond it 413."""
    held_bytes: int = 256 * 2**20
    """Of all requests that are being read or answered; beyond it 429."""
    line_bytes: int = 2**20
    """Of one line of JSON Lines; beyond it an error in its place. The number of lines is free."""
    tokens: int = 100_000
    """Of a request; beyond it 413."""
    sentence_tokens: int = 20_000
    """Of one text, token list, or sentence of a document."""
    k: int = 100
    """Labellings that may be asked for."""
    lexicon_entries: int = 1000
    """Entries of the lexicon of a request."""
    explained_tokens: int = 64
    """Positions that one request may ask reasons for."""
    seconds: float = 30.0
    """From the first byte of a request to its answer; beyond it 503. A request may ask for less."""
    high_tokens: int = 200_000
    """Tokens that wait: beyond it requests get 429 ..."""
    low_tokens: int = 100_000
    """... until no more than these wait."""
    batch_tokens: int = 4096
    """Tokens that a model answers at a time, unless one sentence is longer."""
    linger: float = 0.002
    """Seconds that an idle model waits for company, once requests come together."""
    head_bytes: int = 64 * 2**10
    """Of a request's first line and headers; beyond it 431."""
    head_seconds: float = 10.0
    """In which they must come."""
    connections: int = 1000
    """At a time; beyond it 503."""

    def __post_init__(self) -> None:
        """Refuse bounds that cannot be kept together."""
        for item in fields(self):
            if not getattr(self, item.name) > 0 and item.name != "linger":
                raise ConfigError(f"{item.name} must be positive, got {getattr(self, item.name)}")
        if self.body_bytes > self.held_bytes:
            raise ConfigError(f"body_bytes must be at most held_bytes, {self.held_bytes}, got {self.body_bytes}")
        if not self.low_tokens <= self.high_tokens:
            raise ConfigError(f"low_tokens must be at most high_tokens, {self.high_tokens}, got {self.low_tokens}")
        if self.tokens > self.high_tokens:
            raise ConfigError(f"tokens must be at most high_tokens, {self.high_tokens}, got {self.tokens}")
