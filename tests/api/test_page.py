"""The page at / in a browser, as its users see it: chats, errors, keys, the neuron map, and actions that it
must never take. test_page_markdown.py and the other test_page_*.py have its parts.
"""
import contextlib
import json
import re

import httpx
import pytest
from playwright.sync_api import expect

import hearthd
import small_model
from browser_page import (PHONE, answering, body_of, chunk, ended, endless, model_button, needs_chromium,
                          open_tab, say, settings)
from browser_page import browser, look, slowly, small  # noqa: F401 (fixtures)

pytestmark = needs_chromium


def test_the_page_is_served_whole_with_a_strict_policy_and_is_not_sent_twice(small):
    answer = httpx.get(small.url + "/", timeout=hearthd.PATIENCE)
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert "connect-src 'self'" in policy and "frame-ancestors 'none'" in policy
    assert (answer.headers["x-content-type-options"] == "nosniff"
            and answer.headers["referrer-policy"] == "no-referrer")
    assert answer.headers["cache-control"] == "no-cache"
    again = httpx.get(small.url + "/", headers={"If-None-Match": answer.headers["etag"]},
                      timeout=hearthd.PATIENCE)
    assert again.status_code == 304 and again.content == b""
    head = httpx.head(small.url + "/", timeout=hearthd.PATIENCE)
    assert head.status_code == 200 and head.headers["etag"] == answer.headers["etag"] and head.content == b""
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", answer.text)


def test_page_off_leaves_a_line_of_text():
    server = hearthd.Hearthd("--page", "off", "--threads", "1", model=small_model.path())
    try:
        assert httpx.get(server.url + "/", timeout=hearthd.PATIENCE).text == "hearthd is running\n"
        for path in ("/page/events", "/page/math.js"):
            refused = httpx.get(server.url + path, timeout=hearthd.PATIENCE)
            assert refused.status_code == 404 and refused.json()["error"]["code"] == "unknown_url"
    finally:
        server.kill()


def test_a_chat_streams_and_goes_on(small, look):
    page = look(small)
    settings(page, Max_tokens=12, Temperature=0, Seed=1)
    say(page, "Hello there")
    answer = ended(page)
    expect(answer).to_contain_text("12 tokens")
    expect(answer).to_contain_text("cut at the length limit")
    expect(page.get_by_role("article", name="You")).to_contain_text("Hello there")
    shown = body_of(answer).inner_text().split()
    say(page, "And again")
    ended(page, 2)
    # The same words come from the API for the same conversation.
    first = httpx.post(small.url + "/v1/chat/completions", timeout=hearthd.PATIENCE, json={
        "messages": [{"role": "user", "content": "Hello there"}], "max_tokens": 12, "temperature": 0,
        "seed": 1}).json()
    words = first["choices"][0]["message"]["content"].split()
    assert [word for word in words if word.isalnum()][:3] == [word for word in shown if word.isalnum()][:3]


def test_an_answer_is_stopped_by_button_and_by_key(small, look, slowly):
    page = look(small, before=slowly(endless))
    for n, stop in enumerate((lambda: page.get_by_role("button", name="Stop").click(),
                              lambda: page.keyboard.press("Escape"))):
        page.get_by_role("button", name="New chat").click()
        say(page, "Tell me everything")
        expect(page.get_by_role("article", name="Answer")).to_contain_text("on and on and")
        stop()
        answer = ended(page)
        expect(answer).to_contain_text(re.compile(r"about \d+ tokens"))
        expect(answer).to_contain_text("stopped")
        expect(body_of(answer)).to_contain_text("on and on and")
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        hearthd.wait_until(lambda: slowly.server.left == n + 1, "the connection to be closed")


def test_what_is_sent_before_the_model_is_known_names_the_right_one(small, look):
    asked, held = [], []
    page = look(small,
                before=lambda context: (context.route("**/v1/models", lambda route: held.append(route)),
                                        answering({"content": "Yes."})(context)))
    page.on("request", lambda request: asked.append(request.post_data_json)
                                       if request.url.endswith("/chat/completions") else None)
    hearthd.wait_until(lambda: page.wait_for_timeout(10) or held, "the question for models")
    say(page, "Hello")
    hearthd.wait_until(lambda: page.wait_for_timeout(10) or len(held) == 2, "another question for models")
    for route in held:
        route.continue_()
    ended(page)
    assert asked[0]["model"] == "small"


