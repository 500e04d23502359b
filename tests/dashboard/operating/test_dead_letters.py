"""The view of the dead letters: groups, letters, and settling one, some, a group, or all that match."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.dashboard.incident_flows import count, start, until
from tests.dashboard.operating.conftest import CUSTOMERS, HOSTILE, MAILS, example_id
from tests.dashboard.operating.dialogs import confirm, group
from tests.dashboard.server_process import ServerProcess

pytestmark = [
    pytest.mark.parametrize("on_store", ["sqlite", "postgres"], indirect=True, scope="module"),
    pytest.mark.promise("V1"),
]


@pytest.fixture
def page(shop: ServerProcess, checked_tab: Page) -> Page:
    checked_tab.goto(f"{shop.url}/dead")
    return checked_tab


def state_of(shop: ServerProcess, flow: str) -> tuple[str, str, str]:
    """The state of its dead letter, who settled it, and why."""
    letter = shop.client.get(f"/v1/dead-letters/{flow}").json()
    return letter["state"], letter["by"] or "", letter["why"] or ""


def test_letters_are_grouped_by_error_and_step_with_counts_and_an_example(page: Page) -> None:
    expect(page.locator(".summary")).to_have_text(re.compile(rf"{MAILS + CUSTOMERS} letters in 2 groups"))
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
    group(page, "look_up_customer").get_by_role("button", expanded=False).click()
    expect(page.locator(".letters tbody tr")).to_have_count(CUSTOMERS)
    expect(page.locator(".letters")).to_contain_text("crm.example.net did not answer")
    page.reload()
    expect(page.locator(".letters tbody tr")).to_have_count(CUSTOMERS)
    page.locator(".letters tbody a").first.click()
    expect(page).to_have_url(re.compile("/flows/"))


def test_filters_are_in_the_url_and_typing_survives_updates(shop: ServerProcess, page: Page) -> None:
    expect(page.locator(".group")).to_have_count(2)
    page.keyboard.press("/")
    expect(page.get_by_label("Definition")).to_be_focused()
    page.get_by_label("Step").fill("look_up")
    start(shop.client, "action", "resize_image", {"name": "a.png"})
    until(lambda: count(shop.client, status="failed", definition="action:resize_image") == 1)
    expect(page.locator(".summary")).to_have_text(re.compile("in 3 groups"))
    expect(page.get_by_label("Step")).to_have_value("look_up")
    page.get_by_label("Step").fill("look_up_customer")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"step=look_up_customer$"))
    expect(page.locator(".group")).to_have_count(1)
    page.get_by_label("Kind").select_option("poison")
    expect(page.locator("main")).to_contain_text("No dead letter matches")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(".group")).to_have_count(3)
    page.keyboard.press("Escape")


@pytest.mark.promise("V2")
def test_one_is_discarded_with_its_why(shop: ServerProcess, page: Page) -> None:
    flow = example_id(shop, step="resize_image")
    group(page, "resize_image").get_by_role("button", expanded=False).click()
    page.get_by_role("button", name=f"Discard {flow}").click()
    expect(page.get_by_role("dialog")).to_contain_text("a.png: not an image")
    assert confirm(page, "Discard", "a test image") == "The flow was discarded."
    assert state_of(shop, flow)[::2] == ("discarded", "a test image")
    assert "anna" in state_of(shop, flow)[1]
    expect(page.locator(".group", has_text="resize_image")).to_have_count(0)
    page.get_by_label("State").select_option("discarded")
    expect(page.locator(".group-count")).to_have_text("1")
    expect(page.get_by_role("button", name=re.compile("Redrive|Discard"))).to_have_count(0)
    page.locator(".group-title").click()
    expect(page.locator(".letters")).to_contain_text("a test image")


@pytest.mark.promise("V2")
def test_the_dialog_needs_a_why_and_nothing_happens_without(shop: ServerProcess, page: Page) -> None:
    flow = example_id(shop, step="look_up_customer")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"A dry run finds {CUSTOMERS} dead letters.")
    dialog.get_by_label("Why").fill("   ")
    dialog.get_by_role("button", name="Redrive").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Say why")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert state_of(shop, flow)[0] == "dead"


@pytest.mark.promise("V2")
def test_chosen_ones_are_redriven(shop: ServerProcess, page: Page) -> None:
    group(page, "send_mail").get_by_role("button", expanded=False).click()
    letters = page.locator(".letters")
    boxes = letters.locator("tbody").get_by_role("checkbox")
    expect(boxes).to_have_count(MAILS)
    flows = [boxes.nth(place).get_attribute("aria-label") or "" for place in (0, 1)]
    boxes.nth(0).check()
    boxes.nth(1).check()
    letters.get_by_role("button", name="Redrive the 2 chosen").click()
    assert confirm(page, "Redrive 2", "the mail server is fixed") == "2 flows were redriven."
    # They fail again: the mailbox is still missing.
    for flow in flows:
        explained = shop.client.get(f"/v1/flows/{flow.removeprefix('Select ')}/explain").text
        assert "the mail server is fixed" in explained
        assert "anna" in explained
    until(lambda: count(shop.client, status="failed", definition="action:send_mail") == MAILS)


@pytest.mark.promise("V2")
def test_a_group_is_redriven_and_only_that(shop: ServerProcess, page: Page) -> None:
    other = example_id(shop, step="send_mail")
    before = shop.client.get(f"/v1/flows/{other}/events").text
    flow = example_id(shop, step="look_up_customer")
    group(page, "look_up_customer").get_by_role("button", name=re.compile("Redrive")).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"A dry run finds {CUSTOMERS} dead letters.")
    assert confirm(page, "Redrive", "the CRM is back") == f"{CUSTOMERS} flows were redriven."
    assert "the CRM is back" in shop.client.get(f"/v1/flows/{flow}/explain").text
    assert shop.client.get(f"/v1/flows/{other}/events").text == before
    until(lambda: count(shop.client, status="failed", definition="workflow:Onboarding") == CUSTOMERS)


@pytest.mark.promise("V3")
def test_a_letter_that_dies_appears_without_a_reload(shop: ServerProcess, page: Page) -> None:
    expect(page.locator("[data-connection]")).to_have_text("Live")
    expect(page.locator(".group", has_text="resize_image")).to_have_count(0)
    start(shop.client, "action", "resize_image", {"name": "b.png"})
    expect(group(page, "resize_image").locator(".group-count")).to_have_text("1")


@pytest.mark.promise("V4")
def test_hostile_text_stays_text(shop: ServerProcess, page: Page) -> None:
    group(page, "send_mail").get_by_role("button", expanded=False).click()
    shown = page.locator(".letters tbody bdi").filter(has_text="onerror").first
    expect(shown).to_contain_text(HOSTILE[:60])
    expect(page.locator("main img, main script")).to_have_count(0)
    assert page.title() == "Dead letters · redrive"


@pytest.mark.promise("V2")
def test_all_that_match_are_discarded(shop: ServerProcess, page: Page) -> None:
    page.goto(f"{shop.url}/dead?definition=Onboarding")
    page.get_by_role("button", name="Discard what matches").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"A dry run finds {CUSTOMERS} dead letters.")
    assert confirm(page, "Discard", "these customers are gone") == f"{CUSTOMERS} flows were discarded."
    expect(page.locator("main")).to_contain_text("No dead letter matches")
    page.goto(f"{shop.url}/dead")
    expect(group(page, "send_mail").locator(".group-count")).to_have_text(str(MAILS))
    page.get_by_role("button", name="Discard all").click()
    confirm(page, "Discard", "a night of tests")
    expect(page.locator("main")).to_contain_text("Nothing has failed for good")
