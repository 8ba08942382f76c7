"""What a user of pgAdmin sees: python pgadmin_seen.py ADDRESS BROWSER FOLDER. Its last line is a JSON object.

It runs in an environment with pgadmin4 and playwright, without mere. FOLDER gets a picture of how it ended.
"""

# mypy: ignore-errors
# The packages are not of this environment.

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Locator, Page, sync_playwright

QUERY = "SELECT id, line, customer FROM gold.orders ORDER BY 1, 2"
SERVER = "mere"
TABS = ("Properties", "SQL", "Statistics", "Dependencies", "Dependents")
_SECONDS = 60_000


class Browser:
    def __init__(self, page: Page) -> None:
        self.page = page

    def node(self, text: str, depth: int) -> Locator:
        """One of the tree: groups show how many there are below them."""
        label = self.page.locator(f".file-entry.depth-{depth} .file-name")
        return label.filter(has_text=re.compile(rf"^{re.escape(text)}$")).first

    def open(self, *path: str, depth: int = 1) -> None:
        for text in path:
            found = self.node(text, depth)
            found.wait_for(timeout=_SECONDS)
            toggle = found.locator("xpath=../..").locator(".directory-toggle")
            below = self.page.locator(f".file-entry.depth-{depth + 1}")
            for _ in range(60):
                self.page.wait_for_timeout(1000)
                # pgAdmin asks for a password where none is needed, as soon as a server is opened.
                asked = self.page.locator("button").filter(has_text="OK")
                with suppress(Error):
                    if asked.is_visible():
                        asked.click(timeout=2000)
                    elif "open" not in (toggle.get_attribute("class") or ""):
                        toggle.click(timeout=2000)
                    elif below.count():
                        break
            depth += 1

    def select(self, text: str, depth: int) -> None:
        self.node(text, depth).click()

    def tab(self, name: str) -> str:
        """What a panel tells of what is selected in the tree."""
        self.page.locator(".dock-tab").filter(has_text=re.compile(f"^{name}$")).first.click()
        pane = self.page.locator(".dock-tabpane-active:visible").last
        for _ in range(60):
            self.page.wait_for_timeout(1500)
            if "Loading..." not in (told := str(pane.inner_text())):
                return told
        return ""


def main(address: str, browser: str, folder: Path) -> dict[str, Any]:
    failed: list[str] = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1600, "height": 1800})
        # 428: it asks for a password
        page.on("response", lambda each: failed.append(each.url) if each.status >= 400 and each.status != 428 else None)
        try:
            found = _looked(page, address)
        finally:
            page.screenshot(path=str(folder / "pgadmin.png"))
            chromium.close()
    return {**found, "failed": failed}


def _looked(page: Page, address: str) -> dict[str, Any]:
    page.goto(address)
    browser, seen = Browser(page), {}
    browser.open("Servers", SERVER, "Databases", "shop", "Schemas", "gold", "Tables", "orders", "Columns")
    for name, depth in (("orders", 8), ("amount", 10)):
        browser.select(name, depth)
        seen |= {f"{name} {tab}": browser.tab(tab) for tab in TABS}
    browser.open("Triggers", depth=9)
    browser.open("Views", "totals", depth=7)
    browser.select("totals", 8)
    seen |= {f"totals {tab}": browser.tab(tab) for tab in TABS}
    browser.select("shop", 4)
    return seen | {"rows": _asked(page)}


def _asked(page: Page) -> list[str]:
    """The cells of what the query tool shows."""
    page.keyboard.press("Alt+Shift+KeyQ")
    for _ in range(60):
        page.wait_for_timeout(1000)
        for frame in page.frames:
            if frame.parent_frame is None or not frame.frame_element().is_visible():
                continue
            editor = frame.locator(".cm-content:visible").last
            if frame.locator("[data-label='Execute script'], [aria-label='Execute script']").count() and editor.count():
                editor.click()
                frame.page.keyboard.type(QUERY)
                frame.page.keyboard.press("F5")
                frame.locator(".rdg-row").first.wait_for(timeout=_SECONDS)
                return [str(each) for each in frame.locator(".rdg-row .rdg-cell").all_inner_texts()]
    return []


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
