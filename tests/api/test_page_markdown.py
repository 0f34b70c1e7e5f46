"""The Markdown of answers in the page at /: what is shown, what stays text, and how it grows."""
import re

from playwright.sync_api import expect

from browser_page import answering, body_of, chunk, ended, needs_chromium, say
from browser_page import browser, look, slowly, small  # noqa: F401 (fixtures)

pytestmark = needs_chromium

MARKDOWN = """# Title

A *soft* and **loud** `line` with [a link](https://example.org/x) and ~~this~~.
<script>window.broken = 1</script> <img src=x onerror="window.broken = 2">

[bad](javascript:window.broken=3) [worse](  JaVaScRiPt:alert(1)) [data](data:text/html,<script>1</script>) \
![picture](https://example.org/p.png)

1. one
2. two
   - inner

```python
print("<b>hello</b>")
```

| a | b |
|---|--:|
| 1 | <i>2</i> |

> quoted
"""


def test_markdown_is_shown_and_cannot_inject(small, look):
    page = look(small, before=answering({"role": "assistant", "content": ""},
                                        *[{"content": part} for part in re.findall(r"(?s).{1,7}", MARKDOWN)]))
    say(page, "Show me")
    answer = ended(page)
    body = body_of(answer)
    expect(body.get_by_role("heading", name="Title")).to_be_visible()
    expect(body.locator("em")).to_have_text("soft")
    expect(body.locator("strong")).to_have_text("loud")
    expect(body.locator("p code")).to_have_text("line")
    expect(body.locator("s")).to_have_text("this")
    expect(body.locator("ol > li")).to_have_count(2)
    expect(body.locator("ol ul > li")).to_have_text("inner")
    expect(body.locator("pre")).to_have_text('print("<b>hello</b>")')
    expect(body.locator("td").nth(1)).to_have_text("<i>2</i>")
    expect(body.locator("blockquote")).to_have_text("quoted")
    assert [link.get_attribute("href") for link in body.locator("a").all()] == [
        "https://example.org/x", "https://example.org/p.png"]
    assert body.locator("script, img, i, b").count() == 0
    assert "<script>window.broken = 1</script>" in body.inner_text()
    assert page.evaluate("window.broken") is None


def shown(look, server, *parts):
    page = look(server, before=answering(*[{"content": part} for part in parts]))
    say(page, "Show me")
    return page, body_of(ended(page))


def test_formulas_are_set_and_prices_are_not(small, look):
    page, body = shown(look, small, r"""Inline \( a^2 \) and $e^{i\pi}$, for $5 and $10, US$20 or 30$.

\[
\int_0^1 e^{-x^2}\,dx
- 1
\]

1. In a list: $$x_1$$

   $$
   \begin{aligned} a &= 1 \\ b &= 2 \end{aligned}
   $$

`$no$ formula`, \\(nor this\\), and \(\wrong{\) is not TeX.
""")
    expect(body.locator(".katex annotation")).to_have_count(5)
    sources = [node.text_content() for node in body.locator(".katex annotation").all()]
    assert sources == ["a^2", r"e^{i\pi}", "\\int_0^1 e^{-x^2}\\,dx\n- 1", "x_1",
                       r"\begin{aligned} a &= 1 \\ b &= 2 \end{aligned}"]
    assert "for $5 and $10, US$20 or 30$." in body.inner_text()
    expect(body.locator(".math.display")).to_have_count(3)
    expect(body.locator(".math.wrong")).to_have_text(r"\wrong{")
    expect(body.locator("code")).to_have_text("$no$ formula")
    # KaTeX's fonts come from the server.
    page.evaluate("document.fonts.ready.then(() => true)")
    assert page.evaluate(
        "[...document.fonts].some((f) => f.family.includes('KaTeX') && f.status === 'loaded')")


def test_lists_tables_and_links_are_as_models_write_them(small, look):
    _, body = shown(look, small, """1. one
2. two

- [ ] to do
- [x] done

| a | b |
|:-:|--:|
| one<br>two | 5 &lt; 6 |

[w](https://example.org/A_(b)) and https://example.org/c.

Title
=====

~~~~md
```sh
inner
```
~~~~
""")
    assert body.locator("ol > li").all_inner_texts() == ["one", "two"]
    boxes = body.get_by_role("checkbox")
    assert [box.is_checked() for box in boxes.all()] == [False, True]
    expect(body.locator("td").first).to_have_text("one\ntwo", use_inner_text=True)
    expect(body.locator("td.right")).to_have_text("5 < 6")
    assert [link.get_attribute("href") for link in body.locator("a").all()] == [
        "https://example.org/A_(b)", "https://example.org/c"]
    assert all(link.get_attribute("rel") == "noopener noreferrer nofollow"
               for link in body.locator("a").all())
    expect(body.get_by_role("heading", name="Title")).to_be_visible()
    expect(body.locator("pre")).to_have_text("```sh\ninner\n```\n")


