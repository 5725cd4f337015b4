// Ops that oneDNN computes. Its primitives like layouts of their own; a DnnlKernel brings operands into them and
// results out of them by reorders, into parts of the op's scratch, where its scratchpads lie, too. Primitives are made
// when the kernel is bound; running one takes nothing from the heap after the first time (lent_heap.h).
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels {

const dnnl::engine& dnnl_engine();

// Scratchpads come from the caller.
dnnl::primitive_attr dnnl_attributes();

// Whether oneDNN convolves in blocks of kChannelBlock channels on this machine.
bool dnnl_prefers_blocks();

// Whether it has AMX tiles for bf16, which like channels last.
bool dnnl_has_amx_tiles();

// Whether sums of products of bytes are exact. (Without AVX-512 VNNI oneDNN multiplies bytes, too, but cuts off sums of
// two products that 16 bits do not hold, or halves the weights first.)
bool dnnl_multiplies_bytes();

// For KernelDef::native: that all numbers are bf16, and this machine multiplies such. (oneDNN does without, too, but
// slower than f32.)
bool dnnl_computes(const KernelCall& call);

dnnl::memory::dims dims_of(const Shape& shape);
// The tensor in place; as any layout that a primitive likes best; in row-major order.
dnnl::memory::desc desc_of(const TensorDesc& tensor);
dnnl::memory::desc any_desc(const dnnl::memory::dims& dims, DType dtype);
dnnl::memory::desc plain_desc(const dnnl::memory::dims& dims, DType dtype);

class DnnlKernel {
 public:
  explicit DnnlKernel(dnnl::primitive_desc_base primitive);

  // Operand or result `place` is argument `argument` of the primitive. It lies as `given`, the primitive wants it as
  // `wanted`: a reorder where these differ.
  void input(int argument, int place, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);
  // With `onto` the primitive reads it, too.
  void output(int argument, int place, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted,
              bool onto = false);

  Kernel finish() &&;

 private:
  struct Reorder {
    dnnl::reorder::primitive_desc primitive = {};  // nothing: none
    int64_t pad_offset = -1;                       // of its own scratch
  };
  struct Operand {
    int argument;
    int place;
    dnnl::memory::desc given;
    dnnl::memory::desc wanted;
    int64_t offset = -1;  // of the reordered copy in scratch; -1: none
    Reorder in = {};      // from where it is given to the copy, and back
    Reorder out = {};
  };
  Operand operand(int argument, int place, const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);
  Reorder reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  int64_t take(int64_t bytes);
  Task bind(const Memory& memory) const;

  dnnl::primitive_desc_base primitive_;
  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  int64_t scratch_bytes_ = 0;
  int64_t pad_offset_ = 0;
};

// Operand 0 in another layout or dtype, as result 0.
Kernel reorder_kernel(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

}  // namespace plimsoll::kernels
