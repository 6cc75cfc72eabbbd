"""Files as a newer version of Trellis would have written them."""

import json
import zlib
from pathlib import Path


def as_of_format(version: int, path: Path) -> None:
    """Let a file say that it has this format."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    own = json.loads(header["__metadata__"]["trellis"].partition(" ")[2])
    text = json.dumps({**own, "format": version})
    header["__metadata__"]["trellis"] = f"{zlib.crc32(text.encode()):08x} {text}"
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content[end:])
