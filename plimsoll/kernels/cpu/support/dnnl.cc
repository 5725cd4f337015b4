#include "plimsoll/kernels/cpu/support/dnnl.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/isa.h"

namespace plimsoll::kernels {
namespace {

using dnnl::memory;

const dnnl::stream& dnnl_stream() {
  static const dnnl::stream stream(dnnl_engine());
  return stream;
}

memory::data_type type_of(DType dtype) {
  using Type = memory::data_type;
  switch (dtype) {
    case DType::bf16:
      return Type::bf16;
    case DType::i8:
      return Type::s8;
    case DType::u8:
      return Type::u8;
    case DType::i32:
      return Type::s32;
    default:
      return Type::f32;
  }
}

memory at(const memory::desc& desc, void* data) { return {desc, dnnl_engine(), data}; }

// A primitive with its arguments, called through the C interface: the C++ one makes a vector in each call.
class Call {
 public:
  Call(const dnnl::primitive& primitive, std::vector<std::pair<int, memory>> arguments)
      : primitive_(primitive), memories_(std::move(arguments)) {
    for (const auto& [argument, held] : memories_) arguments_.push_back({argument, held.get()});
  }

  void operator()() const {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                                                   static_cast<int>(arguments_.size()), arguments_.data()),
                            "a oneDNN primitive failed");
  }

