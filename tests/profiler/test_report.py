"""hearth-profiler report for its users: the page, as a browser shows it, and what the command refuses.

HEARTH_BUILD_DIR locates the program; the browser is chromium. Run by tests/run.sh.
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("HEARTH_BUILD_DIR")
RELU = ROOT / "tests/data/relu/relu-5m-q4_0.powerinfer.gguf"
SILU = ROOT / "tests/data/arch/llama.gguf"
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not BUILD, reason="HEARTH_BUILD_DIR is not set")
in_browser = pytest.mark.skipif(not CHROMIUM, reason="not run: chromium is not installed")

# A machine on which it pays to share the neurons of so small a model: slow memory beside a fast GPU.
SHARING = {r"launch_s = \S+": "launch_s = 1e-8", r"round_trip_s = \S+": "round_trip_s = 1e-7",
           r"ram_read = \[[^]]*\]": "ram_read = [{ threads = 1, bytes_per_s = 1e9 }]"}


@pytest.fixture
def home(tmp_path):
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}


@pytest.fixture
def model(tmp_path):
    """A model alone in its folder, so that nothing is known about its activity."""
    path = tmp_path / "model.gguf"
    shutil.copy(RELU, path)
    return path


def report(home, *arguments, **options):
    program = [str(pathlib.Path(BUILD) / "hearth-profiler"), "report", "--threads", "1", *map(str, arguments)]
    return subprocess.run(program,
                          **{"capture_output": True, "text": True, "timeout": 300, "env": home, **options})


def written(home, out, *arguments):
    done = report(home, *arguments, "--out", out)
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    return out.read_text()


def refused(done):
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def rows(page, title):
    """The first table of the section with that title, as lists of its cells' texts."""
    section = page[page.index(f"<h2>{title}</h2>"):]
    table = section[:section.index("</table>")]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)][1:]


def share(text):
    return float(text.removesuffix(" %")) / 100


@pytest.fixture
def sharing_machine(tmp_path):
    text = (ROOT / "profiler/machine/machines/rtx4090.toml").read_text()
    for line, other in SHARING.items():
        text, n = re.subn(f"(?m)^{line}", other, text)
        assert n == 1, line
    path = tmp_path / "machine.toml"
    path.write_text(text)
    return path


def test_an_unknown_model_is_counted_planned_and_measured(home, model, tmp_path):
    page = written(home, tmp_path / "report.html", "--model", model)
    assert list((tmp_path / "cache/hearth").glob("*.activity"))  # hearthd finds it there
    decode, prefill = rows(page, "Speed")
    assert decode[0] == "decode" and prefill[0] == "prefill"
    for row in (decode, prefill):
        assert all(float(cell.replace(",", "")) > 0 for cell in row[1:4])
        assert share(row[4]) > 0
    assert len(rows(page, "Which neurons are active")) == 4
    assert len(rows(page, "Predictors")) == 4
    assert "model.gguf" in page and "relu" in page
    # The second run counts nothing and finds the same.
    again = written(home, tmp_path / "again.html", "--model", model, "--no-speed")
    for title in ("Which neurons are active", "Predictors", "How often the hot neurons are the ones needed"):
        assert rows(again, title) == rows(page, title)


def test_hot_neurons_are_the_ones_that_held_out_text_needs(home, model, tmp_path, sharing_machine):
    page = written(home, tmp_path / "r.html", "--model", model,
                   "--machine", sharing_machine, "--vram-budget", "0.0055",
                   "--slots", "1")  # more slots would use the budget for keys and values
    rates = {row[0]: share(row[1]) for row in rows(page, "How often the hot neurons are the ones needed")}
    planned, even, chance = (rates["as planned"], rates["the most active, as many of each layer"],
                             rates["at random"])
    assert 0.05 < chance < 0.95  # there is a real choice
    assert planned > even > chance
    assert planned > chance + 0.05
    assert "not measured" in page  # the planned machine is not this one


def test_own_text_is_held_out_unless_it_was_counted(home, model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late.\n"
                            for i in range(60)))
    flags = ("--model", model, "--no-speed", "--held-out", text)
    assert "How often the hot neurons" in written(home, tmp_path / "a.html", *flags)
    count = [str(pathlib.Path(BUILD) / "hearth-profiler"), "count", "--model", model, "--text", text,
             "--no-prompts"]
    assert subprocess.run(count, env=home, capture_output=True, timeout=300).returncode == 0
    done = report(home, *flags, "--out", tmp_path / "b.html")
    assert done.returncode == 0
    assert "All held-out texts were counted before" in done.stderr
    assert "How often the hot neurons" not in (tmp_path / "b.html").read_text()


