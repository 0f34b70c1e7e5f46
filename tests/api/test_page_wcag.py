"""The page at / against WCAG 2.2 AA, as far as axe-core can tell: light and dark, wide and narrow."""
import pathlib

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from browser_page import PHONE, WIDE, answering, ended, model_button, needs_chromium, open_tab, say
from browser_page import browser, look, small  # noqa: F401 (fixtures)

pytestmark = needs_chromium
AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ANSWER = """Text with `code`, [a link](https://example.org/) and \\(x^2\\).

# Heading

- [x] done

```python
def f(x): return "s"  # comment
```

| a | b |
|---|---|
| 1 | 2 |

A fact.[^1]

[^1]: The note.
"""
CALL = {"tool_calls": [{"index": 0, "id": "c", "type": "function",
                        "function": {"name": "f", "arguments": "{}"}}]}


def check(page):
    page.evaluate("typeof axe === 'undefined'") and page.evaluate(AXE)
    found = page.evaluate("""async (tags) => (await axe.run(document, {runOnly: tags})).violations.map(
        ({id, help, nodes}) => `${id}: ${help} ` + nodes.map((n) => n.html.slice(0, 160)).join(' | '))""",
                          RULES)
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_no_state_of_the_page_violates_a_rule(small, look, scheme, viewport):
    page = look(small, viewport=viewport, color_scheme=scheme, has_touch=viewport is PHONE,
                reduced_motion="reduce", expected_errors="400",
                before=answering({"reasoning_content": "Hm."}, {"content": ANSWER}, CALL))
    expect(model_button(page)).to_be_enabled()
    check(page)
    page.get_by_label("Files to attach").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"text"})
    expect(page.get_by_role("list", name="Attached files")).to_be_visible()
    check(page)
    say(page, "Show me")
    ended(page)
    expect(page.locator(".katex, .hljs-keyword")).not_to_have_count(0)
    check(page)
    for tab in ("Settings", "Live"):
        open_tab(page, tab)
        check(page)
    page.get_by_role("button", name="Close the panel").click()
    model_button(page).click()
    expect(page.get_by_role("list", name="Models")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+/")
    check(page)
    page.get_by_role("button", name="Close", exact=True).click()
    page.route("**/v1/chat/completions", lambda route: route.fulfill(
        status=400, json={"error": {"message": "The text is too long."}}))
    say(page, "Too long")
    expect(page.get_by_role("alert").filter(has_text="The text is too long.")).to_be_visible()
    check(page)
    if viewport is PHONE:
        page.get_by_role("button", name="Chats").click()
        check(page)
    page.get_by_role("button", name="Actions for Show me").click()
    expect(page.get_by_role("list", name="Conversation actions")).to_be_visible()
    check(page)


def test_targets_on_a_touch_screen_are_large_enough_for_fingers(small, look):
    page = look(small, viewport=PHONE, has_touch=True, is_mobile=True, before=answering({"content": "Yes."}))
    say(page, "Hello")
    ended(page)
    small_ones = """() => [...document.querySelectorAll('button, select, input, summary')]
        .filter((e) => e.checkVisibility() && e.getBoundingClientRect().width > 1)
        .map((e) => [e.getAttribute('aria-label') ?? e.textContent, e.getBoundingClientRect()])
        .filter(([, r]) => r.height < 44 || r.width < 40)
        .map(([name, r]) => `${name} ${r.width}x${r.height}`)"""
    assert page.evaluate(small_ones) == []
    for button in ("Settings", "Chats"):
        page.get_by_role("button", name=button, exact=True).click()
        assert page.evaluate(small_ones) == []
