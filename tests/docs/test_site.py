"""The documentation as a site: it builds without network, all its links and anchors exist, and it fetches
nothing from elsewhere.

The site is built once into a temporary folder, in a network namespace without network if root may make one.
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPENAPI = ROOT / "server/api/description/openapi.json"
LIST_IN_TEXT = re.compile(r"^(?:[-*+] |1\. |\| |\|-|```|#{1,6} )", re.MULTILINE)


class Page(html.parser.HTMLParser):
    """The links of a built page, what it fetches, its anchors, and the text of its paragraphs."""

    def __init__(self, path):
        super().__init__()
        self.links, self.fetched, self.anchors, self.paragraphs = [], [], set(), []
        self.in_paragraph = self.in_code = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(values.get("href", ""))
        elif "src" in values:
            self.fetched.append(values["src"])
        for candidate in values.get("srcset", "").split(","):
            self.fetched += candidate.split()[:1]
        if tag == "p":
            self.in_paragraph = True
            self.paragraphs.append("")
        if tag == "code":
            self.in_code = True

    def handle_endtag(self, tag):
        if tag == "p":
            self.in_paragraph = False
        if tag == "code":
            self.in_code = False

    def handle_data(self, data):
        if self.in_paragraph and not self.in_code:
            self.paragraphs[-1] += data


def without_network():
    """The words before a command that cut it off from the network, or none if that is not permitted."""
    words = ["unshare", "--net"]
    allowed = (shutil.which("unshare")
               and subprocess.run([*words, "true"], capture_output=True).returncode == 0)
    return words if allowed else []


def build(root, folder):
    """Exit code and output of a build of the tree at root."""
    pytest.importorskip("material", reason="mkdocs-material of tests/requirements-all.txt is not installed")
    environment = {name: value for name, value in os.environ.items() if name != "HEARTH_SITE_SOURCE"}
    done = subprocess.run([*without_network(), root / "docs/site/build.sh", "--site-dir", folder],
                          capture_output=True, text=True,
                          env={**environment, "PYTHON": sys.executable}, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    code, output = build(ROOT, folder)
    assert code == 0 and "WARNING" not in output, output
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_mistakes_end_a_build(tmp_path):
    """Finds a broken link, a link to a missing anchor, and a page that docs/README.md does not list."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for entry in ROOT.iterdir():
        if entry.name not in ("docs", "build", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    with open(tmp_path / "docs/clients.md", "a", encoding="utf-8") as page:
        page.write("\n[one](nowhere.md) [two](api.md#nowhere)\n")
    (tmp_path / "docs" / "unlisted.md").write_text("# Unlisted\n")
    code, output = build(tmp_path, tmp_path / "built")
    assert code == 1
    for words in ("a link 'nowhere.md'", "'api.md' does not contain an anchor '#nowhere'", "- unlisted.md",
                  "Aborted with 3 warnings"):
        assert words in output, output


def is_local(address):
    return not re.match(r"(?:[a-z][a-z0-9+.-]*:|//)", address, re.IGNORECASE)


def test_every_page_of_the_documentation_is_in_the_navigation(site, pages):
    sources = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    linked = {pathlib.PurePosixPath(link.partition("#")[0]).stem for link in pages["index.html"].links}
    assert sources | {"api-reference"} <= linked
    assert {name.removesuffix(".html") for name in pages} == sources | {"index", "404", "api-reference"}
    nav = re.search(r'<nav class="md-nav md-nav--primary.*?</nav>\s*</div>',
                    (site / "speed.html").read_text(), re.DOTALL)
    assert all(f'href="{name}.html"' in nav.group(0) for name in sources - {"speed"})


def test_every_link_and_anchor_is_there(site, pages):
    faults = []
    for name, page in pages.items():
        for link in [*page.links, *page.fetched]:
            if not is_local(link) or name == "404.html":  # that page's addresses begin at the host's root
                continue
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            target = (site / name).parent / path if path else site / name
            if not target.is_file():
                faults.append(f"{name}: {link} is not there")
            elif anchor and target.suffix == ".html":
                there = pages[target.resolve().relative_to(site.resolve()).as_posix()].anchors
                if anchor not in there:
                    faults.append(f"{name}: {link}, which has no such anchor")
    assert faults == []
    assert sum(len(page.links) for page in pages.values()) > 1000  # the test has checked something


def test_nothing_is_fetched_from_elsewhere(site, pages):
    assert [(name, address) for name, page in pages.items()
            for address in page.fetched if not is_local(address)] == []
    for sheet in site.rglob("*.css"):
        found = re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')]+)""",
                           sheet.read_text(encoding="utf-8"))
        assert found == [], sheet


def test_nothing_but_the_site_is_in_it(site):
    """The site contains no scripts of ours, and none of the data from which pictures are drawn."""
    assert [path for path in site.rglob("*") if path.suffix in (".py", ".pyc", ".sh", ".md")] == []
    assert [path.name for path in site.rglob("*.json")] == ["search_index.json"]


def test_markdown_means_the_same_as_on_a_forge(pages):
    """Finds lists, tables and fences that the site's parser takes for text, for example because they need an
    empty line before them."""
    faults = [(name, text[:80]) for name, page in pages.items()
              for text in page.paragraphs if LIST_IN_TEXT.search(text)]
    assert faults == []


def test_the_reference_has_every_endpoint_field_and_schema(site):
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    text = re.sub(r"<[^>]+>", "", (site / "api-reference.html").read_text(encoding="utf-8"))
    text = text.replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in text and operation["summary"] in text, path
    missing = {name: field for name, schema in document["components"]["schemas"].items()
               for part in [schema, *schema.get("allOf", [])]
               for field in part.get("properties", {}) if field not in text}
    assert missing == {}


def test_it_works_from_a_folder_with_search(site):
    """In a browser, from file:// addresses: the search finds pages, and nothing uses the network."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    asked, failed = [], []
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.locator("input[name=query]").click()
        page.keyboard.type("neuron cache")  # types as a person does, because the page handles key events
        page.locator(".md-search-result__link").first.wait_for(timeout=120_000)
        found = page.locator(".md-search-result__link").evaluate_all("links => links.map(link => link.href)")
        browser.close()
    assert any("glossary.html" in link or "concepts.html" in link for link in found), found
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []
    assert failed == []
