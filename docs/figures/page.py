"""page-light.png, page-dark.png, page-phone.png: the page at / as a browser shows it, while the small ReLU
model works.

    build/venv/bin/python docs/figures/page.py build/release docs/figures

Needs playwright and chromium, as `tests/run.sh all` installs them, and hearthd_emulated. The small model says
nothing that makes sense, so the answer is the script's. The neurons are the model's own, their placement is a
real one on the tests' emulated GPU, and tokens a second are the emulator's.
"""
import json
import os
import pathlib
import shutil
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["HEARTH_BUILD_DIR"] = sys.argv[1]
sys.path.insert(0, str(ROOT / "tests/api"))
import hearthd  # noqa: E402
import httpx  # noqa: E402
import small_model  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

QUESTION = "Where does a model that is larger than the GPU's memory live?"
THOUGHT = "VRAM, RAM and the file have different speeds, so I compare them first."
ANSWER = """In three places, each with its own price:

| place | speed | holds |
|---|--:|---|
| VRAM | 1000 GB/s | attention, hot neurons |
| RAM | 70 GB/s | cold neurons |
| file | 5 GB/s | what does not fit |

1. **Hot** neurons fire for most tokens. They stay in VRAM.
2. **Cold** ones fire seldom. They stay in RAM, and the CPU computes *those that do*.

```sh
hearthd --model model.gguf --vram-budget 6
```
"""
VIEWS = {"light": ({"width": 1120, "height": 650}, "light"), "dark": ({"width": 1120, "height": 650}, "dark"),
         "phone": ({"width": 360, "height": 660}, "light")}


def events(*deltas):
    parts = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"


def keep_busy(server, stop):
    while not stop.is_set():
        httpx.post(server.url + "/v1/completions", timeout=hearthd.PATIENCE,
                   json={"prompt": "The old house", "max_tokens": 100, "ignore_eos": True})


def take(browser, server, name, viewport, scheme):
    context = browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=0.75)
    page = context.new_page()
    page.route("**/v1/chat/completions", lambda route: route.fulfill(
        status=200, content_type="text/event-stream",
        body=events({"reasoning_content": THOUGHT}, {"content": ANSWER})))
    page.goto(server.url + "/")
    page.locator("#model:enabled").wait_for()
    page.get_by_label("Message", exact=True).fill(QUESTION)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Retry").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(6000)  # the course of tokens a second wants a few seconds
    path = pathlib.Path(sys.argv[2]) / f"page-{name}.png"
    page.screenshot(path=path)
    context.close()
    print(path, path.stat().st_size)


server = hearthd.Hearthd("--slots", "4", "--context", "128", "--threads", "1",
                         "--vram-budget", "0.0075", "--alias", "relu-5m",
                         model=small_model.path(), binary=hearthd.EMULATED)
stop = threading.Event()
busy = [threading.Thread(target=keep_busy, args=(server, stop)) for _ in range(2)]
try:
    for thread in busy:
        thread.start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
        for name, (viewport, scheme) in VIEWS.items():
            take(browser, server, name, viewport, scheme)
        browser.close()
finally:
    stop.set()
    for thread in busy:
        thread.join()
    server.kill()