def test_an_error_is_the_servers_sentence_and_can_be_tried_again(small, look):
    page = look(small, expected_errors="400")
    settings(page, **{"Tools,_as_a_JSON_array": '[{"type": "wrench"}]'})
    say(page, "Hello")
    expect(page.get_by_role("alert").filter(has_text="tools")).to_contain_text("function")
    settings(page, **{"Tools,_as_a_JSON_array": ""}, Max_tokens=2)
    page.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("article", name="Answer")).to_contain_text("2 tokens")


def test_a_broken_stream_says_so(small, look):
    page = look(small,
                before=lambda context: context.route("**/v1/chat/completions", lambda route: route.fulfill(
                    status=200, content_type="text/event-stream",
                    body=chunk({"content": "Half an "})
                         + 'data: {"error": {"message": "the engine has failed"}}\n\n')))
    say(page, "Hello")
    answer = ended(page)
    expect(answer).to_contain_text("Half an")
    expect(answer.get_by_role("alert")).to_have_text("the engine has failed")


@pytest.fixture(scope="module")
def closed():
    server = hearthd.Hearthd("--threads", "1", model=small_model.path(),
                             env={"HEARTH_API_KEY": "open-sesame"})
    yield server
    server.kill()


def test_the_page_asks_for_a_key_and_keeps_it_as_the_user_chooses(closed, look):
    page = look(closed, expected_errors="401")
    dialog = page.get_by_role("dialog", name="API key")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Key", exact=True).fill("wrong")
    dialog.get_by_role("button", name="Use key").click()
    expect(dialog).to_contain_text("not one of this server's")
    dialog.get_by_label("Key", exact=True).fill("open-sesame")
    dialog.get_by_label("Remember it in this browser").check()
    dialog.get_by_role("button", name="Use key").click()
    expect(model_button(page)).to_be_enabled()
    settings(page, Max_tokens=2)
    say(page, "Hello")
    expect(ended(page)).to_contain_text("2 tokens")
    page.reload()
    expect(model_button(page)).to_be_enabled()
    open_tab(page, "Settings")
    page.get_by_role("button", name="Forget the API key").click()
    page.reload()
    expect(dialog).to_be_visible()
    assert "open-sesame" not in closed.log()


def test_a_user_without_a_key_is_asked_once_and_again_when_it_matters(closed, look):
    page = look(closed, expected_errors="401")
    dialog = page.get_by_role("dialog", name="API key")
    dialog.get_by_role("button", name="Cancel").click()
    open_tab(page, "Live")
    expect(page.locator("#live-state")).to_contain_text("no API key was sent")
    expect(page.locator("#mode-note")).to_contain_text("no API key was sent")
    expect(dialog).to_be_hidden()
    say(page, "Hello")
    dialog.get_by_label("Key", exact=True).fill("open-sesame")
    dialog.get_by_role("button", name="Use key").click()
    ended(page)
    expect(page.locator("#live-state")).to_have_text("Connected")
    expect(page.locator("#mode-note")).to_be_hidden()


def test_events_need_the_key(closed):
    assert httpx.get(closed.url + "/page/events", timeout=hearthd.PATIENCE).status_code == 401
    with httpx.stream("GET", closed.url + "/page/events", headers={"X-Api-Key": "open-sesame"},
                      timeout=hearthd.PATIENCE) as answer:
        assert answer.status_code == 200
        assert next(answer.iter_lines()) == "event: model"


def test_a_model_without_a_template_continues_texts(look):
    server = hearthd.Hearthd("--threads", "1", model=small_model.SOURCE)
    try:
        page = look(server)
        expect(page.get_by_text("no chat template")).to_be_visible()
        settings(page, Max_tokens=5, Temperature=0)
        say(page, "The old house stood")
        text = body_of(ended(page)).inner_text()
        answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                            json={"prompt": "The old house stood", "max_tokens": 5, "temperature": 0}).json()
        assert "".join(text.split()) == "".join(answer["choices"][0]["text"].split())
    finally:
        server.kill()


