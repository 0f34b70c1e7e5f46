"""Conversations in the page at /: they are kept, found, moved, branched and continued, and nothing that was
written or answered is lost.
"""
import json
import re
import subprocess

import httpx
import pytest
from playwright.sync_api import expect

import hearthd
from browser_page import (act, answering, body_of, chunk, ended, endless, needs_chromium, open_tab, say,
                          settings)
from browser_page import browser, look, slowly, small  # noqa: F401 (fixtures)

pytestmark = needs_chromium


def asked_of(page):
    """A list that grows by the body of each chat that the page sends."""
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json)
                                       if request.url.endswith("/chat/completions") else None)
    return asked


def test_edit_and_retry_make_branches(small, look):
    asked = []
    page = look(small)
    page.on("request", lambda request: asked.append(request.post_data_json)
                                       if request.url.endswith("/chat/completions") else None)
    settings(page, Max_tokens=3)
    say(page, "First words")
    ended(page)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edit the message").fill("Other words")
    page.get_by_role("button", name="Save and send").click()
    you = page.get_by_role("article", name="You")
    expect(you).to_contain_text("Other words")
    ended(page)
    page.get_by_role("button", name="Retry").click()
    hearthd.wait_until(lambda: len(asked) == 3, "the third request")
    answer = ended(page)
    # Both answers, and both questions, are still there.
    expect(answer.get_by_role("img", name="Version 2 of 2")).to_be_visible()
    you.get_by_role("button", name="Earlier version").click()
    expect(you).to_contain_text("First words")
    expect(page.get_by_role("article", name="Answer").get_by_label("Earlier version")).to_have_count(0)
    page.reload()
    expect(you).to_contain_text("First words")
    you.get_by_role("button", name="Later version").click()
    expect(you).to_contain_text("Other words")
    expect(answer.get_by_role("img", name="Version 2 of 2")).to_be_visible()
    assert [body["messages"][-1]["content"] for body in asked] == [
        "First words", "Other words", "Other words"]
    assert all(len(body["messages"]) == 1 and body["max_tokens"] == 3 for body in asked)


def test_thinking_is_folded_and_calls_have_name_and_arguments(small, look):
    page = look(small, before=answering(
        {"reasoning_content": "Let me "}, {"reasoning_content": "think."}, {"content": "I ask."},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                         "function": {"name": "weather", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]}))
    say(page, "Weather?")
    answer = ended(page)
    expect(answer.get_by_text("Let me think.")).to_be_hidden()
    answer.get_by_text("Thinking").click()
    expect(answer.get_by_text("Let me think.")).to_be_visible()
    call = answer.get_by_role("group", name="Tool call: weather")
    expect(call.locator("pre")).to_have_text(re.compile(r'"city": "Rome"'))


def test_the_user_gives_a_tool_call_its_result(small, look):
    asked = []
    call = {"tool_calls": [{"index": 0, "id": "c1", "type": "function",
                            "function": {"name": "weather", "arguments": "{}"}}]}

    def answer_in_turn(route):
        asked.append(route.request.post_data_json)
        delta = call if len(asked) == 1 else {"content": "It rains."}
        route.fulfill(status=200, content_type="text/event-stream",
                      body=chunk(delta) + chunk({}, finish_reason="stop") + "data: [DONE]\n\n")

    page = look(small, before=lambda context: context.route("**/v1/chat/completions", answer_in_turn))
    say(page, "Weather?")
    form = ended(page).get_by_role("form", name="Results of the tools")
    form.get_by_label("Result of weather").fill('{"rain": true}')
    form.get_by_role("button", name="Send result").click()
    expect(ended(page, 2)).to_contain_text("It rains.")
    expect(form).to_have_count(0)
    assert asked[1]["messages"][1:] == [
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"rain": true}'}]


