// Products of matrices, for the families that have them.
#pragma once

#include "plimsoll/models/onnx/node.h"

namespace plimsoll::models::onnx_import {

// As NumPy's matmul. A weight that is a matrix becomes a linear layer where it has a row for each output.
Value product(NodeCall& call, Value x, Value z);

// x + z. One number for each column is added before the columns of a product were given more dimensions, so that it can
// be the bias of that.
Value sum_of(NodeCall& call, Value x, Value z);

// Of nodes with the operands and attributes of Conv and of Gemm.
Value convolution(NodeCall& call);
Value gemm(NodeCall& call);

// An equation of einsum over these operands.
Value einsum(NodeCall& call, const std::string& equation, const std::vector<Value>& operands);

}  // namespace plimsoll::models::onnx_import
