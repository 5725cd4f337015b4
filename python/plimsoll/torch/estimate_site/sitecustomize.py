"""Found first on PYTHONPATH by every Python that `plimsoll estimate` starts: once torch is imported, the simulation begins.
The sitecustomize that this one hides runs as well."""
import importlib.abc
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))


class _AfterTorch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _install(module)

            spec.loader.exec_module = exec_module
        return spec


def _install(torch):
    sys.path.append(_PACKAGES)
    try:
        from plimsoll.torch import simulate
    finally:
        sys.path.remove(_PACKAGES)
    simulate.install(torch)


def _run_hidden_sitecustomize():
    for folder in sys.path:
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.isfile(path) and os.path.abspath(os.path.dirname(path)) != _HERE:
            spec = importlib.util.spec_from_file_location("_plimsoll_hidden_sitecustomize", path)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


sys.meta_path.insert(0, _AfterTorch())
_run_hidden_sitecustomize()
