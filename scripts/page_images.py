#!/usr/bin/env python3
"""Takes the pictures of the page that the manual shows: page_images.py PATH_TO_BINARY. Look at them before they are kept."""
import pathlib
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests" / "report"))
sys.dont_write_bytecode = True
from browser import Browser  # noqa: E402

images = root / "docs" / "images"
binary = sys.argv[1]
with tempfile.TemporaryDirectory() as folder, Browser(1280, 850) as browser:
    failed, planned = f"{folder}/failed.html", f"{folder}/planned.html"
    snapshot = root / "tests" / "data" / "oom" / "oom_gpt2.pickle.gz"
    subprocess.run([binary, "explain", str(snapshot), "--html", failed], stdout=subprocess.DEVNULL)
    subprocess.run([binary, "plan", "gpt2", "--batch", "4", "--budget", "3GiB", "--html", planned], check=True,
                   stdout=subprocess.DEVNULL)
    browser.open(failed)
    browser.screenshot(images / "page-light.png")
    browser.theme(True)
    browser.click("#switch-checkpointing")
    browser.mouse("mouseMoved", 5, 5)
    browser.screenshot(images / "page-dark.png")
    browser.theme(False)
    browser.open(failed)
    browser.resize(1280, 1120)
    browser.run('document.querySelector("#remedies").scrollIntoView()')
    browser.wait('document.querySelectorAll(".box").length > 5 && document.querySelector("#segments .said").textContent')
    browser.screenshot(images / "page-parts.png")
    browser.resize(1280, 850)
    browser.open(planned)
    browser.click("#switch-no_plan")
    browser.mouse("mouseMoved", 5, 5)
    browser.screenshot(images / "page-plan.png")
    assert not browser.errors, browser.errors