FOOTNOTES = """A fact.[^b] Another.[^1] `[^1]` and [^a-z]+ are no notes.

[^1]: https://example.org/source
[^b]: A **loud** note
over two lines.

End.
"""


def test_footnotes_are_numbered_and_shown_where_they_stand(small, look, slowly):
    def check(body):
        expect(body.locator("p sup")).to_have_text(["1", "2"])
        expect(body.locator("p").first).to_have_text("A fact.1 Another.2 [^1] and [^a-z]+ are no notes.")
        notes = body.locator(".footnote")
        expect(notes).to_have_text(["2 https://example.org/source", "1 A loud note over two lines."],
                                   use_inner_text=True)
        expect(notes.locator("a")).to_have_attribute("href", "https://example.org/source")
        expect(notes.locator("strong")).to_have_text("loud")
        expect(body.locator("p").last).to_have_text("End.")

    _, whole = shown(look, small, FOOTNOTES)
    check(whole)
    page = look(small, before=slowly(lambda: letters(FOOTNOTES)))
    say(page, "Show me")
    check(body_of(ended(page)))


CODE = """```python
def greet(name):
    \"\"\"Says
    hello.\"\"\"
    return name
```
"""


def test_code_is_colored_line_by_line_as_when_it_comes_at_once(small, look, slowly):
    _, at_once = shown(look, small, CODE)
    expect(at_once.locator(".hljs-keyword")).to_have_text(["def", "return"])
    expect(at_once.locator(".hljs-string")).to_have_count(1)
    page = look(small, before=slowly(lambda: letters(CODE)))
    say(page, "Show me")
    by_letter = body_of(ended(page))
    expect(by_letter.locator(".hljs-keyword")).to_have_text(["def", "return"])
    # A string of two lines is one span or two, as its lines came; the text and its colors are equal.
    assert by_letter.locator("code").inner_text() == at_once.locator("code").inner_text()
    assert "".join(by_letter.locator(".hljs-string").all_inner_texts()) == '"""Says\n    hello."""'


def test_buttons_of_code_stay_in_view_and_lines_wrap(small, look):
    page, body = shown(look, small, "```js\n" + "let x = 1;\n" * 200 + "yzzzzzzz" * 90 + "\n```\n")
    page.locator("#transcript").evaluate("(e) => { e.scrollTop = e.scrollHeight / 2; }")
    expect(body.get_by_role("button", name="Copy the code")).to_be_in_viewport()
    pre = body.locator("pre")
    sideways = "(e) => e.scrollWidth > e.clientWidth"
    assert pre.evaluate(sideways)
    body.get_by_role("button", name="Wrap long lines").click()
    assert not pre.evaluate(sideways)


def test_what_an_answer_does_not_need_is_not_loaded(small, look):
    asked = []
    page = look(small, before=answering({"content": "Plain *text*."}))
    page.on("request", lambda request: asked.append(request.url))
    say(page, "Show me")
    ended(page)
    assert not [url for url in asked if "/page/" in url and "/page/events" not in url]


GROWS = """First *one*.

- a
- b

```js
let a = 1;
let b = 2;
```

| a |
|---|
| b |

\\[ x^2
+ y \\]

Last."""


def letters(text):
    """The parts of an answer, a letter at a time."""
    yield from (chunk({"content": letter}) for letter in text)
    yield chunk({}, finish_reason="stop") + "data: [DONE]\n\n"


def test_a_growing_answer_keeps_what_is_shown_and_ends_as_one_that_comes_whole(small, look, slowly):
    _, whole = shown(look, small, GROWS)
    expect(whole.locator(".katex")).to_have_count(1)
    expect(whole.locator(".hljs-keyword")).to_have_count(2)
    page = look(small, before=slowly(lambda: letters(GROWS)))
    say(page, "Show me")
    page.evaluate("""async () => {
        // Each kind of block, as soon as it is there, and which of them the page removes again.
        window.seen = {}; window.removed = [];
        new MutationObserver((list) => {
            for (const {removedNodes, target} of list)
                if (target.matches?.('.message > .body'))
                    window.removed.push(...[...removedNodes].map((n) => n.nodeName));
            for (const node of document.querySelector('.message.assistant > .body')?.children ?? [])
                window.seen[node.nodeName + (node.dataset.language ?? '')] ??= node;
        }).observe(document.getElementById('transcript'), {childList: true, subtree: true}); }""")
    body = body_of(ended(page))
    expect(body.locator(".katex")).to_have_count(1)
    expect(body.locator(".hljs-keyword")).to_have_count(2)
    plain = "(e) => e.innerHTML.replace(/<.?span[^>]*>/g, '')"
    assert body.evaluate(plain) == whole.evaluate(plain)
    for kind in ("P", "UL", "FIGUREjs"):
        assert page.evaluate(f"window.seen['{kind}'].isConnected"), kind
    # A paragraph becomes a list, code, a table or a formula when their marks are complete: once each.
    assert len(page.evaluate("window.removed")) <= 5
