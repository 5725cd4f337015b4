"""As much of torch as the hook of `plimsoll exec` meets, for machines without it: CUDA that starts at the first tensor,
an allocator with a fraction, an observer of out-of-memory errors. What was asked of it is in torch.asked."""
import gzip
import os
import pickle
import types

__version__ = "2.11.0+fake"
asked = []
TOTAL = 80 << 30


class OutOfMemoryError(RuntimeError):
    pass


class _C:
    observers = []

    @classmethod
    def _cuda_attach_out_of_memory_observer(cls, observer):
        if not cuda.started:
            raise AssertionError("this starts CUDA: it must be attached lazily")
        cls.observers.append(observer)


class _Memory(types.ModuleType):
    @staticmethod
    def get_allocator_backend():
        conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
        return "cudaMallocAsync" if "backend:cudaMallocAsync" in conf else "native"

    @staticmethod
    def _record_memory_history(**arguments):
        asked.append(("record", arguments))

    @staticmethod
    def _snapshot():
        with gzip.open(os.environ["FAKE_TORCH_SNAPSHOT"]) as file:
            return pickle.load(file)


class _Cuda(types.ModuleType):
    started = False
    queued = []
    memory = _Memory("memory")
    OutOfMemoryError = OutOfMemoryError
    allocated = 0

    def _lazy_call(self, call):
        self.queued.append(call)

    def start(self):
        if not self.started:
            self.started = True
            for call in self.queued:
                call()

    def device_count(self):
        return 1

    def get_device_properties(self, device):
        return types.SimpleNamespace(total_memory=TOTAL)

    def set_per_process_memory_fraction(self, fraction, device):
        asked.append(("fraction", fraction, device))
        self.limit = fraction * TOTAL

    limit = TOTAL

    def memory_reserved(self, device=0):
        return self.allocated

    max_memory_allocated = max_memory_reserved = memory_reserved


cuda = _Cuda("cuda")


def empty(count):
    cuda.start()
    if cuda.allocated + count > cuda.limit:
        for observer in _C.observers:
            observer(0, count, TOTAL, TOTAL - cuda.allocated)
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {count / 2**30:.2f} GiB.")
    cuda.allocated += count
