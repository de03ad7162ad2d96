"""The page /status in a headless browser. SCREENSHOT names a file for a picture of it."""

import json
import os
import shutil
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


def gpu(index, held):
    """A GPU as the report shows it, with what it holds."""
    readings = {"index": index, "capability": "9.0", "self_test": "passed", "temperature_c": 40}
    readings |= {"power_mw": None, "clock_mhz": None, "ecc_uncorrected": 0}
    readings |= {"arena_bytes": 8 << 30, "arena_free_bytes": 6 << 30}
    device = {"name": "NVIDIA H200", "kind": "cuda", "units": 132, "memory_bytes": 141 << 30}
    return {**device, "gpu": readings}, {"device": index, **held}


def add_gpus(report):
    """Adds three GPUs, of which one hangs and one is being restarted."""
    bases = {"id": "ab" * 32, "group": "g1", "points": 1 << 20, "bytes": 1 << 30, "tables": 11}
    bases |= {"label": "<b>srs</b>", "tenant": "provers", "pinned": True}
    total = {"bases": 2, "bytes": 3 << 29, "pinned_bases": 1, "pinned_bytes": 1 << 30}
    serves, serving = gpu(0, {"total": total, "bases": [bases]})
    hangs, hanging = gpu(1, {"total": None, "bases": []})
    nothing = {"bases": 0, "bytes": 0, "pinned_bases": 0, "pinned_bytes": 0}
    restarting = {"device": 2, "total": nothing, "bases": []}
    # Like the report, only administrators get names of bases.
    held = [serving, hanging, restarting]
    if "tenants" not in report:
        held = [{"device": it["device"], "total": it["total"]} for it in held]
    devices = [*report["devices"], serves, hangs]
    return {**report, "devices": devices, "devices_are_current": False, "residency": held}


@pytest.fixture(scope="module")
def page_with_gpus(served):
    """The address of the daemon's page, with GPUs in its report."""
    running, _ = served

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            url = f"http://{running.metrics_address}{self.path}"
            token = self.headers.get("authorization")
            headers = {} if token is None else {"authorization": token}
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                body, content = answer.read(), answer.headers["content-type"]
            if self.path == "/status.json":
                body = json.dumps(add_gpus(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("content-type", content)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/status"
    server.shutdown()


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


def test_the_page_shows_the_bases_that_gpus_hold(served, page_with_gpus, browser):
    _, token = served
    browser.set_window_size(1100, 1000)
    browser.get(page_with_gpus)
    cards = until(browser, lambda: texts(browser, "#devices .card"))
    held = "2 bases (1.5 GiB), 1 pinned (1.0 GiB)"
    for card, text in zip(cards[1:], (held, "does not answer", "does not serve"), strict=True):
        assert text in card
    assert "GPU 2" in cards[3]
    assert any("readings may be old" in text for text in texts(browser, "#devices .empty"))
    assert not browser.find_element(By.ID, "bases-section").is_displayed()
    log_in(browser, token)
    row = ["<b>srs</b>", "0", "provers", "1048576 in G1", "1.0 GiB", "11", "yes"]
    until(browser, lambda: texts(browser, "#bases td") == row)
    assert browser.find_element(By.CSS_SELECTOR, "#bases tr:last-child").get_attribute("title")
