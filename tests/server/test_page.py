"""The page in a real browser: tagging, the trellis, corrections, learning, and texts that try to be HTML."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.server.process import Running, running, until
from trellis import demo
from trellis.models import CRF, folder
from trellis.text import hue

VARIABLE = "TRELLIS_CHROMIUM"
BROWSER = os.environ.get(VARIABLE) or shutil.which("chromium") or shutil.which("chromium-browser")
SHOTS = os.environ.get("TRELLIS_SCREENSHOTS")
needs_browser = pytest.mark.skipif(BROWSER is None, reason=f"no browser: install chromium, or name one in {VARIABLE}")
TEXT = "Farid Ito flew to London on Monday. Jordan met Washington in May."
PATIENCE = 20_000  # milliseconds


@pytest.fixture(scope="session")
def demo_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("page")
    english, chinese = demo.english(), demo.chinese()
    folder.save_model(folder.prepare(place / "ner"), CRF(features="ner", c2=0.1).fit(english.train[:300]))
    folder.save_model(folder.prepare(place / "seg"), CRF(features="seg", c2=0.1).fit(chinese.train[:300]))
    (place / "pool.txt").write_text("\n".join(" ".join(sentence.tokens) for sentence in english.test[:20]))
    return {"ner": place / "ner", "seg": place / "seg", "pool": place / "pool.txt"}


@pytest.fixture(scope="module")
def server(demo_models: dict[str, Path]) -> Iterator[Running]:
    with running(demo_models["ner"], demo_models["seg"]) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


class Problems(list[str]):
    """What the browser complained about: errors of scripts, and what the policy of the page forbids."""


@pytest.fixture
def page(browser: Browser, server: Running) -> Iterator[Page]:
    yield from opened(browser, server)


def opened(browser: Browser, server: Running, **options: Any) -> Iterator[Page]:
    context = browser.new_context(**{"locale": "en-GB", "viewport": {"width": 1100, "height": 900}} | options)
    found, problems = context.new_page(), Problems()
    found.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    elsewhere = Problems()
    found.on(
        "request", lambda request: elsewhere.append(request.url) if not request.url.startswith(server.url) else None
    )
    found.goto(server.url)
    found.wait_for_selector("html[data-ready]:not([data-busy])")
    yield found
    context.close()
    assert elsewhere == []
    assert [one for one in problems if "status of 4" not in one] == []


def fill(page: Page, text: str) -> None:
    with asked(page, "trellis"):
        page.locator("#text").fill(text)


@contextmanager
def asked(page: Page, path: str) -> Iterator[None]:
    """Until what the block asks for is answered and shown."""
    with page.expect_response(f"**/v1/{path}"):
        yield
    page.wait_for_selector("html:not([data-busy])")


def shot(page: Page, name: str) -> None:
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}.png", full_page=True)


def span(page: Page, text: str) -> Any:
    return page.locator(".span", has_text=text).first


def menu(page: Page, name: str) -> Any:
    return page.get_by_role("menuitem", name=name)


@needs_browser
def test_a_text_is_tagged_while_it_is_typed(page: Page) -> None:
    fill(page, TEXT)
    expect(page.locator(".sentence")).to_have_count(2)
    expect(span(page, "London")).to_have_attribute("data-shown", re.compile(r"^LOC 0\.\d\d|^LOC 1\.00"))
    assert page.locator("#result").inner_text().split() == TEXT.split()
    shot(page, "tagged")


@needs_browser
def test_the_trellis_shows_numbers_and_can_be_walked_by_keys(page: Page) -> None:
    fill(page, TEXT)
    expect(page.locator("#trellis svg[role=group]")).to_be_visible()
    assert page.locator("#trellis line.best").count() == 7
    page.locator("#trellis .node[tabindex='0']").focus()
    first = page.locator("#number").inner_text()
    page.keyboard.press("ArrowRight")
    second = page.locator("#number").inner_text()
    assert first.startswith("Farid: ")
    assert second.startswith("Ito: ")
    page.locator("#trellis .node").nth(2).hover()
    expect(page.locator("#number")).not_to_have_text(second)
    assert page.locator("#paths tbody tr").count() == 5


@needs_browser
def test_a_correction_conditions_the_rest_and_can_be_undone(page: Page) -> None:
    fill(page, "Jordan met Washington in May.")
    before = page.locator("#result").inner_html()
    span(page, "Jordan").click()
    with asked(page, "trellis"):
        menu(page, "LOC").click()
    expect(span(page, "Jordan")).to_have_attribute("data-shown", "LOC 1.00")
    expect(span(page, "Jordan")).to_have_class("span confirmed")
    shot(page, "corrected")
    with asked(page, "trellis"):
        page.locator("#undo").click()
    expect(page.locator("#undo")).to_be_disabled()
    assert page.locator("#result").inner_html() == before


@needs_browser
def test_everything_can_be_done_by_keys(page: Page) -> None:
    fill(page, "Jordan met Washington in May.")
    page.locator("#result").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#said")).to_contain_text("Washington")
    with asked(page, "trellis"):
        page.keyboard.press("Delete")
    expect(page.locator(".span", has_text="Washington")).to_have_count(0)
    page.keyboard.press("Shift+ArrowRight")
    with asked(page, "trellis"):
        page.keyboard.press("2")
    label = page.evaluate("document.querySelector('.span.confirmed').dataset.label")
    expect(page.locator(".span.confirmed", has_text="Washington in")).to_have_attribute("data-label", label)
    with asked(page, "explain"):
        page.keyboard.press("w")
    expect(page.locator("#why table")).to_be_visible()
    for _ in range(2):
        with asked(page, "trellis"):
            page.keyboard.press("Control+z")
    expect(page.locator(".span.confirmed")).to_have_count(0)
    with asked(page, "trellis"):
        page.keyboard.press("Enter")
    expect(page.locator(".span.confirmed", has_text="Washington")).to_have_count(1)
    page.keyboard.press(" ")
    expect(page.locator("#menu button").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#result")).to_be_focused()
    page.keyboard.press(" ")
    page.keyboard.press("ArrowDown")
    with asked(page, "trellis"):
        page.keyboard.press("Enter")
    expect(page.locator("#result")).to_be_focused()


@needs_browser
def test_corrections_stay_while_one_types_elsewhere_and_undo_finds_them(page: Page) -> None:
    first, second = "Jordan met Washington in May.", "It rained in Paris."
    fill(page, f"{first} {second}")
    span(page, "Jordan").click()
    with asked(page, "trellis"):
        menu(page, "LOC").click()
    page.locator(".sentence").nth(1).locator("[data-token='0']").click()
    with asked(page, "trellis"):
        page.keyboard.press("3")
    expect(page.locator(".span.confirmed")).to_have_count(2)
    fill(page, f"Hello. {first} And then {second[0].lower()}{second[1:]}")
    expect(page.locator(".span.confirmed")).to_have_text(["Jordan"])
    expect(span(page, "Jordan")).to_have_attribute("data-shown", "LOC 1.00")
    fill(page, f"Hello. {first} {second}")  # what comes back has its corrections again
    expect(page.locator(".span.confirmed")).to_have_text(["Jordan", "It"])
    fill(page, f"{first} Bye.")
    with asked(page, "trellis"):
        page.locator("#undo").click()  # of what is there
    expect(page.locator(".span.confirmed")).to_have_count(0)
    expect(page.locator("#undo")).to_be_disabled()
    fill(page, second)
    expect(page.locator(".span.confirmed")).to_have_text(["It"])
    with asked(page, "trellis"):
        page.locator("#undo").click()
    expect(page.locator(".span.confirmed")).to_have_count(0)


@needs_browser
def test_the_label_of_a_span_can_be_clicked_too(page: Page) -> None:
    fill(page, "Farid Ito flew to London on Monday.")
    box = span(page, "Farid").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] - 10, box["y"] + box["height"] / 2)
    expect(menu(page, "Confirm")).to_be_visible()
    expect(page.locator("#said")).to_contain_text("Farid Ito")


@needs_browser
def test_equal_sentences_are_corrected_together(page: Page) -> None:
    fill(page, "Jordan met Ada. Jordan met Ada.")
    page.locator(".sentence").nth(1).locator("[data-token='0']").click()
    with asked(page, "trellis"):
        menu(page, "LOC").click()
    expect(page.locator(".span.confirmed")).to_have_text(["Jordan", "Jordan"])


@needs_browser
def test_the_menu_closes_after_a_choice_and_when_the_text_changes(page: Page) -> None:
    fill(page, "Jordan met Washington in May.")
    label = page.locator(".span").first.get_attribute("data-label")
    for choose in (
        lambda: menu(page, "LOC").click(),
        lambda: page.keyboard.press("3"),
        lambda: page.keyboard.press("Enter"),
        lambda: page.keyboard.press("Delete"),
    ):
        page.locator("[data-token='0']").click()
        expect(page.locator("#menu")).to_be_visible()
        with asked(page, "trellis"):
            choose()
        expect(page.locator("#menu")).to_be_hidden()
    expect(page.locator("[data-token='0']")).to_have_class(re.compile("outside"))
    page.locator("[data-token='0']").click()
    with asked(page, "explain"):
        page.keyboard.press("w")
    expect(page.locator("#menu")).to_be_hidden()
    page.locator("[data-token='0']").click()
    fill(page, "Jordan slept.")
    expect(page.locator("#menu")).to_be_hidden()
    assert label


@needs_browser
@pytest.mark.parametrize(("key", "label"), [("3", "ORG"), ("2", "LOC"), ("Delete", None)])
def test_keys_that_the_menu_shows_work_in_it(page: Page, key: str, label: str | None) -> None:
    fill(page, "Jordan met Washington in May.")
    page.locator("#result").focus()
    page.keyboard.press(" ")
    page.keyboard.press("End")
    expect(menu(page, "Why")).to_be_focused()
    with asked(page, "trellis"):
        page.keyboard.press(key)
    expect(page.locator("#menu")).to_be_hidden()
    expect(page.locator("#result")).to_be_focused()
    found = page.locator(".span.confirmed").evaluate_all("spans => spans.map(one => one.dataset.label)")
    assert found == ([label] if label else [])


@needs_browser
def test_emptied_text_empties_everything(page: Page) -> None:
    fill(page, TEXT)
    page.locator("[data-token='0']").first.click()
    menu(page, "Why").click()
    expect(page.locator("#why table")).to_be_visible()
    page.locator("#text").fill("")
    expect(page.locator("#result")).to_have_text("There is no text yet.")
    for name in ("trellis", "paths", "why", "number", "said", "legend", "problem"):
        assert page.locator(f"#{name}").inner_text() == "", name
    expect(page.locator("#details")).to_be_hidden()
    expect(page.locator("#undo")).to_be_disabled()
    expect(page.locator("#complete")).to_be_disabled()
    fill(page, TEXT)
    expect(page.locator("#details")).to_be_visible()


@needs_browser
@pytest.mark.parametrize("width", [380, 1100])
def test_a_long_word_does_not_make_the_page_wide(browser: Browser, server: Running, width: int) -> None:
    for page in opened(browser, server, viewport={"width": width, "height": 800}):
        fill(page, f"{'Wolpertinger' * 50} met {'x' * 600} in London.")
        page.locator("#result").focus()
        with asked(page, "explain"):
            page.keyboard.press("w")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for name in ("paths", "why"):
            assert page.locator(f"#{name}").evaluate("one => one.scrollWidth <= one.clientWidth"), name


@needs_browser
def test_a_text_over_the_limit_is_refused_at_once_and_the_old_result_goes(
    browser: Browser, demo_models: dict[str, Path]
) -> None:
    with running(demo_models["ner"], "--max-bytes", 2000) as server:
        for page in opened(browser, server):
            fill(page, TEXT)
            requests: list[str] = []
            page.on("request", lambda request: requests.append(request.url))  # noqa: B023 - runs within this round
            page.locator("#text").fill("Ada slept. " * 200)
            expect(page.locator("#problem")).to_have_text("this text has 2,200 bytes: expected at most 2,000")
            expect(page.locator("#result")).to_have_text("There is no text yet.")
            fill(page, TEXT)
            expect(page.locator("#problem")).to_have_text("")
            long = {"name": "long.txt", "mimeType": "text/plain", "buffer": b"Ada slept. " * 200}
            page.locator("#file").set_input_files(long)
            expect(page.locator("#problem")).to_contain_text("long.txt: this text has 2,200 bytes")
            expect(page.locator("#text")).to_have_value(TEXT)


@needs_browser
@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\x00\x00", b"a\x00b", "Zürich".encode("latin-1")])
def test_binary_files_are_refused(page: Page, content: bytes) -> None:
    fill(page, TEXT)
    page.locator("#file").set_input_files({"name": "a.bin", "mimeType": "text/plain", "buffer": content})
    expect(page.locator("#problem")).to_have_text("a.bin: this is not a text file in UTF-8")
    expect(page.locator("#text")).to_have_value(TEXT)
    with asked(page, "trellis"):
        buffer = "\ufeffParis is old.".encode()
        page.locator("#file").set_input_files({"name": "a.bin", "mimeType": "text/plain", "buffer": buffer})
    expect(page.locator("#text")).to_have_value("Paris is old.")


@needs_browser
def test_the_legend_names_the_colours_of_this_model(page: Page) -> None:
    fill(page, TEXT)
    legend = page.locator("#legend .entry")
    expect(legend).to_have_text(["DATE", "LOC", "ORG", "PER", "less than 80 % sure", "confirmed by you"])
    colour = "one => getComputedStyle(one).backgroundColor"
    assert legend.nth(1).locator(".dot").evaluate(colour) == span(page, "London").evaluate(colour)
    assert span(page, "London").evaluate("one => one.style.getPropertyValue('--hue')") == str(hue("LOC"))
    with asked(page, "trellis"):
        page.locator("#model").select_option("seg")
    expect(legend.first).to_have_text("word")


@needs_browser
def test_the_trellis_is_scrolled_by_keys_and_follows_the_chosen_token(page: Page) -> None:
    fill(page, "Jordan met " * 20)
    scrolled = "document.getElementById('trellis').scrollLeft"
    assert page.evaluate(scrolled) == 0
    page.locator("#trellis").focus()
    page.keyboard.press("ArrowRight")
    until(lambda: page.evaluate(scrolled) > 0)
    page.locator("#trellis .node[tabindex='0']").focus()
    page.keyboard.press("End")
    expect(page.locator("#number")).to_contain_text("met: ")
    until(lambda: page.evaluate(scrolled) > 1000)
    axis = page.locator("#trellis svg.axis").bounding_box()
    assert axis
    assert axis["x"] >= 0
    page.keyboard.press("Home")
    until(lambda: page.evaluate(scrolled) < 100)
    page.locator("[data-token='39']").click()
    until(lambda: page.evaluate(scrolled) > 1000)


@needs_browser
def test_a_phone_shows_no_keys(browser: Browser, server: Running) -> None:
    for page in opened(browser, server, viewport={"width": 380, "height": 800}):
        fill(page, TEXT)
        page.locator(".span").first.click()
        for hint in page.locator(".keys, kbd").all():
            expect(hint).to_be_hidden()
        assert re.findall(r"\bW\b|Ctrl|Enter|Shift|press", page.locator("main").inner_text()) == []
        assert page.locator(".bar").evaluate("one => one.clientHeight") < 60  # in one line


@needs_browser
def test_plain_words(page: Page) -> None:
    fill(page, TEXT)
    expect(page.locator("#theme")).to_have_text("Dark")
    page.locator("#theme").click()
    expect(page.locator("#theme")).to_have_text("Light")
    expect(page.locator("header a")).to_have_text("API")
    left = [page.locator(name).evaluate("one => one.getBoundingClientRect().left") for name in ("h1", "#text")]
    assert left[0] == left[1]


@needs_browser
def test_a_server_that_is_gone_is_told_in_plain_words(browser: Browser, demo_models: dict[str, Path]) -> None:
    with running(demo_models["ner"]) as server:
        page = browser.new_page()
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]:not([data-busy])")
        server.stop()
        page.locator("#text").fill(TEXT)
        expect(page.locator("#problem")).to_have_text("The server does not answer.")
        page.close()


@needs_browser
def test_selected_text_gets_a_label(page: Page) -> None:
    fill(page, "Quux Zork slept.")
    first, last = page.locator("[data-token='0']").bounding_box(), page.locator("[data-token='1']").bounding_box()
    assert first
    assert last
    page.mouse.move(first["x"] + 2, first["y"] + first["height"] / 2)
    page.mouse.down()
    page.mouse.move(last["x"] + last["width"] - 2, last["y"] + last["height"] / 2, steps=5)
    page.mouse.up()
    menu(page, "ORG").click()
    expect(page.locator(".span.confirmed", has_text="Quux Zork")).to_have_attribute("data-label", "ORG")


@needs_browser
@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)> in London", "<script>alert(1)</script> & <b>Paris</b>"])
def test_html_in_a_text_is_shown_and_never_run(page: Page, text: str) -> None:
    ran: list[Any] = []
    page.on("dialog", lambda dialog: (ran.append(dialog), dialog.dismiss()))
    fill(page, text)
    assert page.locator("#result").inner_text().replace(" ", "").startswith(text.replace(" ", "")[:10])
    assert page.locator("#result img, #result script, #result b, #trellis img").count() == 0
    span_or_token = page.locator("[data-token='0']")
    span_or_token.click()
    menu(page, "Why").click()
    expect(page.locator("#why table")).to_be_visible()
    assert ran == []


@needs_browser
def test_an_error_is_shown_and_goes_away(page: Page) -> None:
    page.locator("#text").fill("a " * 25_000)
    expect(page.locator("#problem")).to_contain_text("tokens: expected at most")
    fill(page, "Paris.")
    expect(page.locator("#problem")).to_have_text("")


@needs_browser
def test_characters_beyond_the_basic_plane_keep_their_places(page: Page) -> None:
    fill(page, "👍🏽 Anna met 𝒳 in London 🎉. Paris 👩‍👩‍👧 is old.")
    assert "in London 🎉" in page.locator("#result").inner_text()
    assert "London" in [one.strip() for one in page.locator(".span .token").all_inner_texts()]


@needs_browser
def test_chinese_words_and_the_chinese_interface(page: Page) -> None:
    page.locator("#language").click()
    expect(page.locator("#result-title")).to_have_text("结果")
    with asked(page, "trellis"):
        page.locator("#model").select_option("seg")
    fill(page, "研究生命起源的研究生说。")
    assert page.locator(".span").count() >= 5
    for width in range(320, 420, 12):  # no word is divided by the end of a line
        page.set_viewport_size({"width": width, "height": 800})
        lines = page.locator(".span").evaluate_all("spans => spans.map((span) => span.getClientRects().length)")
        assert set(lines) == {1}
    page.set_viewport_size({"width": 1100, "height": 900})
    page.locator(".token").first.click()
    page.keyboard.press("Escape")
    expect(page.locator("#said")).to_have_text(re.compile(r"^\S+：词，概率 [01]\.\d{4}$"))
    shot(page, "chinese")
    page.reload()
    expect(page.locator("#result-title")).to_have_text("结果")
    page.locator("#language").click()
    expect(page.locator("#result-title")).to_have_text("Result")


@needs_browser
def test_another_language_of_the_page_keeps_corrections(page: Page) -> None:
    fill(page, "Jordan met Washington in May.")
    span(page, "Jordan").click()
    with asked(page, "trellis"):
        menu(page, "LOC").click()
    with asked(page, "trellis"):
        page.locator("#language").click()
    expect(span(page, "Jordan")).to_have_class("span confirmed")
    with asked(page, "trellis"):
        page.locator("#undo").click()
    expect(page.locator(".span.confirmed")).to_have_count(0)


@needs_browser
def test_a_file_is_opened(page: Page) -> None:
    with asked(page, "trellis"):
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"Paris is old."})
    expect(page.locator("#text")).to_have_value("Paris is old.")
    expect(page.locator("#result")).to_contain_text("Paris")


@needs_browser
def test_of_a_long_sentence_the_part_around_the_token_is_drawn(page: Page) -> None:
    fill(page, "Jordan met " * 100)
    expect(page.locator("#number")).to_have_text("Only the tokens around the chosen one are drawn.")
    drawn = page.locator("#trellis svg [data-place^='199,']")
    expect(drawn).to_have_count(0)
    with asked(page, "trellis"):
        page.locator("[data-token='199']").click()
    expect(drawn.first).to_be_visible()


@needs_browser
def test_text_from_right_to_left_runs_that_way(page: Page) -> None:
    fill(page, "سافر أحمد إلى London يوم الاثنين.")
    assert page.evaluate("getComputedStyle(document.querySelector('.sentence')).direction") == "rtl"
    page.locator("#result").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#said")).to_contain_text("أحمد")
    assert page.locator("#paths tbody tr").first.locator("bdi").all_inner_texts()[:2] == ["سافر", "أحمد"]
    shot(page, "right-to-left")


@needs_browser
def test_ten_thousand_tokens_stay_usable(page: Page) -> None:
    fill(page, "Jordan Abara flew from Jordan to Washington on 3 May. " * 900)
    expect(page.locator(".sentence")).to_have_count(900)
    page.locator(".sentence").nth(500).scroll_into_view_if_needed()
    with asked(page, "trellis"):
        page.locator(".sentence").nth(500).locator("[data-token='2']").click()
    expect(page.locator("#menu")).to_be_visible()


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it_light_and_dark(browser: Browser, server: Running, scheme: str) -> None:
    for page in opened(browser, server, viewport={"width": 380, "height": 800}, color_scheme=scheme):
        fill(page, TEXT)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380
        shot(page, f"phone-{scheme}")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.locator("#theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


# The ratio of light between writing and ground, as WCAG counts it.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const bytes = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = bytes(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const paper = getComputedStyle(document.body).backgroundColor;
  const found = {};
  for (const name of ["#keys", "#said", "h1", "a[href='/docs']", "#undo"]) {
    found[name] = ratio(getComputedStyle(document.querySelector(name)).color, paper);
  }
  for (const span of document.querySelectorAll(".span:not(.doubtful)")) {
    const ground = getComputedStyle(span).backgroundColor;
    found[span.dataset.label] = ratio(getComputedStyle(span).color, ground);
    found[span.dataset.label + " label"] = ratio(getComputedStyle(span, "::after").color, ground);
  }
  return found;
}"""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_can_be_read(browser: Browser, server: Running, scheme: str) -> None:
    for page in opened(browser, server, color_scheme=scheme):
        fill(page, TEXT)
        page.locator("#undo").evaluate("button => { button.disabled = false; }")
        found = page.evaluate(CONTRAST)
        assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}