def test_a_model_without_zeros_gets_a_report_that_says_so(home, tmp_path):
    done = report(home, "--model", SILU, "--out", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert "has no zeros" in done.stderr and "has no zeros" in page
    assert "<h2>Speed</h2>" in page and "Which neurons are active" not in page


@pytest.mark.parametrize("why", ["no folder", "read only", "full"])
def test_without_a_place_to_keep_it_activity_is_counted_for_the_page_alone(home, model, tmp_path, why):
    options = {}
    if why == "no folder":
        home = {key: value for key, value in home.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    elif why == "read only":
        (tmp_path / "cache").write_text("no folder")
    else:
        # less than the activity file needs
        options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))
    done = report(home, "--model", model, "--no-speed", "--out", tmp_path / "r.html", **options)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert len(rows(page, "Which neurons are active")) == 4
    assert "<h2>Predictors</h2>" in page
    if why == "full":
        assert "kept nowhere" in page and "kept nowhere" in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_was_counted_and_the_next_goes_on(home, tmp_path, stop):
    """Runs on a model that takes a while, so that there is something to interrupt."""
    model, out = tmp_path / "model.gguf", tmp_path / "r.html"
    synth = [str(pathlib.Path(BUILD) / "hearth-profiler"), "synth", "--shape", "tiny-bamboo",
             "--out", str(model)]
    assert subprocess.run(synth, capture_output=True, timeout=300).returncode == 0
    out.write_text("the page before")
    command = [str(pathlib.Path(BUILD) / "hearth-profiler"), "report",
               "--threads", "1", "--model", str(model),
               "--no-speed", "--out", str(out)]
    run = subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while run.poll() is None and not list((tmp_path / "cache").rglob("*.activity")):
        time.sleep(0.002)
    run.send_signal(stop)
    stdout, stderr = run.communicate(timeout=120)
    if run.returncode == 0:
        pytest.skip("it was over before it could be interrupted")
    assert run.returncode == 128 + stop and "interrupted" in stderr and stdout == ""
    assert out.read_text() == "the page before"
    page = written(home, out, "--model", model, "--no-speed")
    assert len(rows(page, "Which neurons are active")) > 1
    n_tokens = int(re.search(r"Counted over ([\d,]+) tokens", page)[1].replace(",", ""))
    assert n_tokens >= 2000


def test_predictors_beside_a_model_are_judged_as_they_run(home, model, tmp_path):
    """Ignores the thresholds in the model's own file; compares with what the engine counts while it runs."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The {i * i} boats of harbour {i} came in {i % 7} days late.\n"
                            for i in range(300)))
    tool = str(pathlib.Path(BUILD) / "hearth-profiler")
    train = [tool, "train-predictors", "--model", str(model), "--text", str(text), "--side-file",
             "--tokens", "512", "--measure-tokens", "128", "--window", "64", "--epochs", "1"]
    done = subprocess.run(train, capture_output=True, text=True, timeout=300, env=home)
    assert done.returncode == 0, done.stderr
    # The key that the model's own predictors would use.
    data = model.read_bytes()
    key = b"powerinfer.sparse_threshold"
    at = data.index(key) + len(key) + 4
    model.write_bytes(data[:at] + struct.pack("<f", 2.0) + data[at + 4:])
    page = written(home, tmp_path / "r.html", "--model", model, "--no-speed", "--held-out", text)
    found = [[share(cell) for cell in row[1:3]] for row in rows(page, "Predictors")]
    proposed = sum(row[1] for row in found) / 4
    run = [tool, "perplexity", "--model", str(model), "--sparsity", "predicted", "--file", str(text),
           "--window", "256"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, env=home)
    assert done.returncode == 0, done.stderr
    engine = float(re.search(r"([\d.]+) % (?:of neurons )?proposed|proposed ([\d.]+) %", done.stdout)[0]
                   .split(" %")[0].split()[-1])
    assert proposed == pytest.approx(engine / 100, abs=0.05)


def test_mistakes_are_reported_before_any_work(home, model, tmp_path):
    assert "it is a folder" in refused(report(home, "--model", model, "--out", tmp_path))
    assert "its folder does not exist" in refused(
        report(home, "--model", model, "--out", tmp_path / "no/r.html"))
    assert "nothing.gguf" in refused(report(home, "--model", tmp_path / "nothing.gguf",
                                            "--out", tmp_path / "r.html"))
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 40)
    binary = report(home, "--model", model, "--no-speed", "--held-out", tmp_path / "binary",
                    "--out", tmp_path / "r.html")
    assert "binary" in refused(binary)
    (tmp_path / "other.activity").write_bytes(b"HACT and no more")
    assert "other.activity" in refused(report(home, "--model", model,
                                              "--activity", tmp_path / "other.activity"))
    for flags, words in [(("--machine", "rtx409"), "rtx4090"), (("--context", "99999999"), "--context"),
                         (("--context", "99999"), "trained on"), (("--vram-budget", "nan"), "nan"),
                         (("--sparsity", "predicted", "--activity", tmp_path / "nothing"), "nothing"),
                         (("--held-out", tmp_path / "nothing"), "nothing"),
                         (("--vram-budget", "1"), "no GPU")]:
        done = report(home, "--model", model, *flags, "--out", tmp_path / "r.html")
        assert done.returncode == 2 and words in done.stderr and done.stdout == "", flags
    assert not list((tmp_path / "cache").rglob("*.activity"))  # none of these counted anything
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in refused(report(home, "--model", model, "--no-speed", "--out", tmp_path / "pipe"))
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("context", [1, 2, 3])
def test_the_smallest_contexts_have_a_report(home, model, tmp_path, context):
    page = written(home, tmp_path / "r.html", "--model", model, "--context", context)
    assert len(rows(page, "Speed")) == 2
    assert ("not measured" in page) == (context == 1)


def test_counts_in_a_table_are_shown(home, model, tmp_path):
    tool = str(pathlib.Path(BUILD) / "hearth-profiler")
    count = [tool, "count", "--model", str(model), "--tokens", "300", "--csv", str(tmp_path / "c.csv")]
    assert subprocess.run(count, env=home, capture_output=True, timeout=300).returncode == 0
    own = written(home, tmp_path / "a.html", "--model", model, "--no-speed", "--activity", tmp_path / "c.csv")
    [kept] = (tmp_path / "cache/hearth").glob("*.activity")
    same = written(home, tmp_path / "b.html", "--model", model, "--no-speed", "--activity", kept)
    assert rows(own, "Which neurons are active") == rows(same, "Which neurons are active") != []


def test_a_full_disk_leaves_the_page_that_was_there(home, model, tmp_path):
    out = tmp_path / "r.html"
    page = written(home, out, "--model", model, "--no-speed")
    few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    assert "r.html" in refused(report(home, "--model", model, "--no-speed", "--out", out, preexec_fn=few))
    assert out.read_text() == page
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("r.html") and path != out]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A report with every part."""
    folder = tmp_path_factory.mktemp("page")
    model = folder / "a model with a rather long name, <b>bold.gguf"
    shutil.copy(RELU, model)
    home = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    written(home, folder / "report.html", "--model", model)
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="not run: playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, chromium_sandbox=False)
        yield browser
        browser.close()


