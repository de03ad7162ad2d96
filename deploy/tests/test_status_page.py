"""The page /status in a headless browser. SCREENSHOT names a file for a picture of it."""

import os
import shutil
from pathlib import Path

import pytest
from daemon import Daemon, run
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

# Only a hang reaches it.
_HANGING_S = 60
# As wide as a phone.
_NARROW = 390


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A daemon with an administrator, that has done some jobs."""
    folder = tmp_path_factory.mktemp("status")
    tokens, token = folder / "tokens.toml", {}
    for name, tenant in (("ops", "default"), ("ada", "provers")):
        made = run("capstan", "token", "new", "--name", name, "--tenant", tenant, "--file", tokens)
        token[name] = made.stdout.strip()
    running = Daemon(folder / "daemon", "--auth-tokens", tokens, "--status-admins", "token:ops")
    env = {"CAPSTAN_TOKEN": token["ada"]}
    target = f"http://{running.address}"
    done = run("capstan", "--server", target, "bench", "--op", "ntt", "--sizes", "8,12", env=env)
    assert done.returncode == 0, done.stderr
    yield running, token["ops"]
    running.kill()


@pytest.fixture(scope="module")
def browser():
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found) and "CI" not in os.environ:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(found[1]))
    yield driver
    driver.quit()


def until(browser, condition):
    return WebDriverWait(browser, _HANGING_S, 0.1).until(lambda _: condition())


def texts(browser, selector):
    """The texts of elements, in one step, since the page replaces elements."""
    script = "return [...document.querySelectorAll(arguments[0])].map((it) => it.innerText)"
    return browser.execute_script(script, selector)


def log_in(browser, token):
    browser.find_element(By.ID, "token").send_keys(token)
    browser.find_element(By.CSS_SELECTOR, "#login button").click()


def test_the_page_shows_the_server_and_to_administrators_its_tenants(served, browser):
    running, token = served
    browser.set_window_size(1100, 1000)
    browser.get(f"http://{running.metrics_address}/status")
    until(browser, lambda: any("ready, up" in text for text in texts(browser, "#state")))
    assert len(texts(browser, "#devices .card")) == 1
    names = until(browser, lambda: texts(browser, "#jobs .name"))
    assert any(name.startswith("ntt_stream 2^") or name.startswith("ntt 2^") for name in names)
    assert texts(browser, "#slow details")
    assert not browser.find_element(By.ID, "tenants").is_displayed()
    assert "token:ada" not in browser.page_source

    log_in(browser, "wrong")
    until(browser, lambda: "status_admins" in texts(browser, "#state")[0])
    log_in(browser, token)
    until(browser, lambda: any("default" in text for text in texts(browser, "#tenants td")))
    assert any("token:ada" in text for text in texts(browser, "#jobs .owner"))
    browser.execute_script("document.querySelector('#slow summary').click()")
    until(browser, lambda: any("ntt" in text for text in texts(browser, "#slow td")))
    if "SCREENSHOT" in os.environ:
        Path(os.environ["SCREENSHOT"]).write_bytes(browser.get_screenshot_as_png())
    # The script and style are allowed by the page's policy, and nothing else is loaded. A refused
    # token is logged by the browser.
    logged = [entry["message"] for entry in browser.get_log("browser")]
    assert all("401" in message or "favicon" in message for message in logged), logged


def test_the_page_fits_a_phone(served, browser):
    running, _ = served
    browser.set_window_size(_NARROW, 844)
    browser.get(f"http://{running.metrics_address}/status")
    until(browser, lambda: texts(browser, "#jobs .name"))
    widths = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    content, window = browser.execute_script(widths)
    assert content <= window