def test_while_the_model_loads_the_page_shows_how_far_and_waits(small, look):
    states = [{"status": "loading", "progress": 0.25}, {"status": "loading", "progress": 0.5}]
    loading = {"status": 503, "content_type": "application/json"}

    def health(route):
        if page_saw and len(states) > 1:
            states.pop(0)
        elif page_saw:
            return route.continue_()
        return route.fulfill(**loading, body=json.dumps(states[0]))

    page_saw = []
    def models(route):
        if page_saw:
            return route.continue_()
        return route.fulfill(
            **loading, body='{"error": {"message": "the model is being loaded (25 %); try again shortly"}}')

    def prepare(context):
        context.route("**/health", health)
        context.route("**/v1/models", models)

    page = look(small, before=prepare, expected_errors="503")
    expect(page.get_by_role("status").filter(has_text="being loaded")).to_have_text(re.compile("25 %"))
    page_saw.append(True)
    expect(model_button(page)).to_be_enabled()
    expect(page.get_by_text("being loaded")).to_be_hidden()


def generate(server, n=400):
    """Keeps the server busy with an answer of n tokens."""
    answer = httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                        json={"prompt": "The old house", "max_tokens": n, "ignore_eos": True})
    assert answer.status_code == 200, answer.text


def test_the_map_moves_while_the_model_generates(small, look):
    page = look(small)
    expect(page.get_by_text("Connected")).to_be_visible()
    map_ = page.locator("#map")
    expect(map_).to_have_attribute("aria-label", re.compile("Neuron map"))
    steps, pictures, rates = set(), set(), set()
    def saw_three():
        generate(small)
        steps.add(map_.get_attribute("data-step"))
        pictures.add(page.evaluate("document.getElementById('map').toDataURL()"))
        rates.add(page.locator("#live-rate").inner_text())
        return len(steps - {None}) >= 3 and len(pictures) >= 3 and len(rates - {"-", "0.0"}) >= 1
    hearthd.wait_until(saw_three, "three sampled steps, three pictures, a rate")
    expect(map_).to_have_attribute("aria-label",
                                   re.compile(r"4 layers, [0-9.]+ % of neurons active in step \d+"))
    page.get_by_text("Active share by layer").click()
    hearthd.wait_until(lambda: generate(small) or page.locator("#layer-table tbody tr").count() == 4,
                       "the table")
    # Nothing shows the panel any more, so the stream ends.
    n_ended = small.log().count("GET /page/events")
    page.get_by_role("button", name="Close the panel").click()
    hearthd.wait_until(lambda: small.log().count("GET /page/events") > n_ended, "the stream to end")


def test_a_server_that_is_gone_is_reported_without_old_numbers(look):
    server = hearthd.Hearthd("--threads", "1", model=small_model.path())
    try:
        page = look(server, expected_errors="net::ERR")
        expect(page.locator("#live-slots")).to_have_text("0 of 4")
        server.kill()
        expect(page.locator("#live-state")).to_have_text("The server cannot be reached; trying again.")
        expect(page.locator("#live-slots")).to_have_text("-")
        say(page, "Hello")
        expect(ended(page).get_by_role("alert")).to_contain_text("The server cannot be reached.")
    finally:
        server.kill()


def test_a_dense_model_says_that_there_is_nothing_sparse_to_show(look):
    server = hearthd.Hearthd("--threads", "1", model=hearthd.ROOT / "tests/data/arch/llama.gguf")
    try:
        page = look(server)
        expect(model_button(page)).to_be_enabled()
        expect(page.get_by_role("complementary")).to_be_hidden()  # a sparse model would open it
        open_tab(page, "Live")
        expect(page.get_by_text("nothing sparse to show")).to_be_visible()
        expect(page.locator("#map")).to_be_hidden()
    finally:
        server.kill()


@pytest.mark.skipif(not hearthd.EMULATED.exists(),
                    reason=f"{hearthd.EMULATED} is not built: CUDA's headers are not installed")
