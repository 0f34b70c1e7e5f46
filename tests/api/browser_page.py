"""What tests of the page at / in a browser share: the browser, pages that must do nothing forbidden, answers
that a test makes up, and steps that users take.

Tests import the fixtures by name. Without chromium they are skipped. The models are those of tests/data/relu:
small and sparse, with meaningless output. If a text matters, the test itself answers the browser's requests.
"""
import contextlib
import http.server
import json
import re
import shutil
import threading
import time

import pytest
from playwright.sync_api import expect, sync_playwright

import hearthd
import small_model

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="not run: chromium is not installed")
PATIENCE_MS = hearthd.PATIENCE * 1000
expect.set_options(timeout=PATIENCE_MS)
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def small():
    server = hearthd.Hearthd("--slots", "2", "--threads", "1", model=small_model.path())
    yield server
    server.kill()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=False)
        yield browser
        browser.close()


class Looked:
    """A page, and a record of everything that it must not do."""

    def __init__(self, context, url, expected_errors):
        self.origin, self.faults, self.expected = url, [], expected_errors
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self.on_console)
        self.page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        self.page.on("request", self.on_request)
        self.page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => "
            "console.error('policy: ' + e.violatedDirective + ' ' + e.blockedURI))")
        self.page.goto(url + "/")

    def on_console(self, message):
        if (message.type in ("error", "warning")
            and not (self.expected and re.search(self.expected, message.text))):
            self.faults.append(f"console: {message.text}")

    def on_request(self, request):
        if not request.url.startswith((self.origin + "/", "data:", "blob:" + self.origin)):
            self.faults.append(f"request: {request.url}")


@pytest.fixture()
def look(browser):
    """look(server) -> a fresh page. If the page does anything that it must not do, the test fails."""
    opened = []
    with contextlib.ExitStack() as stack:
        def open_page(server, viewport=WIDE, expected_errors=None, before=None, **options):
            context = browser.new_context(viewport=viewport, **options)
            stack.callback(context.close)
            if before:
                before(context)
            opened.append(Looked(context, server.url, expected_errors))
            return opened[-1].page

        yield open_page
        for one in opened:
            assert one.faults == [], one.faults


def chunk(delta, **choice):
    return "data: " + json.dumps(
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}) + "\n\n"


def answering(*deltas):
    """Answers every chat of a browser context with these deltas."""
    body = "".join(chunk(delta) for delta in deltas) + chunk({}, finish_reason="stop") + "data: [DONE]\n\n"
    return lambda context: context.route("**/v1/chat/completions", lambda route: route.fulfill(
        status=200, content_type="text/event-stream", body=body))


def say(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def ended(page, n=1):
    """Waits until n answers are complete, and returns the last one."""
    answers = page.get_by_role("article", name="Answer")
    expect(answers.get_by_role("button", name="Retry")).to_have_count(n)
    return answers.last


def body_of(answer):
    return answer.locator("> .body")


def act(page, title, action):
    """Chooses an action from the menu of the first conversation of the list with this title."""
    page.get_by_role("navigation").get_by_role("button", name=f"Actions for {title}").first.click()
    menu = page.get_by_role("list", name="Conversation actions")
    menu.get_by_role("button", name=action, exact=True).click()


def open_tab(page, name):
    """Opens the panel with its tab Settings or Live."""
    if page.get_by_role("tab", name=name).and_(page.locator("[aria-selected=true]")).is_hidden():
        page.get_by_role("button", name=name, exact=True).click()


def settings(page, **values):
    """Fills fields of the settings of the open chat, and closes the panel."""
    open_tab(page, "Settings")
    for label, value in values.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(str(value))
    page.get_by_role("button", name="Close the panel").click()


def model_button(page):
    return page.get_by_role("button", name="Model:")


class Slow(http.server.BaseHTTPRequestHandler):
    """Answers every chat with server.parts, one after the other, so that the browser draws what is there."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            for part in self.server.parts():
                self.wfile.write(part.encode())
                time.sleep(0.01)  # by the clock: the browser draws between the parts
        self.close_connection = True
        self.server.left += 1

    def log_message(self, *arguments):
        pass


@pytest.fixture()
def slowly():
    """slowly(parts) -> a function for look(before=...). parts(): yields what is sent of an answer.
    slowly.server.left: how many answers have ended, or were left by the browser."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.left = 0
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def prepare(parts):
        server.parts = parts
        return lambda context: context.route("**/v1/chat/completions", lambda route: route.continue_(
            url=f"http://127.0.0.1:{server.server_port}/"))

    prepare.server = server
    yield prepare
    server.shutdown()
    server.server_close()


def endless():
    """The parts of an answer without an end."""
    while True:
        yield chunk({"content": "on and "})
