"""The end of a body in chunks is found in pieces of any size."""

from hypothesis import given
from hypothesis import strategies as st

from trellis.server.chunks import ChunkEnd

CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
EXTENSIONS = st.sampled_from([b"", b";a=b", b" ;" + b"x" * 100])
TRAILERS = st.lists(st.sampled_from([b"A: b\r\n", b"Long: " + b"c" * 100 + b"\r\n"]), max_size=3)


@given(CHUNKS, EXTENSIONS, TRAILERS, st.binary(max_size=50), st.integers(1, 300))
def test_what_follows_is_kept_apart(
    chunks: list[bytes], extension: bytes, trailers: list[bytes], after: bytes, size: int
) -> None:
    body = b"".join(b"%x%b\r\n%b\r\n" % (len(own), extension, own) for own in chunks)
    body += b"0\r\n" + b"".join(trailers) + b"\r\n"
    data, end, place = body + after, ChunkEnd(), 0
    while place < len(body):
        piece = data[place : place + size]
        taken = end.extent(piece)
        assert 0 < taken <= len(piece)
        place += taken
    assert place == len(body)


@given(st.binary(min_size=1, max_size=100))
def test_whatever_comes_something_is_taken(data: bytes) -> None:
    assert 0 < ChunkEnd().extent(data) <= len(data)