def test_with_a_gpu_the_map_shows_where_neurons_are(look):
    server = hearthd.Hearthd("--threads", "1", "--vram-budget", "0.0045", "--slots", "1", "--context", "64",
                             "--prefill-chunk", "16", "--sparsity", "predicted",
                             model=hearthd.ROOT / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf",
                             binary=hearthd.EMULATED)
    try:
        page = look(server, expected_errors="Multiple readback operations")  # caused by the test
        expect(page.get_by_text("hot: always in VRAM")).to_be_visible()
        expect(page.get_by_text("cold: in RAM")).to_be_visible()
        expect(page.locator("#memory-legend")).to_contain_text("VRAM")
        hot, cold = page.evaluate("""() => {
            const c = document.getElementById('map').getContext('2d'), {width, height} = c.canvas;
            return [0.05, 0.95].map((x) => [...c.getImageData(x * width, height / 8, 1, 1).data]); }""")
        # warm and cool colors: the most active neurons come first
        assert hot[0] > hot[2] and cold[2] > cold[0]
        expect(page.locator("#map")).to_have_attribute("aria-label", re.compile("Neuron map"))
        hearthd.wait_until(lambda: generate(server, 8) or page.locator("#map").get_attribute("data-step"),
                           "a sampled step")
    finally:
        server.kill()


def test_events_are_for_a_few_watchers_and_end_with_the_server():
    server = hearthd.Hearthd("--threads", "1", model=small_model.path())
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        streams = [
            stack.enter_context(httpx.stream("GET", server.url + "/page/events", timeout=hearthd.PATIENCE))
            for _ in range(8)]
        for stream in streams:
            assert stream.status_code == 200 and stream.headers["content-type"] == "text/event-stream"
        refused = httpx.get(server.url + "/page/events", timeout=hearthd.PATIENCE)
        assert refused.status_code == 503 and "8 streams" in refused.json()["error"]["message"]
        streams[0].close()
        hearthd.wait_until(
            lambda: httpx.head(server.url + "/page/events", timeout=hearthd.PATIENCE).status_code == 200,
            "a place for another")
        server.signal()
        for stream in streams[1:]:
            # the body is complete
            lines = [line for line in stream.iter_lines() if line.startswith("event: ")]
            assert lines[0] == "event: model" and "event: frame" in lines
        assert server.wait() == 0


