"""The list of models in the page at /: names of one model are one entry, several models are loaded by
choosing them, and a model that has left is noticed.
"""
import shutil

import httpx
import pytest
from playwright.sync_api import expect

import gguf_edit
import hearthd
import small_model
from browser_page import ended, model_button, needs_chromium, open_tab, say, settings
from browser_page import browser, look  # noqa: F401 (fixtures)

pytestmark = needs_chromium


@pytest.fixture()
def folder(tmp_path):
    """Two models that differ in the context of their training."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(small_model.path(), models / "one.gguf")
    gguf_edit.copy_with(small_model.path(), models / "two.gguf", {"llama.context_length": 256})
    return models


@pytest.fixture()
def start():
    servers = []

    def begin(*arguments, **keywords):
        servers.append(hearthd.Hearthd("--device", "cpu", "--threads", "1", *arguments, **keywords))
        return servers[-1]
    yield begin
    for server in servers:
        server.kill()


def test_names_of_one_model_are_one_entry(start, look):
    page = look(start("--alias", "first", "--alias", "second", model=small_model.path()))
    expect(model_button(page)).to_have_text("Model: first")
    model_button(page).click()
    entries = page.get_by_role("list", name="Models").get_by_role("listitem")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("also named second")
    expect(entries).to_contain_text("tokens of context")


def test_names_of_one_of_several_models_are_one_entry(start, folder, look):
    server = start("--models-folder", str(folder), "--alias", "first", "--alias", "second",
                   model=folder / "one.gguf")
    page = look(server)
    expect(model_button(page)).to_have_text("Model: first")
    model_button(page).click()
    entries = page.get_by_role("list", name="Models").get_by_role("listitem")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text("also named second, one")
    expect(entries.last).to_contain_text("two")


def test_opening_the_page_does_not_load_an_idle_model(start, look):
    server = start("--idle-unload", "0.005", model=small_model.path())  # has no chat template
    hearthd.wait_until(lambda: server.health()[1]["status"] == "unloaded", "the model to be unloaded")
    page = look(server)
    expect(model_button(page)).to_contain_text("unloaded")
    assert server.health()[1]["status"] == "unloaded"
    settings(page, Max_tokens=2)
    say(page, "Hello")
    expect(ended(page)).to_contain_text("2 tokens")


def test_choosing_an_unloaded_model_loads_it(start, folder, look):
    server = start("--models-folder", str(folder), model=folder / "one.gguf")
    page = look(server)
    expect(model_button(page)).to_have_text("Model: one")
    model_button(page).click()
    models = page.get_by_role("list", name="Models")
    expect(models.get_by_role("button", name="one, loaded", exact=True)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(models.get_by_role("button", name="two, unloaded")).to_be_focused()
    page.keyboard.press("Enter")
    expect(model_button(page)).to_contain_text("Model: two")
    hearthd.wait_until(lambda: [row["status"]["value"] for row in httpx.get(
        server.url + "/v1/models", timeout=hearthd.PATIENCE).json()["data"]] == ["loaded", "loaded"],
        "the second model to be loaded")
    settings(page, Max_tokens=2)
    say(page, "Hello")
    expect(ended(page)).to_contain_text("2 tokens")
    expect(ended(page).locator(".who")).to_have_text("two")
    model_button(page).click()
    expect(models.get_by_role("button", name="two, loaded", exact=True)).to_be_visible()
    models.get_by_role("button", name="Unload one").click()
    expect(models.get_by_role("button", name="one, unloaded")).to_be_visible()


@pytest.mark.parametrize("noticed_by", ["live", "focus", "answer"])
def test_a_model_that_has_left_is_noticed(start, folder, look, noticed_by):
    server = start("--slots", "2", model=folder / "one.gguf")
    page = look(server, expected_errors="404")
    expect(model_button(page)).to_have_text("Model: one")
    open_tab(page, "Live")
    expect(page.locator("#live-state")).to_have_text("Connected")
    if noticed_by != "live":
        page.get_by_role("button", name="Close the panel").click()
    answer = httpx.post(server.url + "/admin/model", json={"model": str(folder / "two.gguf")},
                        timeout=hearthd.PATIENCE)
    assert answer.status_code == 202, answer.text
    hearthd.wait_until(lambda: server.health()[1].get("model") == "two", "the other model")
    if noticed_by == "focus":
        page.evaluate("dispatchEvent(new Event('focus'))")
    elif noticed_by == "answer":
        settings(page, Max_tokens=2)
        say(page, "Hello")
        expect(ended(page)).to_contain_text("2 tokens")
    expect(model_button(page)).to_have_text("Model: two")
