// Products of matrices for the families that are made of them: by oneDNN, or packed by us (packed_product.h).
#pragma once

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

// A kernel whose operands 0 and 1 are a and b and whose result 0 is y.
Kernel product_kernel(const Product& product, const KernelCall& call, const Epilogue& epilogue = {});

// The last two dimensions exchanged.
TensorDesc transposed(TensorDesc tensor);

}  // namespace plimsoll::kernels
