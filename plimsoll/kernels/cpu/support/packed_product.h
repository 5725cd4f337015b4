// Products of matrices of our own, for machines without AVX-512, where oneDNN's reach about 85 % of what the machine
// multiplies and take memory from the heap. Factors in f16 and bf16 are upcast as they are packed, results rounded as
// they are written. Each element is summed in the same order on any number of threads.
#pragma once

#include "plimsoll/kernels/cpu/support/product.h"

namespace plimsoll::kernels {

// Whether this machine computes the product so: it is large enough to be worth packing. Operands and the result may be
// f32, f16 or bf16, each on its own.
bool is_packed(const Product& product);

// Of such a product. Its scratch is at most about 2 MiB for each thread; where the result is f16 or bf16, one more, and
// 8 for all together.
Kernel packed_product(const Product& product, const KernelCall& call, const Epilogue& epilogue);

}  // namespace plimsoll::kernels