def test_names_and_roles_are_those_of_the_page(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    say(page, "Are you well?")
    ended(page)
    expect(page.locator("body")).to_match_aria_snapshot("""
      - link "Skip to the message field"
      - banner:
        - button "Chats" [expanded]
        - heading "Hearth" [level=1]
        - button /Model. small/
        - button "Settings"
        - button "Live" [expanded]
      - navigation "Conversations":
        - button "New chat"
        - searchbox "Search"
        - region "Today":
          - heading "Today" [level=2]
          - list:
            - listitem:
              - button "Are you well?"
              - button "Actions for Are you well?"
        - button "Import"
        - button "Export all"
        - button "Delete all"
      - main:
        - log "Conversation":
          - article "You"
          - article "Answer"
        - form "New message":
          - button "Attach text files"
          - textbox "Message"
          - button "Send"
      - complementary "Settings and live view":
        - tablist "Views":
          - tab "Settings"
          - tab "Live" [selected]
        - button "Close the panel"
        - tabpanel "Live"
    """)
    # Answers are read out by paragraphs, from a region of their own.
    expect(page.locator("#announcer")).to_contain_text("Yes.")
    assert page.locator("#transcript").get_attribute("aria-live") == "off"


def test_everything_is_reached_by_the_keyboard(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    page.get_by_label("Message", exact=True).press("Control+Home")
    page.evaluate("document.activeElement.blur()")
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate("""() => [
            document.activeElement.id || document.activeElement.textContent,
            getComputedStyle(document.activeElement).outlineStyle]""")
        if page.evaluate("document.activeElement === document.body"):
            continue  # on the way from the last element to the first
        assert outline != "none", name
        if name in names:
            break  # once around
        names.append(name)
    for name in ("chats-button", "model", "settings-button", "live-button", "new-chat", "search", "prompt",
                 "attach", "send", "live-tab", "map-pause"):
        assert name in names, names
    page.locator("#live-tab").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Settings")).to_be_focused()
    expect(page.get_by_label("System prompt")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(small, look, scheme):
    page = look(small, before=answering({"content": "Yes, `code` and [link](https://example.org/)."}),
                color_scheme=scheme)
    say(page, "Hello")
    ended(page)
    low = page.evaluate("""() => {
      const parse = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => { const [r, g, b] = parse(c).map(
                               (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                             return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
                              if (parse(c).length === 3 || parse(c)[3] > 0) return c; } };
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), low = [];
      for (let n = walker.nextNode(); n; n = walker.nextNode()) {
        const e = n.parentElement;
        if (!n.data.trim() || !e.checkVisibility() || e.closest("script, noscript")) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5)
          low.push(n.data.trim() + " " + ((a + 0.05) / (b + 0.05)).toFixed(2));
      }
      return low; }""")
    assert low == []


def test_on_a_phone_nothing_scrolls_sideways(small, look):
    wide = ("| " + " | ".join(f"column {i}" for i in range(12)) + " |\n|" + "---|" * 12 + "\n\n```\n"
            + "x" * 300 + "\n```\n\n" + "y" * 300)
    page = look(small, viewport=PHONE, before=answering({"content": wide}))
    fits = "document.documentElement.scrollWidth <= innerWidth && document.body.scrollWidth <= innerWidth"
    say(page, "z" * 200)
    ended(page)
    assert page.evaluate(fits)
    assert page.evaluate("document.getElementById('transcript').scrollWidth <= "
                         "document.getElementById('transcript').clientWidth")
    for name in ("Chats", "Live", "Settings"):
        page.get_by_role("button", name=name, exact=True).click()
        assert page.evaluate(fits)
    expect(page.get_by_label("System prompt")).to_be_in_viewport()


def test_the_theme_is_the_systems_until_one_is_chosen(small, look):
    page = look(small, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    open_tab(page, "Settings")
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(ground) != dark
    page.reload()
    open_tab(page, "Settings")
    expect(page.get_by_label("Theme")).to_have_value("light")
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate(ground) == dark


def test_the_map_has_the_colors_of_the_theme(small, look):
    """A neuron that does not fire has nearly the background's color, light or dark; the map is redrawn when
    that changes."""
    # caused by the test
    page = look(small, color_scheme="dark", expected_errors="Multiple readback operations")
    generate(small, 8)
    expect(page.locator("#map")).to_be_visible()
    darkest = """() => {
        const c = document.getElementById('map').getContext('2d', {willReadFrequently: true}),
              {width, height} = c.canvas;
        const d = c.getImageData(0, 0, width, height).data, sums = [];
        for (let i = 0; i < d.length; i += 4) sums.push(d[i] + d[i + 1] + d[i + 2]);
        sums.sort((a, b) => a - b); return [sums[0], sums[sums.length - 1]]; }"""
    hearthd.wait_until(lambda: page.evaluate(darkest)[1] > 0, "the map to be drawn")
    assert page.evaluate(darkest)[0] < 3 * 60
    page.evaluate("""() => { const theme = document.getElementById('theme');
        theme.value = 'light'; theme.dispatchEvent(new Event('change')); }""")
    hearthd.wait_until(lambda: page.evaluate(darkest)[1] > 3 * 190, "the map in light colors")


def test_the_page_of_an_address_may_use_the_server_and_other_pages_may_not():
    server = hearthd.Hearthd("--allowed-host", "*", "--device", "cpu", model=small_model.path())
    try:
        for host, status in (("192.0.2.7:8080", 200), ("[2001:db8::7]:8080", 200), ("nas:8080", 200),
                             ("evil.example:8080", 403)):
            answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a", "max_tokens": 1},
                                timeout=hearthd.PATIENCE, headers={"Origin": f"http://{host}", "Host": host})
            assert answer.status_code == status, host
        answer = httpx.post(server.url + "/v1/completions", json={"prompt": "a"},
                            headers={"Origin": "http://192.0.2.7:8080", "Host": "192.0.2.8:8080"},
                            timeout=hearthd.PATIENCE)
        assert answer.status_code == 403
    finally:
        server.kill()
