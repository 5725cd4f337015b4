// Products of matrices for the families that are made of them: by oneDNN, or packed by us (packed_product.h).
#pragma once

#include <optional>

#include "plimsoll/kernels/cpu/support/epilogue.h"

namespace plimsoll::kernels {

// y = a b (+ bias along the columns), with the same batch dimensions before the last two; 1 where an operand is used
// for all. Operands may have any strides.
struct Product {
  TensorDesc a;
  TensorDesc b;
  TensorDesc y;
  const TensorDesc* bias = nullptr;  // [columns], operand 2 of the op
};

// The tensor as a matrix: its dimensions before the last two are more rows, or more columns where `into_columns`.
// Nothing where they do not lie one behind the other.
std::optional<TensorDesc> as_matrix(const TensorDesc& tensor, bool into_columns);

// Where b is one matrix for all batches, these become more rows of a single product, which is faster than many.
Product with_folded_batches(const Product& product);

// A kernel whose operands 0 and 1 are a and b and whose result 0 is y.
Kernel product_kernel(const Product& product, const KernelCall& call, const Epilogue& epilogue = {});

// The last two dimensions exchanged.
TensorDesc transposed(TensorDesc tensor);

}  // namespace plimsoll::kernels
