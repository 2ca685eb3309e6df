"""One tab of Chromium, and what its logs say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

HEIGHT = 900


@dataclass(frozen=True)
class Tab:
    driver: Any  # selenium.webdriver.Chrome; selenium may be missing
    server: str

    def open(
        self, page: str, width: int = 1280, scheme: Literal["light", "dark"] = "light"
    ) -> None:
        """Open a page with empty logs."""
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get("about:blank")
        self.requests()
        self.errors()
        self.driver.get(self.server + page)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.driver.execute_script(f"return {script}")

    def wait_for(self, script: str) -> Any:
        """Return the value of a JavaScript expression as soon as it is not empty."""
        from selenium.webdriver.support.ui import WebDriverWait

        found = f"((value) => value?.length ? value : null)({script})"
        return WebDriverWait(self.driver, 20).until(lambda _: self.run(found))

    def requests(self) -> list[str]:
        """Return the addresses that the page requested since the last call."""
        found = []
        for line in self.driver.get_log("performance"):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
            elif message["method"] == "Network.webSocketCreated":
                found.append(message["params"]["url"])
        return found

    def errors(self) -> list[str]:
        """Return the warnings and errors of the console since the last call."""
        log = self.driver.get_log("browser")
        return [line["message"] for line in log if line["level"] in ("WARNING", "SEVERE")]
