"""What `plimsoll exec` does inside the program's Python: once torch is imported and starts CUDA, cap its memory, record
its history, and write a snapshot when it runs out. Nothing here may raise into the program.

Told by the environment:
  PLIMSOLL_EXEC_DIR     folder for what is found here, one set of files per process
  PLIMSOLL_BUDGET       bytes that the process may take of each card, its context included
  PLIMSOLL_DEVICE_USED  "0000:1b:00.0=123456,...": bytes in use on each card before the program started
  PLIMSOLL_EVENTS       so many events of the allocator's history are kept; 0: none
  PLIMSOLL_RECORD       1: write a snapshot at the end too
  PLIMSOLL_POOL         1: the pool is under PyTorch, which then keeps no history of its own
"""
import atexit
import ctypes
import importlib.abc
import importlib.util
import json
import os
import pickle
import sys
import threading
import time

# What a context takes until it was measured, and how often it is measured: libraries load kernels as they are used.
ASSUMED_CONTEXT_BYTES = 512 << 20
FIRST_SECONDS = 10.0
POLL_FIRST_SECONDS = 0.1
POLL_SECONDS = 1.0
LEAST_SECONDS_BETWEEN_SNAPSHOTS = 30.0


def install():
    if os.environ.get("PLIMSOLL_EXEC_DIR"):
        sys.meta_path.insert(0, _TorchWatcher())


