"""Found first on PYTHONPATH by every Python that `plimsoll exec` starts: brings in the hook, then the sitecustomize that
this one hides."""
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hidden_sitecustomize():
    for folder in sys.path:
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.abspath(os.path.dirname(path)) != _HERE and os.path.isfile(path):
            return path
    return None


try:
    _load("_plimsoll_exec_hook", os.path.join(os.path.dirname(_HERE), "exec_hook.py")).install()
except Exception as error:  # the program must run as if we were not here
    print(f"plimsoll: the hook could not be installed: {error!r}", file=sys.stderr)

_path = _hidden_sitecustomize()
if _path is not None:
    _load("_plimsoll_hidden_sitecustomize", _path)
