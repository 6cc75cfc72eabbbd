"""Who may ask, and what browsers may do with the answers."""

import base64
import hmac
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conftest import TEXT, Client, client_of
from trellis.errors import ConfigError
from trellis.server import ModelRegistry, security
from trellis.server.security import LOCAL, Keys

STRANGE = [
    "testserver:80@evil.example",
    "testserver/evil",
    "testserver:x",
    "[::1]evil",
    "testserver evil",
    "@testserver",
]
KEY, OTHER = "correct-horse-battery", "another-long-enough-key"


@pytest.fixture
def locked(registry: ModelRegistry) -> Iterator[Client]:
    yield from client_of(registry, keys=Keys([KEY, OTHER]))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil:80", "testserver.evil", *STRANGE]
)
def test_a_foreign_name_of_this_machine_is_refused(client: Client, host: str) -> None:
    response = client.post("/v1/tag", {"texts": [TEXT]}, headers={"host": host})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "wrong_host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"])
def test_local_names_are_its_own(registry: ModelRegistry, host: str) -> None:
    for client in client_of(registry, hosts=LOCAL):
        assert client.get("/healthz", headers={"host": host}).status_code == 200


def test_any_name_if_asked_for(registry: ModelRegistry) -> None:
    for client in client_of(registry, hosts=("*",)):
        assert client.get("/healthz", headers={"host": "whatever.example"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://testserver:81", "https://testserver.evil"])
def test_a_page_of_another_site_may_not_ask(client: Client, origin: str) -> None:
    response = client.post("/v1/tag", {"texts": [TEXT]}, headers={"origin": origin})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "foreign_origin")
    assert client.post("/v1/tag", {"texts": [TEXT]}, headers={"origin": "http://testserver"}).status_code == 200


def test_what_a_browser_calls_cross_site_is_refused(client: Client) -> None:
    assert client.get("/metrics", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.http.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200  # a link to the page


def test_no_answer_allows_other_sites_or_inline_scripts(client: Client) -> None:
    for response in (client.http.get("/"), client.get("/healthz"), client.http.get("/nothing")):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "access-control-allow-origin" not in response.headers
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "given", [None, "", "Bearer", "Bearer wrong", f"Basic {KEY}", "Basic !", KEY, f"Bearer {KEY}x", "Bearer é"]
)
def test_without_a_key_nothing_is_answered(locked: Client, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given.encode()}
    for path in ("/v1/models", "/metrics"):
        response = locked.get(path, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (401, "no_key")
    assert locked.post("/v1/tag", {"texts": [TEXT]}, headers=headers).status_code == 401


@pytest.mark.parametrize("key", [KEY, OTHER])
def test_any_of_the_keys_opens(locked: Client, key: str) -> None:
    basic = base64.b64encode(f"label-studio:{key}".encode()).decode()  # as Label Studio sends it
    for given in (f"bearer {key}", f"Basic {basic}"):
        response = locked.post("/v1/tag", {"texts": [TEXT]}, headers={"authorization": given})
        assert response.status_code == 200


def test_probes_and_the_page_need_no_key(locked: Client) -> None:
    for path in ("/healthz", "/readyz", "/health", "/", "/docs", "/openapi.json"):
        assert locked.get(path).status_code == 200, path


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, true_compare = [], hmac.compare_digest

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((len(one), len(two)))
        return true_compare(one, two)

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    Keys([KEY, OTHER]).admit(f"Bearer {KEY}")
    assert compared == [(32, 32)] * 2


def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(f"\ufeff{KEY}\n\n")
    monkeypatch.setenv("TRELLIS_API_KEYS", OTHER)
    keys = Keys.read(file)
    assert len(keys) == 2
    for key in (KEY, OTHER):
        keys.admit(f"Bearer {key}")
    assert KEY not in repr(vars(keys))
    monkeypatch.delenv("TRELLIS_API_KEYS")
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="of 5 characters is too short") as refused:
        Keys.read(file)
    assert "short\n" not in str(refused.value)
    file.write_text("")
    with pytest.raises(ConfigError, match="holds no key"):
        Keys.read(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        Keys.read(tmp_path / "nothing")
    assert len(Keys.read(None)) == 0
