// What products do to their result before they write it: add it to what lies there, cut it at zero.
#pragma once

#include "plimsoll/kernels/cpu/support/dnnl.h"

namespace plimsoll::kernels {

struct Epilogue {
  bool onto = false;  // the result is added to what is in its place
  bool relu = false;

  dnnl::primitive_attr attributes() const;
};

// The products that can have one, by the operands of conv, linear and matmul.
Kernel conv_forward(const KernelCall& call, const Epilogue& epilogue);
Kernel linear_forward(const KernelCall& call, const Epilogue& epilogue);
Kernel matmul_forward(const KernelCall& call, const Epilogue& epilogue);

// The kernel, and result 0 cut at zero in a pass of its own, for products that are not oneDNN's.
Kernel then_relu(Kernel kernel, const KernelCall& call);

}  // namespace plimsoll::kernels
