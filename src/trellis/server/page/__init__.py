"""The page: static files, without a build step and without network access."""

from __future__ import annotations

from importlib import resources

_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, tuple[bytes, str]]:
    """Content and media type of each file, by name."""
    found = {}
    for file in resources.files(__name__).iterdir():
        media = _MEDIA.get(file.name[file.name.rfind(".") :])
        if media is not None:
            found[file.name] = file.read_bytes(), media
    return found