def opened(browser, path, **settings):
    """The page, and what it requested and reported."""
    page = browser.new_page(**settings)
    page.asked, page.complaints = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(path.as_uri())
    return page


@in_browser
def test_the_page_is_whole_and_asks_for_nothing(browser, page_file):
    page = opened(browser, page_file)
    assert page.asked == [page_file.as_uri()]
    assert page.complaints == []
    assert page.title().endswith("Hearth report")
    assert "<b>bold" in page.inner_text("h1")  # the name is shown as text
    titles = page.locator("h2").all_inner_texts()
    assert titles == ["Speed", "Memory", "How often the hot neurons are the ones needed",
                      "Which neurons are active", "How unevenly", "Predictors", "The plan"]
    assert page.locator("svg").count() == 4
    assert "PowerInfer: 26 % make up 80 %" in page.inner_text("body")
    # The 26 %/80 % point is where the axes say, in the curve's plot, measured from what the browser drew.
    box = lambda element: element.evaluate(
        "e => { const b = e.getBBox(); return [b.x, b.y, b.width, b.height] }")
    curve = page.locator("svg", has_text="PowerInfer: 26 %")
    left, top, width, height = box(curve.locator(".even"))
    mark = box(curve.locator("circle.mark"))
    assert (mark[0] + mark[2] / 2 - left) / width == pytest.approx(0.26, abs=0.01)
    assert 1 - (mark[1] + mark[3] / 2 - top) / height == pytest.approx(0.80, abs=0.01)
    # The heat map's rows are drawn side by side without gaps.
    heat = page.locator("svg", has_text="the most active first").first
    drawn = [box(rect) for rect in heat.locator("rect[class^=heat]").all()]
    assert sum(w * h for _, _, w, h in drawn) == pytest.approx(
        (max(x + w for x, _, w, _ in drawn) - min(x for x, _, _, _ in drawn)) *
        (max(y + h for _, y, _, h in drawn) - min(y for _, y, _, _ in drawn)), rel=0.01)


@in_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_phones_and_desks(browser, page_file, width):
    page = opened(browser, page_file, viewport={"width": width, "height": 800})
    for number in page.locator("summary").all():
        number.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for chart in page.locator("svg").all():
        drawn = chart.bounding_box()
        assert drawn["width"] > 0.5 * min(width, 760) and drawn["height"] > 50


@in_browser
def test_text_is_readable_in_light_and_dark(browser, page_file):
    def contrast(page, selector):
        """WCAG 2's contrast between an element's text and the page."""
        def luminance(color):
            channels = [int(c) / 255 for c in re.findall(r"\d+", color)[:3]]
            linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        style = lambda s, name: page.locator(s).first.evaluate(f"e => getComputedStyle(e).{name}")
        name = "fill" if selector.startswith("svg") else "color"
        pair = sorted([luminance(style(selector, name)), luminance(style("body", "backgroundColor"))])
        return (pair[1] + 0.05) / (pair[0] + 0.05)

    backgrounds = set()
    for scheme in ("light", "dark"):
        page = opened(browser, page_file, color_scheme=scheme)
        backgrounds.add(page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor"))
        for selector in ("body", ".soft", "footer", "th", "summary", ".key", "svg text"):
            assert contrast(page, selector) >= 4.5, (scheme, selector)
    assert len(backgrounds) == 2
