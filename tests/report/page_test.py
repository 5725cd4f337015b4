#!/usr/bin/env python3
"""Opens the pages that the binary writes in headless Chromium and clicks through them: page_test.py PATH_TO_BINARY.

Exits 77, which CTest counts as skipped, where there is no Chromium or the build has no page."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from browser import Browser

BINARY = os.path.abspath(sys.argv.pop(1))
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
FOLDER = tempfile.mkdtemp(prefix="plimsoll-page-")


def plimsoll(*arguments, status=0):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def path(name):
    return os.path.join(FOLDER, name)


def data_of(page):
    """The JSON that a page holds."""
    text = pathlib.Path(page).read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])



class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, page, width=1280, height=800, dark=False):
        self.browser.resize(width, height)
        self.browser.theme(dark)
        self.browser.open(page)
        self.browser.frame()

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])
        self.assertEqual([url for url in self.browser.requests if not url.startswith("file://")], [])
        self.assertLessEqual(len(self.browser.requests), 1, "the page asked for something")

    def text(self, selector):
        return self.browser.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def count(self, selector):
        return self.browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def needs(self):
        return int(self.browser.run('document.querySelector(".answer").dataset.needsBytes'))

    def peak(self):
        return int(self.browser.run('document.querySelector(".chart").dataset.peakBytes'))

    def range_text(self):
        return self.browser.run('[...document.querySelectorAll(".axes g:nth-of-type(2) .tick text")].map(t => t.textContent).join(" ")')


class ExplainPage(PageTest):
    page = path("gpt2.html")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        plimsoll("explain", DATA / "oom" / "oom_gpt2.pickle.gz", "--html", cls.page, status=1)

    def setUp(self):
        self.open(self.page)

    def test_first_screen_has_verdict_limit_and_failure(self):
        self.assertEqual(self.text("#verdict h1"), "activations")
        self.assertIn("3.35 GiB of the 3.89 GiB alive are activations", self.text(".headline"))
        bottom = self.browser.run('document.querySelector(".plot").getBoundingClientRect().bottom')
        self.assertLess(bottom, 800, "the timeline is on the first screen")
        self.assertIn("limit", self.text("#timeline .legend"))
        self.assertIn("failed request", self.text("#timeline .legend"))
        self.assertGreaterEqual(self.count(".axes .tick"), 8)

    def test_colours_the_failure_and_the_limit_on_the_canvas(self):
        red = self.browser.run("""(() => { const canvas = document.querySelector(".plot");
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let red = 0; for (let i = 0; i < data.length; i += 4) if (data[i] > 180 && data[i + 1] < 80 && data[i + 2] < 90) red++;
            return red; })()""")
        self.assertGreater(red, 1500)

    def test_draws_the_peaks_that_were_worked_out(self):
        views = {view["switches"]: view for view in data_of(self.page)["views"]}
        self.assertEqual(self.peak(), views[0]["peak_bytes"])
        for mask, switch in ((1, "half_batch"), (2, "bf16"), (4, "checkpointing")):
            self.browser.click(f"#switch-{switch}")
            self.assertEqual(self.peak(), views[mask]["peak_bytes"], switch)
            self.assertLess(self.peak(), views[0]["peak_bytes"])
            self.browser.click(f"#switch-{switch}")
        self.assertEqual(self.peak(), views[0]["peak_bytes"])

    def test_switches_combine_and_say_what_fits(self):
        self.assertIn("too much", self.text(".answer"))
        self.browser.click("#switch-half_batch")
        half = self.needs()
        self.browser.click("#switch-checkpointing")
        self.assertLess(self.needs(), half)
        self.assertIn("to spare", self.text(".answer"))

    def test_half_the_batch_needs_what_the_counterfactual_says(self):
        explained = json.loads(plimsoll("explain", DATA / "oom" / "oom_gpt2.pickle.gz", "--json", status=1))
        others = {one["name"]: one["needs_bytes"] for one in explained["diagnoses"][0]["counterfactuals"]}
        self.browser.click('[data-allocator="-1"]')
        self.browser.click("#switch-half_batch")
        self.assertEqual(self.needs(), others["at half the batch: live"])

    def test_allocators_draw_what_they_would_reserve(self):
        explained = json.loads(plimsoll("explain", DATA / "oom" / "oom_gpt2.pickle.gz", "--json", status=1))
        others = {one["name"]: one["needs_bytes"] for one in explained["diagnoses"][0]["counterfactuals"]}
        for allocator, name in ((0, "as it was: reserved"), (1, "under PyTorch's allocator from a fresh start"),
                                (2, "the same with expandable segments"), (3, "under Plimsoll's pool")):
            self.browser.click(f'[data-allocator="{allocator}"]')
            self.assertEqual(self.needs(), others[name], name)
        self.assertIn("reserved: Plimsoll's pool", self.text("#timeline .legend"))

    def test_wheel_zooms_only_with_ctrl_or_over_an_axis(self):
        before = self.range_text()
        self.browser.wheel(".plot", 0.5, 0.5, -120)
        self.assertEqual(self.range_text(), before)
        self.browser.wheel(".plot", 0.5, 0.5, -120, ctrl=True)
        zoomed = self.range_text()
        self.assertNotEqual(zoomed, before)
        self.browser.wheel(".plot", 0.5, 0.97, -120)
        self.assertNotEqual(self.range_text(), zoomed)

    def test_drags_zooms_and_shows_all_again(self):
        before = self.range_text()
        self.browser.click(".tools button:nth-child(2)")
        zoomed = self.range_text()
        self.browser.drag(".plot", (0.7, 0.5), (0.4, 0.5))
        self.assertNotEqual(self.range_text(), zoomed)
        self.browser.click(".tools button:nth-child(3)")
        self.assertEqual(self.range_text(), before)
        self.browser.click(".tools button:nth-child(4)")
        self.assertIn("seconds", self.text(".axis-name"))

    def test_keyboard_moves_the_moment_and_zooms(self):
        self.browser.run('document.querySelector(".plot").focus()')
        self.browser.key("ArrowLeft")
        self.browser.run('document.querySelector("#segments").scrollIntoView()')
        self.browser.wait('document.querySelector("#segments .said").textContent.length > 0')
        moved = self.text("#segments .said")
        self.browser.key("ArrowLeft")
        self.assertNotEqual(self.text("#segments .said"), moved)
        before = self.range_text()
        self.browser.key("+", "+")
        self.assertNotEqual(self.range_text(), before)
        self.browser.key("Home")
        self.assertEqual(self.range_text(), before)

    def test_touch_pinch_zooms(self):
        self.browser.resize(800, 900, touch=True)
        self.browser.frame()
        before = self.range_text()
        self.browser.pinch(".plot", 0.6)
        self.assertNotEqual(self.range_text(), before)
        self.browser.send("Emulation.setTouchEmulationEnabled", {"enabled": False})

    def test_hover_tells_what_is_alive(self):
        self.browser.mouse("mouseMoved", *self.browser.place(".plot", 0.9, 0.6))
        self.browser.frame()
        self.assertIn("activation", self.text(".tip"))
        self.assertIn("parameter", self.text(".tip"))

    def test_flame_graph_is_linked_with_timeline_and_table(self):
        self.browser.run('document.querySelector("#flame").scrollIntoView()')
        self.browser.wait('document.querySelectorAll(".box").length > 5')
        whole = self.text("#flame .crumbs b")
        self.browser.click(".box:nth-child(4)")
        self.assertNotEqual(self.text("#flame .crumbs b"), whole)
        self.assertIn("outside the selection", self.text("#timeline .legend"))
        self.browser.run('document.querySelector("#tensors").scrollIntoView()')
        self.browser.wait('document.querySelectorAll("#tensors tbody tr").length > 0')
        self.assertTrue(self.text("#tensors .said").endswith(self.text("#flame .crumbs b")))
        self.browser.run('document.querySelector("#flame").scrollIntoView()')
        self.browser.click(".box:nth-child(1)")
        self.assertEqual(self.text("#flame .crumbs b"), whole)
        self.assertNotIn("outside the selection", self.text("#timeline .legend"))

    def test_flame_graph_shows_framework_frames_only_when_asked(self):
        self.browser.run('document.querySelector("#flame").scrollIntoView()')
        self.browser.wait('document.querySelectorAll(".box").length > 5')
        self.assertNotIn("_call_impl", self.text(".flame-rows"))
        self.browser.click("#framework-frames")
        self.assertIn("_call_impl", self.text(".flame-rows"))

    def test_segments_follow_the_slider(self):
        self.browser.run('document.querySelector("#segments").scrollIntoView()')
        self.browser.wait('document.querySelector("#segments .said").textContent.includes("84 segments")')
        self.browser.click("#moment", 0.3)
        self.browser.frame()
        self.assertNotIn("84 segments", self.text("#segments .said"))

    def test_search_finds_tensors(self):
        self.browser.key("/", "/")
        self.browser.wait('document.activeElement.id === "search" && document.querySelectorAll("#tensors tbody tr").length > 3')
        self.browser.type("modeling_gpt2 activation")
        rows = self.browser.run('[...document.querySelectorAll("#tensors tbody tr")].map(row => row.textContent)')
        self.assertTrue(rows)
        self.assertTrue(all("activation" in row for row in rows))
        self.browser.type(" nothing like this")
        self.assertEqual(self.count("#tensors tbody tr"), 0)

    def test_cards_copy_the_setting(self):
        self.assertGreaterEqual(self.count(".card"), 3)
        self.browser.send("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
        self.browser.click(".card:nth-child(2) .copy")
        self.browser.wait('document.querySelector(".card:nth-child(2) .copy").textContent !== "copy"')
        self.assertEqual(self.text(".card:nth-child(2) .copy"), "copied")

    def test_is_dark_where_the_system_is_and_when_toggled(self):
        ground = 'getComputedStyle(document.body).backgroundColor'
        light = self.browser.run(ground)
        self.browser.theme(True)
        dark = self.browser.run(ground)
        self.assertNotEqual(light, dark)
        self.browser.click(".theme")
        self.assertEqual(self.browser.run(ground), light)
        self.browser.key("t", "t")
        self.assertEqual(self.browser.run(ground), dark)

    def test_fits_every_width(self):
        for width in (500, 820, 1280, 2500):
            self.browser.resize(width, 1000)
            self.browser.frame()
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)

    def test_prints_everything(self):
        pages, _ = self.browser.pdf_pages()
        self.assertIn(pages, range(1, 8))
        self.assertGreater(self.count(".box"), 5, "drawn for printing, though never scrolled to")


class OtherPages(PageTest):
    def test_a_log_has_all_its_failures(self):
        plimsoll("explain", DATA / "oom" / "torch_ooms.txt", "--html", path("log.html"), status=1)
        self.open(path("log.html"))
        self.assertGreaterEqual(self.count(".fold"), 3)
        self.assertEqual(self.count(".plot"), 0)

    def test_a_leak_goes_when_switched_off(self):
        plimsoll("explain", DATA / "oom" / "leak.pickle.gz", "--html", path("leak.html"), status=1)
        self.open(path("leak.html"))
        before = self.peak()
        self.browser.click("#switch-no_leak")
        self.assertAlmostEqual(before - self.peak(), 100 * 2**20, delta=2 * 2**20)
        self.assertEqual(self.count("#switch-checkpointing"), 0)

    def test_an_estimate_shows_what_it_prints(self):
        printed = json.loads(plimsoll("estimate", "resnet18", "--batch", "8", "--json", "--html", path("estimate.html")))
        self.open(path("estimate.html"))
        self.assertEqual(self.peak(), printed["live_peak_bytes"])
        self.assertEqual(self.needs(), printed["peak_bytes"])
        half = json.loads(plimsoll("estimate", "resnet18", "--batch", "4", "--json"))
        self.browser.click("#switch-half_batch")
        self.assertEqual(self.needs(), half["peak_bytes"])
        self.browser.click("#switch-bf16")
        self.browser.click("#switch-recompute")
        self.assertLess(self.needs(), half["peak_bytes"])

    def test_the_graph_goes_from_op_to_op_with_bytes_on_its_edges(self):
        page = path("graph.html")
        plimsoll("estimate", "mlp", "--batch", 16, "--html", page)
        self.open(page)
        chosen = 'document.querySelector("#graph .chosen title").textContent'
        ops = data_of(page)["timelines"][0]["ops"]
        before = self.browser.run(chosen)
        self.assertIn(before, ops)
        edges = self.browser.run('[...document.querySelectorAll("#graph .edge-bytes")].map(t => t.textContent)')
        self.assertGreater(len(edges), 1)
        for text in edges:
            self.assertRegex(text, r"^[0-9.]+ (B|KiB|MiB)$")
        self.browser.run('document.querySelector("#graph [role=button]").dispatchEvent(new Event("click"))')
        self.assertNotEqual(self.browser.run(chosen), before)
        self.assertIn(self.browser.run(chosen), ops)

    def test_a_plan_shows_what_it_is_better_than(self):
        printed = json.loads(plimsoll("plan", "resnet18", "--batch", "16", "--budget", "400MiB", "--json", "--html", path("plan.html")))
        self.open(path("plan.html"))
        self.assertEqual(self.needs(), printed["arena_bytes"])
        self.assertIn("to spare", self.text(".answer"))
        self.browser.click("#switch-no_plan")
        self.assertEqual(self.needs(), printed["unplanned_bytes"])
        self.assertIn("too much", self.text(".answer"))
        self.assertIn("the plan", self.text("#timeline .legend"))

    def test_a_refusal_has_a_page(self):
        plimsoll("plan", "resnet18", "--batch", "16", "--budget", "100MiB", "--time-limit", "4", "--html", path("refusal.html"), status=1)
        self.open(path("refusal.html"))
        self.assertEqual(self.text("#verdict h1"), "does not fit")
        self.assertGreater(self.count(".card"), 0)

    def test_a_run_has_the_times_that_it_took(self):
        plimsoll("train", "mlp", "--batch", "8", "--steps", "2", "--budget", "256MiB", "--no-measure",
                 "--html", path("train.html"), "--chrome-trace", path("train.json"))
        self.open(path("train.html"))
        self.assertEqual(self.text("#verdict h1"), "kept to the budget")
        self.assertIn("2 steps", self.text(".headline"))
        events = json.loads(pathlib.Path(path("train.json")).read_text())["traceEvents"]
        ops = [event for event in events if event["ph"] == "X" and event["tid"] in (1, 2, 3)]
        steps = [event for event in events if event["ph"] == "X" and event["tid"] == 5]
        self.assertEqual(len(steps), 2)
        self.assertLessEqual(sum(op["dur"] for op in ops), max(step["dur"] for step in steps) * 1.01)
        self.assertGreater(sum(op["dur"] for op in ops), 0)

    def test_an_estimated_script_is_shown_against_the_card(self):
        result = {"peak_allocated_bytes": 600 << 20, "peak_reserved_bytes": 600 << 20, "torch": "2", "steps": 3,
                  "seconds": 1.5, "assumptions": [], "at_peak": {}, "modules": []}
        trace = f"event,id,bytes,stream\nalloc,0,{300 << 20},0\nalloc,1,{300 << 20},0\nfree,0,{300 << 20},0\n"
        pathlib.Path(path("result.json")).write_text(json.dumps(result))
        pathlib.Path(path("result.csv")).write_text(trace)
        command = f"cp {path('result.json')} $PLIMSOLL_ESTIMATE_DIR/7.json; cp {path('result.csv')} $PLIMSOLL_ESTIMATE_DIR/7.csv.gz"
        plimsoll("estimate", "--gpu", "1GiB", "--html", path("script.html"), "--", "sh", "-c", command, status=1)
        self.open(path("script.html"))
        self.assertEqual(self.text("#verdict h1"), "does not fit")
        self.assertEqual(self.peak(), 600 << 20)
        self.assertIn("1GiB", self.text("#timeline .legend"))

    def test_a_million_events_stay_fluent(self):
        lines = ["event,id,bytes,stream"]
        for i in range(500_000):
            lines.append(f"alloc,{i},{512 * (i % 997 + 1)},0")
            if i >= 100:
                lines.append(f"free,{i - 100},{512 * ((i - 100) % 997 + 1)},0")
        pathlib.Path(path("million.csv")).write_text("\n".join(lines) + "\n")
        plimsoll("explain", path("million.csv"), "--html", path("million.html"))
        self.open(path("million.html"))
        self.browser.wait('document.querySelector(".chart").dataset.drawMs !== undefined')
        drawn = []
        for _ in range(8):
            self.browser.wheel(".plot", 0.4, 0.5, -100, ctrl=True)
            drawn.append(float(self.browser.run('document.querySelector(".chart").dataset.drawMs')))
        self.assertLess(sorted(drawn)[len(drawn) // 2], 200, f"milliseconds of redraws on a machine that may be busy: {drawn}")

    def test_hostile_text_is_only_text(self):
        log = 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB </script><script>document.title="broken"</script><img src=x onerror=alert(1)>\n'
        pathlib.Path(path("hostile.txt")).write_text(log)
        plimsoll("explain", path("hostile.txt"), "--html", path("hostile.html"), status=1)
        self.open(path("hostile.html"))
        self.assertNotEqual(self.browser.run("document.title"), "broken")
        self.assertEqual(self.count("img"), 0)


class Opening(unittest.TestCase):
    def test_opens_the_page_with_xdg_open(self):
        fake = pathlib.Path(path("bin"))
        fake.mkdir()
        (fake / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {path("opened")}\n')
        (fake / "xdg-open").chmod(0o755)
        environment = dict(os.environ, PATH=f"{fake}:{os.environ['PATH']}", TMPDIR=FOLDER)
        done = subprocess.run([BINARY, "explain", str(DATA / "oom" / "torch_ooms.txt"), "--open"], env=environment,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        opened = pathlib.Path(path("opened")).read_text().strip()
        self.assertTrue(opened.endswith(".html"))
        self.assertIn("page: " + opened, done.stderr)
        self.assertIn("<!doctype html>", pathlib.Path(opened).read_text())


if __name__ == "__main__":
    if shutil.which("chromium") is None:
        print("skipped: no chromium, the page was not opened")
        sys.exit(77)
    probe = subprocess.run([BINARY, "explain", str(DATA / "oom" / "torch_ooms.txt"), "--html", path("probe.html")],
                           capture_output=True, text=True)
    if "this build has no page" in probe.stderr:
        print("skipped: " + probe.stderr.strip())
        sys.exit(77)
    try:
        unittest.main(verbosity=1)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
