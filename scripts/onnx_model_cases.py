#!/usr/bin/env python3
"""Folders of ONNX's light model cases for OnnxConformance.ModelCasesPass: onnx_model_cases.py FOLDER. Needs the Python
package onnx, whose wheel has the models and their results; inputs are those of its own runner."""
import pathlib
import shutil
import sys

import numpy
import onnx
from onnx.backend.test.runner import Runner

source = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
for path in sorted(source.glob("*.onnx")):
    folder = pathlib.Path(sys.argv[1], path.stem)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder / "model.onnx")
    shutil.copy(path.with_name(f"{path.stem}_output_0.pb"), data / "output_0.pb")
    graph = onnx.load(path).graph
    held = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in held]
    for i, value in enumerate(inputs):
        name = path.stem.replace("light", "test")
        array = Runner.generate_dummy_data(value, seed=0, name=name, random=False)
        (data / f"input_{i}.pb").write_bytes(onnx.numpy_helper.from_array(numpy.asarray(array)).SerializeToString())
