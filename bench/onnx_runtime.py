"""An inference of an ONNX file in ONNX Runtime, again for every line on standard input: the peer of bench/onnx.cc.

usage: onnx_runtime.py FILE BATCH TOKENS THREADS clock|cpu

Values that the file does not have are drawn, nodes of training mode are put into that of inference. Prints "ready", then
for each line "MILLISECONDS BYTES": what a run after one that is not counted took by the clock, or of the processor by all
threads, and by how many bytes the process has grown at its largest since before the session was made.
"""
import os
import subprocess
import sys
import tempfile
import time

PAUSE_S = 0.03  # in which threads of the other side go to sleep


def prepare(source, target):
    """In a process of its own, so that its memory is not counted."""
    import numpy
    import onnx

    model = onnx.load(source, load_external_data=False)
    generator = numpy.random.default_rng(1)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        shape = tuple(tensor.dims)
        inputs = max(1, numpy.prod(shape[1:])) if len(shape) > 1 else 1
        values = generator.standard_normal(shape).astype(kind) / numpy.sqrt(inputs).astype(kind)
        if len(shape) == 1:
            values = numpy.ones(shape, kind)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            for attribute in node.attribute:
                if attribute.name == "training_mode":
                    attribute.i = 0
        elif node.op_type == "Dropout":
            node.op_type = "Identity"
            del node.input[1:], node.output[1:], node.attribute[:]
    onnx.save(model, target)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def serve(path, batch, tokens, threads, kind):
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    now = time.process_time if kind == "cpu" else time.perf_counter
    if kind == "cpu":
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    before = resident()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    generator = numpy.random.default_rng(1)
    inputs = {}
    for value in session.get_inputs():
        sizes = [batch, tokens]
        shape = [size if isinstance(size, int) else sizes[min(i, 1)] for i, size in enumerate(value.shape)]
        if "int" in value.type:
            inputs[value.name] = generator.integers(0, 100, shape)
        else:
            inputs[value.name] = generator.standard_normal(shape).astype(numpy.float32)
    session.run(None, inputs)
    print("ready", flush=True)
    for _ in sys.stdin:
        time.sleep(PAUSE_S)
        session.run(None, inputs)
        start = now()
        session.run(None, inputs)
        print((now() - start) * 1e3, peak() - before, flush=True)


if sys.argv[1] == "--prepare":
    prepare(*sys.argv[2:])
else:
    with tempfile.TemporaryDirectory() as folder:
        ready = os.path.join(folder, "model.onnx")
        subprocess.run([sys.executable, __file__, "--prepare", sys.argv[1], ready], check=True, stdout=sys.stderr)
        serve(ready, *map(int, sys.argv[2:5]), sys.argv[5])
