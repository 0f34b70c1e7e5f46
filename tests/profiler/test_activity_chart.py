"""The chart of activity: the committed SVG equals what its script draws from the committed table, and is
well-formed."""
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

FIGURES = pathlib.Path(__file__).resolve().parents[2] / "docs/figures"


def draw(out, *tables):
    done = subprocess.run([sys.executable, FIGURES / "activity.py", out, *tables], capture_output=True,
                          text=True, timeout=60)
    return done.returncode, done.stderr


def test_committed_chart_is_what_the_script_draws(tmp_path):
    table = FIGURES.parents[1] / "tests/data/relu/activity.csv"
    assert draw(tmp_path / "a.svg", table) == (0, "")
    assert (tmp_path / "a.svg").read_bytes() == (FIGURES / "activity.svg").read_bytes()


def test_any_number_of_tables_and_layers(tmp_path):
    rows = [f"{layer},{neuron},{(layer + neuron) % 5}\n" for layer in range(40) for neuron in range(7)]
    (tmp_path / "many.csv").write_text(
        "# model: <40 & layers>\n# tokens: 4\nlayer,neuron,count\n" + "".join(rows))
    (tmp_path / "never.csv").write_text("# tokens: 1\nlayer,neuron,count\n0,0,0\n")
    assert draw(tmp_path / "a.svg", tmp_path / "many.csv", tmp_path / "never.csv") == (0, "")
    root = xml.etree.ElementTree.parse(tmp_path / "a.svg").getroot()
    paths = root.findall("{http://www.w3.org/2000/svg}path")
    assert sum(path.get("class") == "layer" for path in paths) == 2 * (40 + 1) + 5 + 1
    assert "nan" not in (tmp_path / "a.svg").read_text()


def test_what_is_no_table_is_refused(tmp_path):
    for text, said in [("", "no table"), ("# tokens: 1\nlayer,neuron,count\n0,1,0\n", "out of order")]:
        (tmp_path / "a.csv").write_text(text)
        code, error = draw(tmp_path / "a.svg", tmp_path / "a.csv")
        assert code == 1 and said in error