 private:
  dnnl::primitive primitive_;
  std::vector<std::pair<int, memory>> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

memory::desc scratchpad(const dnnl::primitive_desc_base& primitive) {
  return primitive.query_md(dnnl::query::scratchpad_md);
}

// Of PLIMSOLL_MAX_ISA, which is below amx.
dnnl::cpu_isa dnnl_limit() {
  switch (isa_limit()) {
    case Isa::sse4:
      return dnnl::cpu_isa::sse41;
    case Isa::avx2:
      return dnnl::cpu_isa::avx2;
    default:
      return dnnl::cpu_isa::avx512_core_bf16;
  }
}

// oneDNN takes a limit before its first use in a process only.
bool set_limit() {
  if (isa_limit() == Isa::amx) return true;
  if (dnnl::set_max_cpu_isa(dnnl_limit()) == dnnl::status::success) return true;
  throw ArgumentError(fmt::format(
      "PLIMSOLL_MAX_ISA is {}, but this process used oneDNN before, which takes no limit then: set ONEDNN_MAX_CPU_ISA "
      "as well",
      isa_name(isa_limit())));
}

// To be called before anything else of oneDNN.
void limit_isa() { [[maybe_unused]] static const bool limited = set_limit(); }

// Sets of instructions are bits: some have a higher number without holding the others.
bool machine_has(dnnl::cpu_isa wanted) {
  limit_isa();
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine = [] {
    limit_isa();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

bool dnnl_prefers_blocks() { return machine_has(dnnl::cpu_isa::avx512_core); }

bool dnnl_has_amx_tiles() { return machine_has(dnnl::cpu_isa::avx512_core_amx); }

bool dnnl_multiplies_bytes() { return machine_has(dnnl::cpu_isa::avx512_core_vnni); }

bool dnnl_computes(const KernelCall& call) {
  static const bool multiplies = machine_has(dnnl::cpu_isa::avx512_core_bf16);
  const auto computed = [](const TensorDesc& tensor) { return tensor.dtype == DType::bf16 && tensor.elements() > 0; };
  if (!multiplies || !std::all_of(call.inputs.begin(), call.inputs.end(), computed)) return false;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    if (call.requested[k] && !computed(call.outputs[k])) return false;
  }
  return true;
}

memory::dims dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

memory::desc desc_of(const TensorDesc& tensor) {
  const auto rank = tensor.shape.rank();
  if (tensor.is_blocked()) {
    using Tag = memory::format_tag;
    constexpr Tag kInBlocks[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
    constexpr Tag kLast[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
    return {dims_of(tensor.shape), type_of(tensor.dtype), (tensor.is_channels_last() ? kLast : kInBlocks)[rank - 3]};
  }
  return {dims_of(tensor.shape), type_of(tensor.dtype),
          memory::dims(tensor.strides.begin(), tensor.strides.begin() + rank)};
}

memory::desc any_desc(const memory::dims& dims, DType dtype) { return {dims, type_of(dtype), memory::format_tag::any}; }

memory::desc plain_desc(const memory::dims& dims, DType dtype) {
  return desc_of(contiguous(dtype, Shape(std::span(dims))));
}

DnnlKernel::DnnlKernel(dnnl::primitive_desc_base primitive) : primitive_(std::move(primitive)) {
  pad_offset_ = take(static_cast<int64_t>(scratchpad(primitive_).get_size()));
}

int64_t DnnlKernel::take(int64_t bytes) {
  const int64_t offset = scratch_bytes_;
  scratch_bytes_ += align_up(bytes, kAlignment);
  return offset;
}

DnnlKernel::Operand DnnlKernel::operand(int argument, int place, const memory::desc& given,
                                        const memory::desc& wanted) {
  Operand made{argument, place, given, wanted};
  if (given != wanted) made.offset = take(static_cast<int64_t>(wanted.get_size()));
  return made;
}

DnnlKernel::Reorder DnnlKernel::reorder(const memory::desc& from, const memory::desc& to) {
  if (from == to) return {};
  Reorder made{{dnnl_engine(), from, dnnl_engine(), to, dnnl_attributes()}};
  made.pad_offset = take(static_cast<int64_t>(scratchpad(made.primitive).get_size()));
  return made;
}

void DnnlKernel::input(int argument, int place, const memory::desc& given, const memory::desc& wanted) {
  inputs_.push_back(operand(argument, place, given, wanted));
  inputs_.back().in = reorder(given, wanted);
}

void DnnlKernel::output(int argument, int place, const memory::desc& given, const memory::desc& wanted, bool onto) {
  outputs_.push_back(operand(argument, place, given, wanted));
  if (onto) outputs_.back().in = reorder(given, wanted);
  outputs_.back().out = reorder(wanted, given);
}

Kernel DnnlKernel::finish() && {
  const int64_t bytes = scratch_bytes_;
  const auto self =
      std::make_shared<const DnnlKernel>(std::move(*this));  // some KiB: a plan that recomputes has copies
  return {bytes, [self](const Memory& memory) { return self->bind(memory); }};
}

Task DnnlKernel::bind(const Memory& memory) const {
  std::vector<Call> before;
  std::vector<Call> after;
  std::vector<std::pair<int, dnnl::memory>> arguments;
  const auto pad = [&](const dnnl::primitive_desc_base& primitive, int64_t offset) {
    return std::pair(DNNL_ARG_SCRATCHPAD, at(scratchpad(primitive), memory.scratch + offset));
  };
  const auto add = [&](std::vector<Call>& calls, const Reorder& how, const dnnl::memory& from, const dnnl::memory& to) {
    if (!how.primitive) return;
    calls.emplace_back(
        dnnl::reorder(how.primitive),
        std::vector{std::pair(DNNL_ARG_FROM, from), std::pair(DNNL_ARG_TO, to), pad(how.primitive, how.pad_offset)});
  };
  const auto place = [&](const Operand& operand, std::byte* data) {
    if (operand.offset < 0) return at(operand.wanted, data);
    const dnnl::memory given = at(operand.given, data);
    const dnnl::memory wanted = at(operand.wanted, memory.scratch + operand.offset);
    add(before, operand.in, given, wanted);
    add(after, operand.out, wanted, given);
    return wanted;
  };
  for (const Operand& operand : inputs_) {
    arguments.emplace_back(operand.argument, place(operand, memory.inputs[static_cast<size_t>(operand.place)]));
  }
  for (const Operand& operand : outputs_) {
    arguments.emplace_back(operand.argument, place(operand, memory.outputs[static_cast<size_t>(operand.place)]));
  }
  arguments.push_back(pad(primitive_, pad_offset_));
  before.emplace_back(dnnl::primitive(primitive_.get()), std::move(arguments));
  before.insert(before.end(), after.begin(), after.end());
  return [calls = std::move(before)] {
    for (const Call& call : calls) call();
  };
}

Kernel reorder_kernel(const memory::desc& from, const memory::desc& to) {
  DnnlKernel kernel(dnnl::reorder::primitive_desc(dnnl_engine(), from, dnnl_engine(), to, dnnl_attributes()));
  kernel.input(DNNL_ARG_FROM, 0, from, from);
  kernel.output(DNNL_ARG_TO, 0, to, to);
  return std::move(kernel).finish();
}

}  // namespace plimsoll::kernels
