"""The requests of the guide are requests, and its table names the addresses that there are."""

import json
import re
from pathlib import Path

from tests.server.conftest import Client
from trellis.server import ServerLimits
from trellis.server.openapi import document

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serving.md"


def test_the_requests_of_the_guide_are_answered(client: Client) -> None:
    found = re.findall(r"^curl localhost:8000(\S+) .*? -d '(.*)'$", GUIDE.read_text(), re.MULTILINE)
    assert len(found) >= 4
    for path, body in found:
        assert client.post(path, json.loads(body)).status_code == 200, body


def test_the_guide_names_every_address_that_clients_ask() -> None:
    text, internal = GUIDE.read_text(), ("/v1/annotation", "/v1/corrections", "/v1/next", "/v1/learn")
    assert [
        path for path in document(ServerLimits())["paths"] if path not in text and not path.startswith(internal)
    ] == []


def test_the_limits_of_the_guide_are_those_of_the_code() -> None:
    text, limits = GUIDE.read_text(), ServerLimits()
    assert f"{limits.high_tokens:,} tokens wait" in text
    assert limits.low_tokens * 2 == limits.high_tokens
    assert f"in {limits.seconds:g} seconds" in text
    assert f"at most {limits.lexicon_characters:,} characters" in text
