"""Manual pages and completions of both programs, read by man, mandoc, bash, zsh and fish."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("HEARTH_BUILD_DIR", ROOT / "build" / "release"))
PROGRAMS = ("hearthd", "hearth-profiler")
PAGES = {"hearthd.1": ("hearthd", "--help-man"), "hearth.toml.5": ("hearthd", "--help-man-toml"),
         "hearth-profiler.1": ("hearth-profiler", "--help-man")}


def output(program, *arguments):
    done = subprocess.run([BUILD / program, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def needs(tool):
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


@pytest.fixture(params=PAGES)
def page(request, tmp_path):
    path = tmp_path / request.param
    path.write_text(output(*PAGES[request.param]))
    return path


@needs("man")
def test_man_prints_no_warnings(page):
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", page], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": ""},
                          check=True)
    assert done.stderr == "" and "NAME" in done.stdout and "\\" not in done.stdout.replace("a \\ ", "")


@needs("mandoc")
def test_mandoc_prints_no_warnings(page):
    """Pages have no date, so that the same program always writes the same page."""
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def commands_of_profiler():
    text = output("hearth-profiler", "--help").partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z][\w-]*) ", text, re.MULTILINE)


def flags_of(help_text):
    return set(re.findall(r"^\s+(?:-\w,\s*)?(--[a-z][\w-]*)", help_text, re.MULTILINE))


@pytest.mark.parametrize("form", ["--help-man", "--help-completion-bash", "--help-completion-zsh",
                                  "--help-completion-fish"])
def test_the_profilers_manual_has_every_option(form):
    text = output("hearth-profiler", form).replace("\\-", "-")
    commands = commands_of_profiler()
    assert len(commands) >= 9
    wanted = set(commands)
    for command in commands:
        wanted |= flags_of(output("hearth-profiler", command, "--help"))
    assert len(wanted) > 40
    for name in wanted:
        spelled = " -l " + name[2:] if form.endswith("fish") and name.startswith("--") else name
        assert re.search(re.escape(spelled) + r"(?![\w-])", text), name


def complete(program, *words):
    """What bash offers after `words`, the last of which is being typed."""
    script = BUILD / "manuals" / f"{program}.bash"
    assert script.read_text() == output(program, "--help-completion-bash")
    # Like readline, treat '=' as a word of its own.
    split = ([part for word in words for part in re.split(r"(=)", word) if part]
             + ([""] if words[-1] == "" else []))
    quoted = " ".join("'" + word + "'" for word in [program, *split])
    done = subprocess.run(["bash", "--norc", "-c", f"""
        source '{script}'
        set -u
        [[ $(complete -p {program}) == 'complete -F _{program.replace("-", "_")} {program}' ]] || exit 9
        COMP_WORDS=({quoted}) COMP_CWORD={len(split)}
        _{program.replace("-", "_")}
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """], capture_output=True, text=True, cwd=ROOT / "config", check=True)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []


def test_bash_completes_flags_and_their_values():
    assert complete("hearthd", "--dev") == ["--device"]
    assert {"--model", "--help", "-h", "--check-config"} <= set(complete("hearthd", ""))
    assert complete("hearthd", "--help-") == []  # hidden ones stay so
    assert complete("hearthd", "--device", "") == ["auto", "cpu", "cuda"]
    assert complete("hearthd", "--device", "cu") == complete("hearthd", "--device=cu") == ["cuda"]
    assert complete("hearthd", "--device=") == ["auto", "cpu", "cuda"]
    assert complete("hearthd", "--port", "") == []  # a number: nothing to offer
    assert complete("hearthd", "--port", "80", "--log-l") == ["--log-level"]


def test_bash_completes_files():
    assert complete("hearthd", "--model", "hearth.t") == complete("hearthd", "--model=hearth.t") == [
        "hearth.toml"]


def test_bash_completes_subcommands_and_their_options():
    assert complete("hearthd", "sh") == ["show"]
    assert complete("hearthd", "pull", "--ret") == ["--retries"]
    assert complete("hearthd", "show", "hearth.t") == ["hearth.toml"]
    assert complete("hearth-profiler", "pla") == ["plan"]
    assert set(commands_of_profiler()) | {"--help", "--version", "-h"} == set(complete("hearth-profiler", ""))
    assert complete("hearth-profiler", "synth", "--quant", "q8") == ["q8_0"]
    assert "--seed" in complete("hearth-profiler", "synth", "--s")
    assert complete("hearth-profiler", "probe", "--mod") == []


@needs("zsh")
@pytest.mark.parametrize("program", PROGRAMS)
def test_zsh_reads_its_completion(program, tmp_path):
    script = tmp_path / f"_{program}"
    script.write_text(output(program, "--help-completion-zsh"))
    subprocess.run(["zsh", "-n", script], check=True)
    assert script.read_text().startswith(f"#compdef {program}\n")


@needs("zsh")
@pytest.mark.parametrize("words, offered", [
    (["hearthd", "--device="], {"auto", "cpu", "cuda"}),
    (["hearth-profiler", ""], {"plan", "bench", "synth"}),
    (["hearth-profiler", "synth", "--quant="], {"q8_0", "f16"}),
    (["hearth-profiler", "plan", "--mach"], {"--machine"})])
def test_zsh_offers(words, offered, tmp_path):
    """In a real zsh on a terminal of its own: Tab is pressed, and what is listed is read."""
    for program in PROGRAMS:
        (tmp_path / f"_{program}").write_text(output(program, "--help-completion-zsh"))
    typed = " ".join(words)
    driver = tmp_path / "driver.zsh"
    driver.write_text(f"""
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell 'PS1=; fpath=({tmp_path} $fpath); autoload -Uz compinit; \
            compinit -u -d {tmp_path}/dump; LISTMAX=9999'
        zpty -w shell 'bindkey "^D" list-choices; print rea""dy'
        local out all deadline=$((SECONDS + 60))
        while [[ $all != *ready* ]] && ((SECONDS < deadline)); do
          zpty -rt shell out && all+=$out
          sleep 0.05
        done
        all=
        zpty -w -n shell $'{typed}\\x04'
        local end=$((SECONDS + 20))
        while ((SECONDS < end)); do
          while zpty -rt shell out; do all+=$out; done
          {" && ".join(f'[[ $all == *{word}* ]]' for word in sorted(offered))} && break
          sleep 0.05
        done
        print -r -- $all
        zpty -d shell
        """)
    done = subprocess.run(["zsh", "-f", driver], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TERM": "dumb", "COLUMNS": "200", "LINES": "200"},
                          stdin=subprocess.DEVNULL)
    assert all(word in done.stdout for word in offered), done.stdout + done.stderr


@needs("fish")
@pytest.mark.parametrize("program", PROGRAMS)
def test_fish_reads_and_offers(program, tmp_path):
    script = tmp_path / f"{program}.fish"
    script.write_text(output(program, "--help-completion-fish"))
    subprocess.run(["fish", "-n", script], check=True)
    line = {"hearthd": "hearthd --device ", "hearth-profiler": "hearth-profiler synth --quant "}[program]
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "HOME": str(tmp_path)})
    offered = {entry.partition("\t")[0] for entry in done.stdout.splitlines()}
    assert offered >= {"hearthd": {"auto", "cpu", "cuda"}, "hearth-profiler": {"q8_0", "f16"}}[program], done
