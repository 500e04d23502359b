"""The dialog in front of every action: fill it in, and read its answer."""

from playwright.sync_api import Locator, Page, expect

PATIENCE = 15_000


def confirm(page: Page, verb: str, why: str, **fields: str) -> str:
    """Say why, and press the button; return what the dialog says when it is done."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Why").fill(why)
    dialog.get_by_label("Your name").fill("anna")
    for label, value in fields.items():
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name=verb).click()
    done = dialog.locator(".done")
    expect(done).to_be_visible(timeout=PATIENCE)
    said = done.inner_text()
    dialog.get_by_role("button", name="OK").click()
    expect(dialog).to_have_count(0)
    return said


def group(page: Page, text: str) -> Locator:
    """The group of dead letters with this text in its heading."""
    return page.locator(".group").filter(has=page.locator(".group-name", has_text=text))
