"""page-light.png and page-dark.png: the page at / as a browser shows it. Both models answer for themselves,
with seed 1.

    build/venv/bin/python docs/figures/page.py build/release docs/figures

Needs playwright and chromium, as `tests/run.sh all` installs them, hearthd_emulated, and the model that
server/run.sh fetches. Light: that model on this machine's CPU. Dark: the tests' small ReLU model, trained on
16 old books, continues a line. Its neurons are its own, and their placement is a real one on the tests'
emulated GPU; tokens a second are the emulator's.
"""
import os
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["HEARTH_BUILD_DIR"] = sys.argv[1]
sys.path.insert(0, str(ROOT / "tests/api"))
import hearthd  # noqa: E402
import small_model  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
MODEL = CACHE / "hearth/SmolLM2-135M-Instruct.Q4_1.gguf"
QUESTION = "Write a short Python function that returns the area of a circle."
BEGINNING = "I saw the ships come in from the sea,\n"
SIZE = {"width": 1120, "height": 650}


def take(browser, server, scheme, text, tab, tokens):
    """The picture of one answer in the light or dark scheme. tab: "live", or "" for a closed panel."""
    context = browser.new_context(viewport=SIZE, color_scheme=scheme, device_scale_factor=0.75)
    page = context.new_page()
    page.goto(server.url + "/")
    page.locator("#model:enabled").wait_for()
    page.evaluate("([tab]) => { if (document.getElementById('panel').hidden !== (tab === '')) "
                  "document.getElementById('live-button').click(); }", [tab])
    page.evaluate("""(settings) => { for (const [name, value] of Object.entries(settings)) {
        const field = document.getElementById(`set-${name}`);
        field.value = value;
        field.dispatchEvent(new Event('input', {bubbles: true})); } }""",
                  {"temperature": "0.2", "seed": "1", "max-tokens": str(tokens)})
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Retry").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(600)  # the last events and colors
    path = pathlib.Path(sys.argv[2]) / f"page-{scheme}.png"
    page.screenshot(path=path)
    context.close()
    print(path, path.stat().st_size)


with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
    server = hearthd.Hearthd("--context", "2048", model=MODEL)
    try:
        take(browser, server, "light", QUESTION, "", 300)
    finally:
        server.kill()
    server = hearthd.Hearthd("--slots", "4", "--context", "256", "--threads", "1", "--vram-budget", "0.0075",
                             model=small_model.SOURCE, binary=hearthd.EMULATED)
    try:
        take(browser, server, "dark", BEGINNING, "live", 160)
    finally:
        server.kill()
    browser.close()
