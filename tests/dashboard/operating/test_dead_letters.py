"""The view of the dead letters: groups, letters, and settling one, some, a group, or all that match."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.conftest import Night
from tests.dashboard.hostile_text import SCRIPT
from tests.dashboard.incident_flows import CUSTOMERS, MAILS, count, spoil, status, tidy_up, until
from tests.dashboard.operating.dialogs import confirm, group
from tests.dashboard.tab import show

pytestmark = pytest.mark.promise("V1")


@pytest.fixture(autouse=True)
def dead(night: Night, page: Page) -> Iterator[None]:
    show(page, "/dead")
    yield
    tidy_up(night.client)


def state_of(night: Night, flow: str) -> tuple[str, str, str]:
    """The state of its dead letter, who settled it, and why."""
    letter = night.client.get(f"/v1/dead-letters/{flow}").json()
    return letter["state"], letter["by"] or "", letter["why"] or ""


def example_id(night: Night, **filters: str) -> str:
    found: str = night.client.get("/v1/dead-letters", params=filters).json()["dead_letters"][0]["flow_id"]
    return found


def open_group(page: Page, name: str) -> None:
    group(page, name).get_by_role("button", expanded=False).click()


def test_letters_are_grouped_by_error_and_step_with_counts_and_an_example(page: Page) -> None:
    expect(page.locator(".summary")).to_have_text(re.compile(r"\d+ letters in \d groups"))
    mails = group(page, "send_mail")
    expect(mails.locator(".group-count")).to_have_text(str(MAILS))
    expect(mails.locator(".group-name")).to_have_text(re.compile("Permanent in send_mail"))
    expect(mails).to_contain_text("550 5.1.1 no mailbox named")
    expect(mails).to_contain_text("retrying would not help")
    expect(mails.locator(".group-facts")).to_contain_text(re.compile(r"first \S+ ago.*last \S+ ago", re.DOTALL))
    customers = group(page, "look_up_customer")
    expect(customers.locator(".group-count")).to_have_text(str(CUSTOMERS))
    expect(customers).to_contain_text("its attempts are used up")
    customers.get_by_role("link", name="Explain an example").click()
    expect(page).to_have_url(re.compile("/flows/"))


def test_a_group_opens_and_the_url_says_so(page: Page) -> None:
    open_group(page, "look_up_customer")
    expect(page.locator(".letters tbody tr")).to_have_count(CUSTOMERS)
    expect(page.locator(".letters")).to_contain_text("crm.example.net did not answer")
    page.reload()
    expect(page.locator(".letters tbody tr")).to_have_count(CUSTOMERS)
    page.locator(".letters tbody a").first.click()
    expect(page).to_have_url(re.compile("/flows/"))


def test_filters_are_in_the_url_and_typing_survives_updates(night: Night, page: Page) -> None:
    expect(group(page, "send_mail")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Definition")).to_be_focused()
    page.get_by_label("Step").fill("look_up")
    spoil(night.client, "while somebody types")
    expect(group(page, "spoil")).to_be_visible()
    expect(page.get_by_label("Step")).to_have_value("look_up")
    page.get_by_label("Step").fill("look_up_customer")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"step=look_up_customer$"))
    expect(page.locator(".group")).to_have_count(1)
    page.get_by_label("Kind").select_option("poison")
    expect(page.locator("main")).to_contain_text("No dead letter matches")
    page.get_by_role("button", name="Clear filters").click()
    expect(group(page, "send_mail")).to_be_visible()


@pytest.mark.promise("V2")
def test_one_is_discarded_with_its_why(night: Night, page: Page) -> None:
    [flow] = spoil(night.client, "a.png: not an image")
    open_group(page, "spoil")
    page.get_by_role("button", name=f"Discard {flow}").click()
    expect(page.get_by_role("dialog")).to_contain_text("a.png: not an image")
    assert confirm(page, "Discard", "a test image") == "The flow was discarded."
    assert state_of(night, flow)[::2] == ("discarded", "a test image")
    assert "anna" in state_of(night, flow)[1]
    expect(group(page, "spoil")).to_have_count(0)
    page.get_by_label("State").select_option("discarded")
    expect(group(page, "spoil")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Redrive|Discard"))).to_have_count(0)
    if not page.locator(".letters").count():
        page.locator(".group-title").filter(has_text="spoil").click()
    expect(page.locator(".letters")).to_contain_text("a test image")


@pytest.mark.promise("V2")
def test_one_is_redriven_from_the_list(night: Night, page: Page) -> None:
    flow, other = spoil(night.client, "one", "other")
    open_group(page, "spoil")
    page.get_by_role("button", name=f"Redrive {flow}").click()
    assert confirm(page, "Redrive", "the printer has paper") == "The flow was redriven."
    until(lambda: "the printer has paper" in night.client.get(f"/v1/flows/{flow}/explain").text)
    assert "the printer has paper" not in night.client.get(f"/v1/flows/{other}/explain").text
    until(lambda: status(night.client, flow) == "failed")


@pytest.mark.promise("V2")
def test_the_dialog_needs_a_why_and_nothing_happens_without(night: Night, page: Page) -> None:
    flow = example_id(night, step="look_up_customer")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"A dry run finds {CUSTOMERS} dead letters.")
    dialog.get_by_label("Why").fill("   ")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Say why")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert state_of(night, flow)[0] == "dead"


@pytest.mark.promise("V2")
def test_chosen_ones_are_redriven_and_discarded(night: Night, page: Page) -> None:
    spoil(night.client, "a", "b", "c", "d")
    open_group(page, "spoil")
    letters = page.locator(".letters")
    boxes = letters.locator("tbody").get_by_role("checkbox")
    expect(boxes).to_have_count(4)
    flows = [(boxes.nth(place).get_attribute("aria-label") or "").removeprefix("Select ") for place in range(4)]
    boxes.nth(0).check()
    boxes.nth(1).check()
    letters.get_by_role("button", name="Redrive the 2 chosen").click()
    assert confirm(page, "Redrive 2", "the mail server is fixed") == "2 flows were redriven."
    # They fail again: nothing has changed.
    for flow in flows[:2]:
        until(lambda: status(night.client, flow) == "failed")  # noqa: B023 - called before the next turn
        explained = night.client.get(f"/v1/flows/{flow}/explain").text
        assert "the mail server is fixed" in explained
        assert "anna" in explained
    page.get_by_label(f"Select {flows[2]}").check()
    letters.get_by_role("button", name="Discard them").click()
    assert confirm(page, "Discard 1", "nobody misses it") == "1 flow was discarded."
    assert [state_of(night, flow)[0] for flow in flows[2:]] == ["discarded", "dead"]


@pytest.mark.promise("V2")
def test_a_group_is_redriven_and_only_that(night: Night, page: Page) -> None:
    other = example_id(night, step="send_mail")
    before = night.client.get(f"/v1/flows/{other}/events").text
    flow = example_id(night, step="look_up_customer")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(
        re.compile(f"Redrive {CUSTOMERS} dead letters with \\w+ in look_up_customer")
    )
    expect(dialog).to_contain_text(f"A dry run finds {CUSTOMERS} dead letters.")
    assert confirm(page, "Redrive", "the CRM is back") == f"{CUSTOMERS} flows were redriven."
    until(lambda: "the CRM is back" in night.client.get(f"/v1/flows/{flow}/explain").text)
    assert night.client.get(f"/v1/flows/{other}/events").text == before
    until(lambda: count(night.client, status="failed", definition="workflow:Onboarding") == CUSTOMERS)


@pytest.mark.promise("V3")
def test_a_letter_that_dies_appears_without_a_reload(night: Night, page: Page) -> None:
    expect(page.locator("[data-connection]")).to_have_text("Live")
    expect(group(page, "spoil")).to_have_count(0)
    spoil(night.client, "b.png")
    expect(group(page, "spoil").locator(".group-count")).to_have_text("1")


@pytest.mark.promise("V4")
def test_hostile_text_stays_text(page: Page) -> None:
    open_group(page, "send_mail")
    expect(page.locator(".letters tbody bdi").filter(has_text="onerror").first).to_contain_text(SCRIPT)
    expect(page.locator("main img, main script")).to_have_count(0)
    assert page.evaluate("window.hit") is None


@pytest.mark.promise("V2")
def test_all_that_match_are_redriven_or_discarded(night: Night, page: Page) -> None:
    flows = spoil(night.client, "x", "y", "z")
    show(page, "/dead?definition=spoil")
    page.get_by_role("button", name="Redrive what matches").click()
    expect(page.get_by_role("dialog")).to_contain_text("A dry run finds 3 dead letters.")
    assert confirm(page, "Redrive", "once more") == "3 flows were redriven."
    assert "once more" in night.client.get(f"/v1/flows/{flows[2]}/explain").text
    until(lambda: all(status(night.client, flow) == "failed" for flow in flows))
    page.get_by_role("button", name="Discard what matches").click()
    expect(page.get_by_role("dialog")).to_contain_text("A dry run finds 3 dead letters.")
    assert confirm(page, "Discard", "it never works") == "3 flows were discarded."
    expect(page.locator("main")).to_contain_text("No dead letter matches")
    show(page, "/dead")
    expect(group(page, "send_mail").locator(".group-count")).to_have_text(str(MAILS))