def test_conversations_are_kept_renamed_exported_imported_and_deleted(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    say(page, "The first one")
    ended(page)
    page.get_by_role("button", name="New chat").click()
    say(page, "The second one")
    ended(page)
    page.reload()
    chats = page.get_by_role("navigation", name="Conversations")
    expect(chats.get_by_role("listitem")).to_have_count(2)
    chats.get_by_role("button", name="The first one", exact=True).click()
    expect(page.get_by_role("article", name="You")).to_contain_text("The first one")
    act(page, "The first one", "Rename")
    page.get_by_role("dialog").get_by_label("Name").fill("Renamed")
    page.keyboard.press("Enter")
    expect(chats.get_by_role("button", name="Renamed", exact=True)).to_be_visible()
    with page.expect_download() as download:
        act(page, "Renamed", "Export")
    exported = json.loads(open(download.value.path(), encoding="utf-8").read())
    assert [m["content"] for m in exported["conversations"][0]["messages"]] == ["The first one", "Yes."]
    # The file comes back as one more conversation.
    page.get_by_label("File with conversations").set_input_files(download.value.path())
    expect(chats.get_by_role("button", name="Renamed", exact=True)).to_have_count(2)
    act(page, "Renamed", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(chats.get_by_role("listitem")).to_have_count(2)
    act(page, "Renamed", "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(chats.get_by_role("listitem")).to_have_count(1)


def test_an_answer_survives_a_reload_and_goes_on(small, look, slowly):
    page = look(small, before=slowly(endless))
    say(page, "Tell me everything")
    expect(page.get_by_role("article", name="Answer")).to_contain_text("on and " * 80)
    page.reload()
    answer = ended(page)
    expect(answer).to_contain_text("interrupted")
    expect(body_of(answer)).to_contain_text("on and on and")
    before = body_of(answer).inner_text().strip()
    slowly.server.parts = lambda: [chunk({"content": "so forth."}), chunk({}, finish_reason="stop"),
                                   "data: [DONE]\n\n"]
    asked = asked_of(page)
    answer.get_by_role("button", name="Continue").click()
    expect(body_of(answer)).to_contain_text("so forth.")
    ended(page)
    expect(body_of(answer)).to_have_text(re.compile(re.escape(before) + r"\s*so forth\."))
    assert asked[0]["continue_final_message"] is True
    assert [message["role"] for message in asked[0]["messages"]] == ["user", "assistant"]
    expect(answer.get_by_role("button", name="Continue")).to_have_count(0)


def test_an_answer_goes_on_after_the_length_limit(small, look):
    """The real server continues the text, as one answer of both lengths would be."""
    page = look(small)
    settings(page, Max_tokens=6, Temperature=0)
    say(page, "Hello there")
    answer = ended(page)
    expect(answer).to_contain_text("cut at the length limit")
    first = body_of(answer).inner_text()
    answer.get_by_role("button", name="Continue").click()
    expect(answer).to_contain_text("12 tokens")
    assert body_of(answer).inner_text().startswith(first.strip()[:5])
    assert len(body_of(answer).inner_text()) > len(first)


def test_other_tabs_follow_an_answer(small, look, slowly):
    page = look(small, before=slowly(endless))
    say(page, "Tell me everything")
    expect(page.get_by_role("article", name="Answer")).to_contain_text("on and")
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_role("button", name="Tell me everything, answering")).to_be_visible()
    expect(other.get_by_role("article", name="Answer")).to_contain_text("on and on and")
    expect(other.get_by_role("button", name="Retry")).to_have_count(0)
    page.keyboard.press("Escape")
    ended(page)
    expect(ended(other)).to_contain_text("stopped")
    expect(body_of(other.get_by_role("article", name="Answer"))).to_have_text(
        body_of(page.get_by_role("article", name="Answer")).inner_text())


def test_addresses_name_conversations(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    say(page, "The first one")
    ended(page)
    first = page.url
    assert re.search(r"/#/chat/[0-9a-f]{24}$", first)
    page.get_by_role("button", name="New chat").click()
    assert page.url.endswith("/#/")
    say(page, "The second one")
    ended(page)
    page.go_back()
    page.go_back()
    expect(page.get_by_role("article", name="You")).to_contain_text("The first one")
    assert page.title() == "The first one - Hearth"
    page.goto(first)
    page.reload()
    expect(page.get_by_role("article", name="You")).to_contain_text("The first one")


def test_conversations_are_found_by_their_words_and_listed_by_date(small, look):
    page = look(small, before=answering({"content": "It is a **hedgehog**."}))
    say(page, "What is in the garden?")
    ended(page)
    page.get_by_role("button", name="New chat").click()
    say(page, "Another question")
    ended(page)
    chats = page.get_by_role("navigation", name="Conversations")
    page.get_by_label("File with conversations").set_input_files({
        "name": "old.json", "mimeType": "application/json", "buffer": json.dumps({
            "format": "hearth-conversations", "version": 1, "conversations": [
                {"id": "a", "title": "From long ago", "created": 0, "updated": 86400000 * 500,
                 "messages": [{"role": "user", "content": "Old words"}]}]}).encode()})
    expect(chats.get_by_role("region", name="Today").get_by_role("listitem")).to_have_count(2)
    expect(chats.get_by_role("region", name="May 1971").get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("Control+k")
    expect(chats.get_by_label("Search")).to_be_focused()
    page.keyboard.type("HEDGEHOG garden")
    expect(chats.get_by_role("listitem")).to_have_count(1)
    expect(chats.get_by_role("button", name="What is in the garden?", exact=True)).to_be_visible()
    chats.get_by_label("Search").fill("nobody said this")
    expect(chats.get_by_text("No conversation has all of these words.")).to_be_visible()


def test_pinned_conversations_come_first_and_stay_there(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    chats = page.get_by_role("navigation", name="Conversations")
    for text in ("The first one", "The second one"):
        page.get_by_role("button", name="New chat").click()
        say(page, text)
        ended(page)
    act(page, "The first one", "Pin")
    expect(chats.get_by_role("button", name="Actions for The first one")).to_be_focused()
    page.reload()
    expect(chats.get_by_role("region").first).to_have_accessible_name("Pinned")
    expect(chats.get_by_role("region", name="Pinned").get_by_role("listitem")).to_have_text("The first one")
    expect(chats.get_by_role("region", name="Today").get_by_role("listitem")).to_have_text("The second one")
    # The keys move in the menu and close it.
    page.keyboard.press("Tab")
    chats.get_by_role("button", name="Actions for The first one").press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="Rename", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Rename", exact=True)).to_be_hidden()
    act(page, "The first one", "Unpin")
    expect(chats.get_by_role("region", name="Pinned")).to_have_count(0)
    assert chats.get_by_role("listitem").all_inner_texts() == ["The second one", "The first one"]


@pytest.mark.parametrize("text, sentence", [
    ("{", "old.json is not JSON"), ("[]", 'its "format" is not "hearth-conversations"'),
    ('{"format": "hearth-conversations", "conversations": [{"title": "a", "messages": [{"role": "boss"}]}]}',
     "Conversation 1 of old.json is damaged; nothing was imported."),
    ('{"format": "hearth-conversations", "conversations": [{"title": "a", "leaf": "b", "messages": '
     '[{"role": "user", "content": "", "id": "b", "parent": "b"}]}]}',
     "Conversation 1 of old.json is damaged; nothing was imported."),
])
def test_a_damaged_file_is_refused_by_a_sentence(small, look, text, sentence):
    page = look(small)
    page.get_by_label("File with conversations").set_input_files(
        {"name": "old.json", "mimeType": "application/json", "buffer": text.encode()})
    expect(page.get_by_role("navigation").get_by_role("alert")).to_contain_text(sentence)
    expect(page.get_by_role("navigation").get_by_role("listitem")).to_have_count(0)


def test_a_browser_that_keeps_nothing_says_so(small, look):
    def without_room(context):
        answering({"content": "Yes."})(context)
        context.add_init_script(
            "IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); }")

    page = look(small, before=without_room)
    expect(page.get_by_text("Conversations are kept in this browser only.")).to_be_visible()
    say(page, "Hello")
    expect(ended(page)).to_contain_text("Yes.")
    expect(page.get_by_text("This browser does not keep conversations")).to_be_visible()


def test_settings_belong_to_a_conversation(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    asked = asked_of(page)
    settings(page, System_prompt="Be a pirate.", Top_k=40, Min_p=0.05, Repeat_penalty=1.1,
             **{"Stop_strings": "END\nFIN"})
    open_tab(page, "Settings")
    page.get_by_label("Thinking").select_option("off")
    page.get_by_label("Answer format").select_option("json")
    say(page, "One")
    ended(page)
    page.get_by_role("button", name="New chat", exact=True).click()
    expect(page.get_by_label("System prompt")).to_have_value("")
    page.get_by_label("Thinking").select_option("high")
    say(page, "Two")
    ended(page)
    page.reload()
    page.get_by_role("navigation").get_by_role("button", name="One", exact=True).click()
    expect(page.get_by_label("System prompt")).to_have_value("Be a pirate.")
    page.get_by_role("button", name="Use for new chats").click()
    page.get_by_role("button", name="New chat", exact=True).click()
    expect(page.get_by_label("System prompt")).to_have_value("Be a pirate.")
    first, second = asked
    assert first["messages"][0] == {"role": "system", "content": "Be a pirate."}
    assert (first["top_k"], first["min_p"], first["repeat_penalty"]) == (40, 0.05, 1.1)
    assert first["stop"] == ["END", "FIN"] and first["enable_thinking"] is False
    assert first["response_format"] == {"type": "json_object"}
    assert second["reasoning_effort"] == "high" and len(second["messages"]) == 1 and "top_k" not in second


def test_a_page_of_medium_width_shows_the_conversations_or_the_panel(small, look):
    page = look(small, viewport={"width": 900, "height": 900})
    chats = page.get_by_role("navigation", name="Conversations")
    expect(chats).to_be_visible()
    open_tab(page, "Settings")
    expect(chats).to_be_hidden()
    page.reload()
    expect(page.get_by_label("System prompt")).to_be_visible()
    expect(chats).to_be_hidden()
    page.get_by_role("button", name="Chats", exact=True).click()
    expect(page.get_by_label("System prompt")).to_be_hidden()
    open_tab(page, "Settings")
    page.get_by_role("button", name="Close the panel").click()
    expect(chats).to_be_visible()


def test_a_wrong_number_is_refused_before_it_is_sent(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    asked = asked_of(page)
    settings(page, Temperature=9)
    say(page, "Hello")
    expect(page.get_by_role("alert").filter(has_text="Temperature")).to_have_text(
        "Temperature must be a number from 0 to 2, not 9.")
    assert asked == []
    expect(page.get_by_label("Message", exact=True)).to_have_value("Hello")
    settings(page, Temperature=1)
    say(page, "Hello")
    ended(page)


def test_text_files_are_attached_and_others_refused(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    asked = asked_of(page)
    code = "print('```')\n"
    page.get_by_label("Files to attach").set_input_files([
        {"name": "a.py", "mimeType": "text/x-python", "buffer": code.encode()},
        {"name": "b.png", "mimeType": "image/png", "buffer": b"\x89PNG\x00\xff"}])
    files = page.get_by_role("list", name="Attached files")
    expect(files.get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_text("b.png is not a text file. Only text and code can be attached.")).to_be_visible()
    # Dropped and pasted files are attached too.
    for event, target in (("drop", "#main"), ("paste", "#prompt")):
        page.evaluate("""([event, target]) => {
            const data = new DataTransfer();
            data.items.add(new File([event], event + '.txt', {type: 'text/plain'}));
            const flags = {bubbles: true, cancelable: true};
            const made = event === 'paste' ? new ClipboardEvent('paste', {clipboardData: data, ...flags})
                : new DragEvent('drop', {dataTransfer: data, ...flags});
            document.querySelector(target).dispatchEvent(made); }""", [event, target])
    expect(files.get_by_role("listitem")).to_have_count(3)
    files.get_by_role("button", name="Remove drop.txt").click()
    say(page, "What is this?")
    ended(page)
    assert asked[0]["messages"] == [{"role": "user", "content":
        "File a.py:\n````py\nprint('```')\n````\n\nFile paste.txt:\n```txt\npaste\n```\n\nWhat is this?"}]
    expect(files).to_be_hidden()
    you = page.get_by_role("article", name="You")
    you.get_by_text("a.py").click()
    expect(you.get_by_role("group", name="a.py")).to_have_text(code)


def test_keys_do_what_the_list_of_shortcuts_says(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    say(page, "First words")
    ended(page)
    page.keyboard.press("ArrowUp")
    expect(page.get_by_label("Edit the message")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+O")
    expect(page.get_by_role("article")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.press("Control+,")
    expect(page.get_by_label("System prompt")).to_be_visible()
    page.keyboard.press("Control+/")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Search the conversations")


def test_the_link_to_the_message_field_leaves_the_conversation_open(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    say(page, "First words")
    ended(page)
    page.get_by_role("link", name="Skip to the message field").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_role("article", name="You")).to_contain_text("First words")


def test_an_empty_chat_names_the_model_and_offers_examples(small, look):
    page = look(small, before=answering({"content": "Yes."}))
    expect(page.get_by_role("log").get_by_role("heading", name="small")).to_be_visible()
    page.get_by_role("button", name="Write a haiku about a fireplace").click()
    expect(page.get_by_label("Message", exact=True)).to_have_value("Write a haiku about a fireplace")
    page.keyboard.press("Enter")
    expect(ended(page)).to_contain_text("Yes.")


def test_an_empty_chat_of_a_small_model_proposes_one_that_fits(small, look):
    name = httpx.get(small.url + "/props", timeout=hearthd.PATIENCE).json()["suggested_model"]
    assert name in subprocess.run([hearthd.BINARY, "list", "--known"], capture_output=True, text=True,
                                  check=True).stdout.splitlines()[-1]
    page = look(small, before=answering({"content": "Yes."}))
    expect(page.get_by_text(f"hearthd {name}")).to_be_visible()
    page.get_by_role("button", name="Copy the command").click()
    expect(page.locator(".suggestion .copied")).to_have_count(1)
    say(page, "Hello")
    ended(page)
    expect(page.get_by_text(f"hearthd {name}")).to_have_count(0)


def test_the_view_stays_at_the_end_unless_the_user_scrolls_up(small, look, slowly):
    page = look(small, before=slowly(lambda: (chunk({"content": f"line {i}\n\n"}) for i in range(10**6))))
    say(page, "Count")
    log = page.locator("#transcript")
    at_end = "(e) => e.scrollHeight - e.scrollTop - e.clientHeight < 90"
    expect(log.get_by_text("line 40", exact=True)).to_be_attached()
    assert log.evaluate(at_end)
    log.evaluate("(e) => { e.scrollTop = 0; }")
    jump = page.get_by_role("button", name="Jump to the end")
    expect(jump).to_be_visible()
    expect(log.get_by_text("line 80", exact=True)).to_be_attached()
    assert log.evaluate("(e) => e.scrollTop") == 0
    jump.click()
    hearthd.wait_until(lambda: log.evaluate(at_end), "the end")
    page.keyboard.press("Escape")
    ended(page)
