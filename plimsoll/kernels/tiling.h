// How most ops fall into pieces, see Cut.
#pragma once

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

bool is_low_precision(DType dtype);              // f16 and bf16
bool has_low_precision(const KernelCall& call);  // in what it reads or writes

// A bit for each element.
bool is_mask_of(const TensorDesc& tensor, int64_t elements);

// Element by element: what has as many elements as result 0, and masks of them. Other operands are single elements.
// Where operands lie with gaps, or not in the order of the result, by rows; not at all where there are masks then.
Tiling by_elements(const KernelCall& call);

// Operand 0, or result 0 of an op without, is [rows, ..].
Tiling by_rows(const KernelCall& call, std::vector<int> inputs, std::vector<int> outputs, std::vector<int> sums = {});

// Operands and results are all [batch, channels, ..], each plane on its own.
Tiling by_planes(const KernelCall& call);

// For KernelDef::native: that only these are f16 or bf16.
bool low_precision_only_in(const KernelCall& call, const std::vector<int>& inputs, const std::vector<int>& outputs);

// Likewise: kernels that only move elements, or take any dtype anyhow.
bool any_dtype(const KernelCall& call);

}  // namespace plimsoll::kernels
