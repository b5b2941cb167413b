"""A headless Chromium for the tests of pages, kept away from the network as far as it lets itself."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

_ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1400,1000",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[WebDriver]:
    """Skips the test where there is no Chromium with its driver."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = browser
    for argument in _ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    page = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield page
    finally:
        page.quit()


def open_page(
    page: WebDriver, path: Path, *, width: int = 1400, dark: bool = False, scripts: bool = True, media: str = ""
) -> None:
    """Open a file from disk in a window of a size and with a reader's settings."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    page.get_log("browser")  # what an earlier page said
    page.get(path.resolve().as_uri())


def complaints(page: WebDriver) -> list[str]:
    """Return what the page wrote on the console."""
    return [entry["message"] for entry in page.get_log("browser")]
