"""report.png: a report of hearth-profiler as a browser shows it, in three columns.

    build/release/hearth-profiler synth --shape 1b --pwri -o synthetic-1b.powerinfer.gguf
    build/release/hearth-profiler report -m synthetic-1b.powerinfer.gguf --machine rtx4060-laptop
                                         --vram-budget 0.35 -o r.html
    build/venv/bin/python docs/figures/report.py r.html docs/figures/report.png

Needs playwright and chromium, as `tests/run.sh all` installs them.
"""
import pathlib
import shutil
import sys

from playwright.sync_api import sync_playwright

COLUMNS = ("body { max-width: none; margin: 1.5rem; columns: 3; column-gap: 3rem } h2 { break-after: avoid } "
           "svg { break-inside: avoid }")

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), chromium_sandbox=False)
    page = browser.new_page(viewport={"width": 2100, "height": 1000}, device_scale_factor=0.75)
    page.goto(pathlib.Path(sys.argv[1]).resolve().as_uri())
    page.add_style_tag(content=COLUMNS)
    page.screenshot(path=sys.argv[2], full_page=True)
    browser.close()
