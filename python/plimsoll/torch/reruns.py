"""A question about a script that runs is put to a second run of it, on a simulated card.

The script starts again with the same arguments, in a process where memory is addresses and kernels do nothing
(simulate.py). Where it comes to the same call of `fit` or `max_batch`, that call answers and the process ends. So the
question needs no memory on the card, and no value of the script that asks is touched.
"""

import json
import os
import subprocess
import sys
import tempfile

_REQUEST = "PLIMSOLL_FIT_REQUEST"
_calls = 0


class CannotPredict(RuntimeError):
    """The second run failed, or did not come to the same call."""


def next_call():
    """Which call of fit or max_batch this is in the script."""
    global _calls
    _calls += 1
    return _calls - 1


def request():
    """In a second run: what is asked. None in an ordinary one."""
    path = os.environ.get(_REQUEST)
    if not path:
        return None
    with open(path) as file:
        return json.load(file)


def answer(value):
    with open(os.environ[_REQUEST] + ".answer", "w") as file:
        json.dump(value, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def ask(question, card):
    with tempfile.TemporaryDirectory(prefix="plimsoll-fit-") as folder:
        path = os.path.join(folder, "request")
        with open(path, "w") as file:
            json.dump(question, file)
        done = subprocess.run(
            _command(),
            env=_environment(folder, path, card),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if not os.path.exists(path + ".answer"):
            last = "\n".join(done.stderr.strip().splitlines()[-8:])
            raise CannotPredict(
                f"the script's second run, on a simulated card, ended with status {done.returncode} before it came to "
                f"this call:\n{last}"
            )
        with open(path + ".answer") as file:
            return json.load(file)


def _command():
    command = list(getattr(sys, "orig_argv", [])) or [sys.executable, *sys.argv]
    if not sys.argv or not sys.argv[0] or sys.argv[0] == "-c":
        raise CannotPredict("fit runs the script a second time, and there is no script: put the code into a file")
    command[0] = sys.executable
    return command


def _environment(folder, path, card):
    here = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ)
    for name in [name for name in environment if name.startswith("PLIMSOLL_EXEC")]:
        del environment[name]
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if "cudaMallocAsync" in environment.get(name, ""):
            del environment[name]
    site = os.path.join(here, "estimate_site")
    paths = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p and "exec_site" not in p]
    preloaded = [p for p in environment.get("LD_PRELOAD", "").split(":") if p and "plimsoll" not in p]
    environment.update(
        {
            "LD_PRELOAD": ":".join([simulation_library(), *preloaded]),
            "PYTHONPATH": os.pathsep.join([site] + [p for p in paths if p != site]),
            "PLIMSOLL_SIM_CARD": os.environ.get("PLIMSOLL_SIM_CARD") or card,
            "PLIMSOLL_ESTIMATE_DIR": folder,
            "CUDA_VISIBLE_DEVICES": "0",
            _REQUEST: path,
        }
    )
    return environment


def simulation_library():
    name = "libplimsoll_simcuda.so"
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    places = [
        os.environ.get("PLIMSOLL_PRELOAD_DIR", ""),
        os.path.join(package, "bin"),  # of a wheel
        os.path.join(package, "..", "..", "..", "lib", "plimsoll"),  # installed
        os.path.join(package, "..", "..", "build", "release", "python"),
    ]
    for place in places:
        if place and os.path.exists(os.path.join(place, name)):
            return os.path.abspath(os.path.join(place, name))
    raise CannotPredict(f"{name} was not found: set PLIMSOLL_PRELOAD_DIR to its folder")


def card_file(name):
    """The description of a card by its short name, or of the card of this machine by the driver's name of it."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cards")
    known = sorted(os.listdir(folder))
    if name + ".json" in known:
        return os.path.join(folder, name + ".json")
    for file in known:
        with open(os.path.join(folder, file)) as text:
            if json.load(text)["deviceName"] == name:
                return os.path.join(folder, file)
    names = ", ".join(file[: -len(".json")] for file in known)
    raise CannotPredict(f"no description of the card {name!r}: give card= one of {names}")