@needs_browser
def test_every_control_has_a_name(page: Page) -> None:
    fill(page, TEXT)
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, select, textarea, input, [tabindex]")]
        .filter((one) => !(one.innerText || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
            || one.labels?.length || one.getAttribute("aria-describedby"))).map((one) => one.outerHTML)""")
    assert unnamed == []


@needs_browser
def test_from_the_pool_to_a_new_model(browser: Browser, demo_models: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(demo_models["ner"], tmp_path / "ner")
    demo.write(tmp_path / "data")
    options = (
        *("--corrections", tmp_path / "kept.jsonl", "--annotate", demo_models["pool"]),
        *("--train", tmp_path / "data/english-train.conll", "--dev", tmp_path / "data/english-dev.conll"),
    )
    with running(tmp_path / "ner", *options) as server:
        for page in opened(browser, server):
            expect(page.locator("#progress")).to_have_text("0 sentences corrected, 0 of 20 done")
            with asked(page, "corrections"):
                page.locator("#complete").click()
            expect(page.locator("#progress")).to_have_text("1 sentence corrected, 1 of 20 done")
            expect(page.locator(".sentence.complete")).to_have_count(1)
            with asked(page, "next"):
                page.locator("#next").click()
            fill(page, f"{page.locator('#text').input_value()} {TEXT}")
            page.locator(".sentence").last.locator("[data-token='0']").click()
            with asked(page, "corrections"):
                menu(page, "LOC").click()
            version = server.ask("/v1/models")[1]["models"][0]["version"]
            page.locator("#learn").click()
            expect(page.locator("#outcome")).to_be_visible(timeout=60_000)
            shot(page, "learned")
            expect(page.locator("#scores")).to_have_text(
                re.compile(
                    r"ner: F1 of spans in held-out sentences 0\.\d{4} before, 0\.\d{4} after: "
                    r"(▲ better \(\+|▼ worse \(−|no better and no worse)"
                )
            )
            assert server.ask("/v1/models")[1]["models"][0]["version"] == version
            with asked(page, "models"):
                page.locator("#accept").click()
            expect(page.locator("#outcome")).to_be_hidden()
            expect(page.locator("#learning")).to_have_text("The new model answers now.")
            expect(page.locator("#progress")).to_have_text("2 sentences corrected, 1 of 20 done")
            expect(page.locator(".span.confirmed", has_text="Jordan")).to_have_attribute("data-label", "LOC")
            assert server.ask("/v1/models")[1]["models"][0]["version"] != version


@needs_browser
def test_a_key_is_asked_for_and_kept_in_the_tab(browser: Browser, demo_models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("0123456789abcdef\n")
    with running(demo_models["ner"], "--keys", tmp_path / "keys") as server:
        page = browser.new_page()
        page.goto(server.url)
        page.locator("#key").fill("0123456789abcdef")
        page.get_by_role("button", name="Send").click()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate("localStorage.getItem('key')") is None
        page.close()


@needs_browser
def test_the_api_page_has_an_example_per_route_to_copy_and_to_try(browser: Browser, server: Running) -> None:
    for page in opened(browser, server):
        page.goto(f"{server.url}/docs")
        routes = [path for path, item in server.ask("/openapi.json")[1]["paths"].items() for _ in item]
        commands = page.locator("section .curl").all_inner_texts()
        assert [f"{server.url}{path}" in command for path, command in zip(routes, commands, strict=True)] == [
            True
        ] * len(routes)
        assert page.evaluate("document.documentElement.scrollHeight") < 8000
        tag = page.locator("section[data-path='/v1/tag']")
        tag.locator("textarea").fill('{"texts": ["Ada\'s in London."], "spans_only": true}')
        tag.get_by_role("button", name="Try it").click()
        expect(tag.locator(".answer")).to_contain_text(re.compile(r'^200 .*"label": "LOC"', re.DOTALL))
        command = tag.locator(".curl").inner_text()
        assert json.loads(subprocess.check_output(["sh", "-c", command], stderr=subprocess.DEVNULL))["model"] == "ner"
        for section in page.locator("section[data-path]").all():
            if "/v1/" not in str(section.get_attribute("data-path")):
                section.get_by_role("button").click()
                expect(section.locator(".answer")).to_contain_text("200 OK")
        page.locator("a[href='#TagRequest']").click()
        expect(page.locator("#TagRequest")).to_be_visible()
        shot(page, "docs")


@needs_browser
def test_the_api_page_asks_for_the_key(browser: Browser, demo_models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("0123456789abcdef\n")
    with running(demo_models["ner"], "--keys", tmp_path / "keys") as server:
        page = browser.new_page()
        page.goto(f"{server.url}/docs")
        models = page.locator("section[data-path='/v1/models']")
        models.get_by_role("button").click()
        expect(models.locator(".answer")).to_contain_text("401")
        page.locator("#key").fill("0123456789abcdef")
        models.get_by_role("button").click()
        expect(models.locator(".answer")).to_contain_text("200 OK")
        page.close()


def test_the_page_needs_nothing_from_elsewhere_and_no_inline_script() -> None:
    files = {file.name: file for file in resources.files("trellis.server").joinpath("page").iterdir()}
    for name, file in files.items():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "innerHTML" not in text, name
        assert " onclick=" not in text, name
        assert "style=" not in text, name
    assert {"index.html", "app.js", "style.css"} <= files.keys()
