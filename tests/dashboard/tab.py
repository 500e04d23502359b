"""One tab for many tests: views are changed as its own links do it, so that nothing is loaded again."""

from playwright.sync_api import Browser, ConsoleMessage, Page, expect

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
PATIENCE = 15_000
NOWHERE = "/nowhere"
"""A path without a view: no stream is open, and nothing counts down."""
_GO = "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')) }"


class Tab:
    """A page with a server's dashboard, and the script errors and refusals of its content security policy."""

    def __init__(self, browser: Browser, url: str, *, bypass_csp: bool = False) -> None:
        self._url = url
        self.problems: list[str] = []
        context = browser.new_context(
            viewport=WIDE,  # type: ignore[arg-type]
            bypass_csp=bypass_csp,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(PATIENCE)
        self.page = context.new_page()
        watch(self.page, self.problems)
        self.page.goto(url + NOWHERE)

    def tidy(self) -> None:
        """Leave nothing of a test behind: no dialog, no view, no interception, no changed screen."""
        page = self.page
        self.problems.clear()
        page.unroute_all(behavior="ignoreErrors")
        page.context.set_offline(False)
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        page.emulate_media(color_scheme="light")
        if page.url.startswith(self._url) and not page.locator("dialog[open]").count():
            show(page, NOWHERE)
            page.evaluate("localStorage.clear()")
        else:
            page.goto(self._url + NOWHERE)


def watch(page: Page, problems: list[str]) -> None:
    """Collect script errors, and refusals by the content security policy."""

    def note(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            problems.append(message.text)

    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", note)


def show(page: Page, path: str) -> None:
    """Go to a path of the dashboard that the tab shows."""
    page.evaluate(_GO, path)


def settle(page: Page) -> None:
    """Wait until the view has what it shows."""
    expect(page.locator("[data-connection=live]")).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
