"""Headless Chromium driven over a pipe by its remote debugging protocol: no package beside Python is needed."""
import base64
import json
import os
import shutil
import subprocess
import tempfile


class Browser:
    def __init__(self, width=1280, height=800, dark=False, touch=False):
        self.profile = tempfile.mkdtemp(prefix="plimsoll-browser-")
        to_child, from_us = os.pipe()
        from_child, to_us = os.pipe()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                   "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                   f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"]
        script = f'exec 3<&{to_child} 4>&{to_us}; exec "$@"'
        self.process = subprocess.Popen(["bash", "-c", script, "bash", *command], pass_fds=(to_child, to_us),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(to_us)
        self.write, self.read = os.fdopen(from_us, "wb", 0), os.fdopen(from_child, "rb", 0)
        self.rest, self.number, self.requests, self.errors = b"", 0, [], []
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.send(domain + ".enable")
        self.resize(width, height, touch)
        self.theme(dark)

    def resize(self, width, height, touch=False):
        self.send("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        if touch:
            self.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def theme(self, dark):
        self.send("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def _message(self):
        while b"\0" not in self.rest:
            more = self.read.read(1 << 20)
            if not more:
                raise RuntimeError("the browser is gone")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, params=None):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params or {}}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        self.write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])

    def open(self, path):
        self.requests, self.errors = [], []
        self.send("Page.navigate", {"url": "file://" + os.path.abspath(path)})
        self.wait('document.body && document.body.dataset.ready === "yes"')

    def run(self, script):
        """The value of a JavaScript expression; promises are awaited."""
        result = self.send("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def wait(self, condition, seconds=60):
        script = f"""new Promise((done, fail) => {{
            const start = performance.now();
            const look = () => {{
                let holds = false;
                try {{ holds = {condition}; }} catch (error) {{ holds = false; }}
                if (holds) done(true);
                else if (performance.now() - start > {seconds * 1000}) fail(new Error("not in time"));
                else setTimeout(look, 20);
            }};
            look();
        }})"""
        for attempt in range(5):  # a navigation ends what is being evaluated
            try:
                return self.run(script)
            except RuntimeError as error:
                if attempt == 4 or "not in time" in str(error):
                    raise RuntimeError(f"{condition}: {error}; errors of the page: {self.errors}") from error

    def frame(self):
        """After what was asked for has been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))")

    def place(self, selector, x=0.5, y=0.5):
        box = self.run(f"""(() => {{ const one = document.querySelector({json.dumps(selector)});
            one.scrollIntoView({{block: "nearest"}}); const box = one.getBoundingClientRect();
            return [box.left, box.top, box.width, box.height]; }})()""")
        return box[0] + box[2] * x, box[1] + box[3] * y

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def click(self, selector, x=0.5, y=0.5):
        at = self.place(selector, x, y)
        self.mouse("mouseMoved", *at)
        self.mouse("mousePressed", *at, button="left", clickCount=1)
        self.mouse("mouseReleased", *at, button="left", clickCount=1)
        self.frame()

    def drag(self, selector, start, end):
        first, last = self.place(selector, *start), self.place(selector, *end)
        self.mouse("mouseMoved", *first)
        self.mouse("mousePressed", *first, button="left", clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", *[a + (b - a) * step / 5 for a, b in zip(first, last)], button="left", buttons=1)
        self.mouse("mouseReleased", *last, button="left", clickCount=1)
        self.frame()

    def wheel(self, selector, x, y, delta, ctrl=False):
        at = self.place(selector, x, y)
        self.mouse("mouseWheel", *at, deltaX=0, deltaY=delta, modifiers=2 if ctrl else 0)
        self.frame()

    def pinch(self, selector, apart):
        """Two fingers from a tenth of the width apart to `apart` of it."""
        spots = [[self.place(selector, 0.5 - wide / 2), self.place(selector, 0.5 + wide / 2)]
                 for wide in (0.1, (0.1 + apart) / 2, apart)]
        for kind, pair in zip(("touchStart", "touchMove", "touchMove"), spots):
            points = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(pair)]
            self.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        self.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        self.frame()

    def key(self, key, text=""):
        more = {"text": text} if text else {}
        self.send("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **more})
        self.send("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})
        self.frame()

    def type(self, text):
        self.send("Input.insertText", {"text": text})
        self.frame()

    def screenshot(self, path, whole=False):
        self.frame()
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.send("Page.captureScreenshot", options)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf_pages(self):
        data = base64.b64decode(self.send("Page.printToPDF", {"printBackground": True})["data"])
        return data.count(b"/Type /Page") - data.count(b"/Type /Pages"), data

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