class _TorchWatcher(importlib.abc.MetaPathFinder):
    """Lets torch be imported as ever, and then looks after it."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):  # whoever asks for the file, the source or resources asks the real one
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.__spec__.loader = self._loader
        _quietly(Session(module).attach)


def _quietly(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        _note(f"{getattr(call, '__name__', 'hook')}: {type(error).__name__}: {error}")
        return None


def _folder():
    return os.environ["PLIMSOLL_EXEC_DIR"]


def _who():
    rank = os.environ.get("RANK")
    return f"rank{rank}_{os.getpid()}" if rank is not None else str(os.getpid())


def _note(text):
    try:
        with open(os.path.join(_folder(), f"notes_{_who()}.txt"), "a") as file:
            file.write(text + "\n")
    except OSError:
        pass


def normal_bus_id(text):
    return text.lstrip("0").lower()


def used_before():
    """Bytes by bus id, as the environment tells."""
    used = {}
    for item in os.environ.get("PLIMSOLL_DEVICE_USED", "").split(","):
        bus_id, _, count = item.partition("=")
        if count.isdigit():
            used[normal_bus_id(bus_id)] = int(count)
    return used


class Cards:
    """The cards as NVML sees them: asking it needs no context and disturbs no capture."""

    class _Memory(ctypes.Structure):
        _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self):
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if self._nvml.nvmlInit_v2() != 0:
            raise OSError("NVML does not start")

    def bus_id(self, device):
        text = ctypes.create_string_buffer(32)
        if self._driver.cuDeviceGetPCIBusId(text, 32, device) != 0:
            raise OSError(f"device {device} has no bus id")
        return text.value.decode()

    def used_bytes(self, bus_id):
        handle = ctypes.c_void_p()
        memory = self._Memory()
        if self._nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(handle)) != 0:
            raise OSError(f"NVML does not know {bus_id}")
        if self._nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) != 0:
            raise OSError(f"NVML does not tell the memory of {bus_id}")
        return memory.used


class Session:
    """One process that uses torch."""

    def __init__(self, torch):
        self.torch = torch
        self.pid = os.getpid()
        self.budget = int(os.environ.get("PLIMSOLL_BUDGET") or 0)
        self.events = int(os.environ.get("PLIMSOLL_EVENTS") or 0)
        self.with_pool = os.environ.get("PLIMSOLL_POOL") == "1"
        self.context_bytes = {}  # by device, as measured
        self.ooms = 0
        self.last_snapshot = None
        self.started = False

    def attach(self):
        cuda = self.torch.cuda
        if not hasattr(self.torch._C, "_cuda_attach_out_of_memory_observer"):
            return  # a build without CUDA
        cuda._lazy_call(lambda: _quietly(self.start))

    def start(self):
        if os.getpid() != self.pid:
            return  # a fork of the process that imported torch
        self.started = True
        atexit.register(_quietly, self.finish)
        self._say_backend()
        if not self.with_pool:
            _quietly(self.record)
            _quietly(self.observe)
        if self.budget and not self.with_pool:
            _quietly(self.cap)
        self.write_status()

    def _say_backend(self):
        backend = getattr(self.torch.cuda.memory, "get_allocator_backend", lambda: "native")()
        self.backend = backend
        if self.with_pool and backend != "cudaMallocAsync":
            _note(f"the script set PyTorch's allocator to '{backend}' itself: tensors go through its cache, and the pool "
                  "serves that. Remove PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF from the script for the pool alone")

    # History and snapshots.

    def record(self):
        if self.events > 0:
            self.torch.cuda.memory._record_memory_history(
                enabled="all", context="alloc", stacks="python", max_entries=self.events)

    def observe(self):
        self.torch._C._cuda_attach_out_of_memory_observer(
            lambda device, asked, total, free: _quietly(self.on_oom, device, asked))

    def on_oom(self, device, asked):
        self.ooms += 1
        now = time.monotonic()
        if self.last_snapshot is not None and now - self.last_snapshot < LEAST_SECONDS_BETWEEN_SNAPSHOTS:
            return
        self.last_snapshot = now
        self.write_snapshot(f"oom_{_who()}.pickle")

    def write_snapshot(self, name):
        snapshot = self.torch.cuda.memory._snapshot()
        path = os.path.join(_folder(), name)
        with open(path + ".part", "wb") as file:
            pickle.dump(snapshot, file)
        os.replace(path + ".part", path)

    def finish(self):
        if os.getpid() != self.pid:
            return
        if os.environ.get("PLIMSOLL_RECORD") == "1" and not self.with_pool:
            _quietly(self.write_snapshot, f"record_{_who()}.pickle")
        self.write_status()

    # The cap.

    def cap(self):
        """The allocator is given what the budget leaves beside the context; the context is measured again and again."""
        before = used_before()
        self.limits = {}
        for device in range(self.torch.cuda.device_count()):
            self._set_limit(device, ASSUMED_CONTEXT_BYTES)
        cards = Cards()
        watched = {}
        for device in range(self.torch.cuda.device_count()):
            bus_id = cards.bus_id(device)
            if normal_bus_id(bus_id) in before:
                watched[device] = (bus_id, before[normal_bus_id(bus_id)])
        thread = threading.Thread(target=_quietly, args=(self._watch, cards, watched), name="plimsoll", daemon=True)
        thread.start()

    def _watch(self, cards, watched):
        start = time.monotonic()
        while os.getpid() == self.pid:
            for device, (bus_id, before) in watched.items():
                used = cards.used_bytes(bus_id)
                context = used - before - self.torch.cuda.memory_reserved(device)
                # The allocator may be between taking and counting: only what stays is the context's.
                if context > self.context_bytes.get(device, 0):
                    again = cards.used_bytes(bus_id) - before - self.torch.cuda.memory_reserved(device)
                    context = min(context, again)
                if context > self.context_bytes.get(device, 0):
                    self.context_bytes[device] = context
                    self._set_limit(device, context)
                    self.write_status()
            time.sleep(POLL_FIRST_SECONDS if time.monotonic() - start < FIRST_SECONDS else POLL_SECONDS)

    def _set_limit(self, device, context):
        total = self.torch.cuda.get_device_properties(device).total_memory
        left = max(self.budget - context, 0)
        self.limits[device] = left
        self.torch.cuda.set_per_process_memory_fraction(min(1.0, left / total), device)

    # What the summary is made of.

    def write_status(self):
        status = {"pid": self.pid, "rank": os.environ.get("RANK"), "argv": sys.argv, "torch": self.torch.__version__,
                  "backend": self.backend, "ooms": self.ooms, "devices": []}
        for device in range(self.torch.cuda.device_count()):
            peak = _quietly(self.torch.cuda.max_memory_allocated, device) or 0
            reserved = _quietly(self.torch.cuda.max_memory_reserved, device) or 0
            if peak or reserved:
                status["devices"].append({"device": device, "peak_allocated_bytes": peak,
                                          "peak_reserved_bytes": reserved,
                                          "context_bytes": self.context_bytes.get(device)})
        path = os.path.join(_folder(), f"status_{_who()}.json")
        with open(path + ".part", "w") as file:
            json.dump(status, file)
        os.replace(path + ".part", path)
