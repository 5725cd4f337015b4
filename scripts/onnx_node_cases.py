#!/usr/bin/env python3
"""The newest conformance cases of single nodes for OnnxConformance.NodeCasesPassOrSayWhyNot: onnx_node_cases.py FOLDER.
Needs the Python package onnx, which makes them; they are in FOLDER/node."""
import argparse
import sys
import types

from onnx.backend.test import cmd_tools
from onnx.backend.test.case import node

if len(sys.argv) != 2:
    sys.exit(__doc__)
# Its own are whole models alone.
cmd_tools.model_test = types.SimpleNamespace(collect_testcases=lambda: node.collect_testcases(None))
cmd_tools.generate_data(argparse.Namespace(output=sys.argv[1]))
