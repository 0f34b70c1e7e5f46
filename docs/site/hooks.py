"""Makes the pages of docs/ a site; MkDocs calls it (.mkdocs.yml names this file).

The same Markdown is read on a forge, so it holds nothing that only MkDocs knows. This file supplies the rest:
- navigation: the headings and the rows of the tables in docs/README.md, in their order;
- the home page: the top README, with docs/README.md under it;
- the page "API reference", from server/api/description/openapi.json (api_reference.py beside this file);
- anchors as forges make them, links to the top README, and links to files that are no pages.

HEARTH_SITE_SOURCE, such as https://HOST/OWNER/hearth/blob/main, is where links to source files lead. Without
it they become plain text, because the site must not have broken links.
"""
import os
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent
ROOT = DOCS.parent
sys.path.insert(0, str(HERE))
import api_reference  # noqa: E402
from markdown_outside_code import outside_code  # noqa: E402

OPENAPI = "server/api/description/openapi.json"
API_PAGE = "api-reference.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
# How much a page counts in the search: pages for newcomers come before those about reasons and history.
BOOST = {"quickstart.md": 2, "concepts.md": 2, "glossary.md": 2, "CHANGELOG.md": 0.3}
ELSEWHERE = re.compile(r"[a-z]+:|#")
PAGE_NAME = re.compile(r"[\w-]+\.md")
TABLE_ROW = re.compile(r"\| *\[[^\]]*\]\(([^)\s]+)\)")


def slug(title, separator):
    """The anchor that forges give a heading."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def page_of(target):
    """The page of the site for a link in docs/README.md."""
    return API_PAGE if target == "../" + OPENAPI else target


def navigation():
    """[{"Home": page}, {heading: [page, ...]}, ...] from the tables of docs/README.md."""
    sections = [{"": []}]
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            sections.append({line[3:].strip(): []})
        elif row := TABLE_ROW.match(line):
            next(iter(sections[-1].values())).append(page_of(row.group(1)))
    return [{"Home": "README.md"}, *(section for section in sections if any(section.values()))]


def on_config(config):
    config.nav = navigation()
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files, config):
    files.append(File.generated(config, API_PAGE, content=api_reference.page(ROOT / OPENAPI)))
    return files


def resolved(link, page):
    """Where a link of docs/PAGE leads on the site; None if its target is not part of the site."""
    path, hash_sign, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    if target == "README.md":
        return "README.md" + hash_sign + anchor
    if target == OPENAPI:
        return API_PAGE
    if (target.startswith("docs/") and (ROOT / target).is_file()
        and not target.endswith((".py", ".json", ".sh"))):
        return posixpath.relpath(target, posixpath.join("docs", posixpath.dirname(page))) + hash_sign + anchor
    source = os.environ.get("HEARTH_SITE_SOURCE", "").rstrip("/")
    # A link to nothing stays as it is, so that MkDocs reports it.
    return link if not (ROOT / target).exists() else f"{source}/{target}" if source else None


def title_of(page):
    """The heading of a page of docs/."""
    if page == API_PAGE:
        return "API reference"
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    return next(line[2:].strip() for line in lines if line.startswith("# "))


def on_page_markdown(markdown, page, config, files):
    path = page.file.src_uri
    page.meta.setdefault("search", {"boost": BOOST.get(path, 1)})
    if path == API_PAGE:
        return markdown
    if path == "README.md":
        markdown = home(markdown)

    def relinked(match):
        image, words, link = match.groups()
        if ELSEWHERE.match(link):
            return match.group(0)
        to = resolved(link, path)
        if to is None:
            return words
        if PAGE_NAME.fullmatch(words) and posixpath.basename(link.partition("#")[0]) == words:
            # a forge's readers know pages by their files, the site's readers by their titles
            words = title_of(to.partition("#")[0])
        return f"{image}[{LINK.sub(relinked, words)}]({to})"

    return outside_code(markdown, lambda text: LINK.sub(relinked, text))


def home(index):
    """The top README, its links seen from docs/, and then the list of all pages."""
    top = (ROOT / "README.md").read_text(encoding="utf-8")

    def from_docs(match):
        image, words, link = match.groups()
        if not ELSEWHERE.match(link):
            link = posixpath.relpath(link.partition("#")[0], "docs") + "".join(link.partition("#")[1:])
        return f"{image}[{words}]({link})"

    top = outside_code(top, lambda text: LINK.sub(from_docs, text))
    tables = index[index.index("\n## "):].replace("\n## ", "\n### ")
    return f"{top}\n## All pages\n{tables}"
