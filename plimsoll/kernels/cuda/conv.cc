// Convolutions: cuDNN's where it is installed and can, a thread for each result otherwise.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"
#include "plimsoll/kernels/cuda/support/elements.h"
#include "plimsoll/kernels/cuda/support/planes.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it
using plimsoll::cuda::Cudnn;
using plimsoll::cuda::DnnAlgo;
using plimsoll::cuda::Runtime;

enum class Direction : uint8_t { forward, data, weights };

// One convolution y = x * w and its three sides, whichever of them is computed.
struct Sides {
  TensorDesc x, w, y;
  WindowLengths window;
  int64_t groups;
};

// ---- without the library ----

// As conv.cuh has it.
struct Plain {
  int64_t size[3], windows[3], kernel[3], step[3], dilation[3], begin[3];
  int64_t x_stride[5], y_stride[5];
  int64_t samples, inputs, outputs, groups, of_group;
};

Plain plain_of(const Sides& s) {
  Plain p{};
  const Lengths x(s.x);
  const Lengths y(s.y);
  std::copy_n(x.size, 3, p.size);
  std::copy_n(y.size, 3, p.windows);
  std::copy_n(s.window.kernel, 3, p.kernel);
  std::copy_n(s.window.step, 3, p.step);
  std::copy_n(s.window.dilation, 3, p.dilation);
  std::copy_n(s.window.begin, 3, p.begin);
  std::copy_n(x.stride, 5, p.x_stride);
  std::copy_n(y.stride, 5, p.y_stride);
  p.samples = s.x.shape[0];
  p.inputs = s.x.shape[1];
  p.outputs = s.y.shape[1];
  p.groups = s.groups;
  p.of_group = s.w.shape[1];
  return p;
}

Launch plain_launch(const Sides& s, Direction direction, At x, At w, At y, At bias) {
  Launch launch{"conv"};
  const Plain p = plain_of(s);
  if (direction == Direction::forward) {
    launch.defines.set("FORWARD").set("T", s.x.dtype).set("W", s.w.dtype).set("OUT", s.y.dtype).set("B", s.x.dtype);
    launch.defines.set("SUM", "float");
    launch.grid = {blocks_for(s.y.elements())};
    launch.arguments = Arguments(s.y.elements(), y, x, w, bias, none(), none(), p);
  } else if (direction == Direction::data) {
    launch.defines.set("BACKWARD_DATA").set("T", s.x.dtype);
    launch.grid = {blocks_for(s.x.elements())};
    launch.arguments = Arguments(s.x.elements(), x, y, w, bias, p);
  } else {
    launch.defines.set("BACKWARD_WEIGHTS").set("T", s.x.dtype);
    launch.grid = {s.w.elements()};
    launch.block = {128, 1};
    launch.arguments = Arguments(w, y, x, p);
  }
  return launch;
}

// ---- with it ----

constexpr size_t kWorkspaceLimit = size_t{512} << 20;

int dnn_type(DType dtype) {
  return dtype == DType::f32   ? plimsoll::cuda::kDnnFloat
         : dtype == DType::f16 ? plimsoll::cuda::kDnnHalf
                               : plimsoll::cuda::kDnnBf16;
}

// Descriptions for the library, and the way that it was told to take.
class Described {
 public:
  Described(const Sides& s, Direction direction, size_t most_workspace)
      : dnn_(*Runtime::current().dnn()), direction_(direction) {
    const bool last = s.x.is_channels_last();
    const int rank = s.x.shape.rank() == 5 ? 3 : 2;
    dnn_.check(dnn_.tensor_create(&x_), "cudnnCreateTensorDescriptor");
    dnn_.check(dnn_.tensor_create(&y_), "cudnnCreateTensorDescriptor");
    dnn_.check(dnn_.filter_create(&w_), "cudnnCreateFilterDescriptor");
    dnn_.check(dnn_.conv_create(&conv_), "cudnnCreateConvolutionDescriptor");
    set_tensor(x_, s.x, rank);
    set_tensor(y_, s.y, rank);
    set_filter(s, rank, last);
    set_window(s, rank);
    choose(s, most_workspace);
  }
  ~Described() {
    dnn_.tensor_destroy(x_);
    dnn_.tensor_destroy(y_);
    dnn_.filter_destroy(w_);
    dnn_.conv_destroy(conv_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;

  bool is_possible() const { return is_possible_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  void enqueue(std::byte* x, std::byte* w, std::byte* y, std::byte* workspace, device::Stream& stream) const {
    const float one = 1;
    const float zero = 0;
    const auto handle = Runtime::current().dnn_handle();
    dnn_.check(dnn_.set_stream(handle, static_cast<plimsoll::cuda::StreamHandle>(stream.native())), "cudnnSetStream");
    if (direction_ == Direction::forward) {
      dnn_.check(dnn_.forward(handle, &one, x_, x, w_, w, conv_, algo_, workspace, workspace_bytes_, &zero, y_, y),
                 "cudnnConvolutionForward");
    } else if (direction_ == Direction::data) {
      dnn_.check(
          dnn_.backward_data(handle, &one, w_, w, y_, y, conv_, algo_, workspace, workspace_bytes_, &zero, x_, x),
          "cudnnConvolutionBackwardData");
    } else {
      dnn_.check(
          dnn_.backward_filter(handle, &one, x_, x, y_, y, conv_, algo_, workspace, workspace_bytes_, &zero, w_, w),
          "cudnnConvolutionBackwardFilter");
    }
  }

 private:
  void set_tensor(plimsoll::cuda::DnnTensor tensor, const TensorDesc& of, int rank) const {
    const Lengths lengths(of);
    int sizes[5] = {static_cast<int>(of.shape[0]), static_cast<int>(of.shape[1])};
    int strides[5] = {static_cast<int>(lengths.stride[0]), static_cast<int>(lengths.stride[1])};
    for (int i = 0; i < rank; ++i) {
      sizes[2 + i] = static_cast<int>(lengths.size[3 - rank + i]);
      strides[2 + i] = static_cast<int>(lengths.stride[5 - rank + i]);
    }
    dnn_.check(dnn_.tensor_set(tensor, dnn_type(of.dtype), rank + 2, sizes, strides), "cudnnSetTensorNdDescriptor");
  }

  void set_filter(const Sides& s, int rank, bool last) const {
    int sizes[5] = {static_cast<int>(s.w.shape[0]), static_cast<int>(s.w.shape[1])};
    for (int i = 0; i < rank; ++i) sizes[2 + i] = static_cast<int>(s.window.kernel[3 - rank + i]);
    const int format = last ? plimsoll::cuda::kDnnNhwc : plimsoll::cuda::kDnnNchw;
    dnn_.check(dnn_.filter_set(w_, dnn_type(s.w.dtype), format, rank + 2, sizes), "cudnnSetFilterNdDescriptor");
  }

  void set_window(const Sides& s, int rank) const {
    int padding[3];
    int stride[3];
    int dilation[3];
    for (int i = 0; i < rank; ++i) {
      padding[i] = static_cast<int>(s.window.begin[3 - rank + i]);
      stride[i] = static_cast<int>(s.window.step[3 - rank + i]);
      dilation[i] = static_cast<int>(s.window.dilation[3 - rank + i]);
    }
    dnn_.check(dnn_.conv_set(conv_, rank, padding, stride, dilation, plimsoll::cuda::kDnnCrossCorrelation,
                             plimsoll::cuda::kDnnFloat),
               "cudnnSetConvolutionNdDescriptor");
    dnn_.check(dnn_.conv_set_groups(conv_, static_cast<int>(s.groups)), "cudnnSetConvolutionGroupCount");
    dnn_.check(dnn_.conv_set_math(conv_, math_of(s)), "cudnnSetConvolutionMathType");
  }

  static bool is_exact(const Sides& s) { return s.x.dtype == DType::f32 && !device::allows_tf32(); }
  static int math_of(const Sides& s) {
    return is_exact(s) ? plimsoll::cuda::kDnnFmaMath : plimsoll::cuda::kDnnTensorOpMath;
  }

  // The first of the library's proposals that gives the same bits in every run and stays within the workspace.
  void choose(const Sides& s, size_t most_workspace) {
    const auto handle = Runtime::current().dnn_handle();
    DnnAlgo proposals[16];
    int count = 0;
    int status = 0;
    if (direction_ == Direction::forward) {
      status = dnn_.forward_algos(handle, x_, w_, conv_, y_, 16, &count, proposals);
    } else if (direction_ == Direction::data) {
      status = dnn_.data_algos(handle, w_, y_, conv_, x_, 16, &count, proposals);
    } else {
      status = dnn_.filter_algos(handle, x_, y_, conv_, w_, 16, &count, proposals);
    }
    for (int i = 0; status == 0 && i < count; ++i) {
      const DnnAlgo& one = proposals[i];
      const bool fits =
          !is_exact(s) || one.math == plimsoll::cuda::kDnnFmaMath || one.math == plimsoll::cuda::kDnnDefaultMath;
      if (one.status != 0 || one.deterministic != 1 || !fits) continue;
      if (dnn_.conv_set_math(conv_, is_exact(s) ? math_of(s) : one.math) != 0) continue;
      size_t bytes = 0;
      if (workspace_of(handle, one.algo, bytes) != 0 || bytes > most_workspace) continue;
      algo_ = one.algo;
      workspace_bytes_ = bytes;
      is_possible_ = true;
      return;
    }
  }

  int workspace_of(plimsoll::cuda::DnnHandle handle, int algo, size_t& bytes) const {
    if (direction_ == Direction::forward) return dnn_.forward_workspace(handle, x_, w_, conv_, y_, algo, &bytes);
    if (direction_ == Direction::data) return dnn_.data_workspace(handle, w_, y_, conv_, x_, algo, &bytes);
    return dnn_.filter_workspace(handle, x_, y_, conv_, w_, algo, &bytes);
  }

  const Cudnn& dnn_;
  Direction direction_;
  plimsoll::cuda::DnnTensor x_ = nullptr;
  plimsoll::cuda::DnnTensor y_ = nullptr;
  plimsoll::cuda::DnnFilter w_ = nullptr;
  plimsoll::cuda::DnnConv conv_ = nullptr;
  int algo_ = 0;
  size_t workspace_bytes_ = 0;
  bool is_possible_ = false;
};

bool has_library() {
  if (plimsoll::cuda::card_on_paper() != nullptr) return true;
  return CompileOnly::architecture() == nullptr && Runtime::exists() && Runtime::current().dnn() != nullptr;
}

bool fits_library(const Sides& s) {
  if (!has_library()) return false;
  const DType dtype = s.x.dtype;
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) return false;
  // With channels last the library compiles each of these when it is first met, for seconds.
  if (s.x.is_channels_last() && s.groups > 1 && s.w.shape[1] == 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (s.window.begin[i] != s.window.end[i]) return false;
  }
  constexpr int64_t kMost = 1LL << 31;
  return s.x.elements() < kMost && s.y.elements() < kMost;
}

// What it is, for the records of cards.
std::string text_of(const Sides& s, Direction direction, size_t most_workspace) {
  const auto sizes = [](const Shape& shape) { return fmt::format("{}", fmt::join(shape.dims(), "x")); };
  const auto three = [](const int64_t(&numbers)[3]) { return fmt::format("{}", fmt::join(numbers, ",")); };
  constexpr std::string_view kDirections[] = {"forward", "data", "weights"};
  return fmt::format("{} {} {} {} step {} pad {} apart {} groups {}{} within {}",
                     kDirections[static_cast<size_t>(direction)],
                     s.x.dtype == DType::f32 && device::allows_tf32() ? "tf32" : name(s.x.dtype), sizes(s.x.shape),
                     sizes(s.w.shape), three(s.window.step), three(s.window.begin), three(s.window.dilation), s.groups,
                     s.x.is_channels_last() ? " channels last" : "", most_workspace >> 20);
}

// How the library would compute it: by a description on a real card, by the records of one on paper.
struct ByLibrary {
  std::shared_ptr<Described> described;
  int64_t workspace_bytes = -1;  // it cannot

  ByLibrary(const Sides& s, Direction direction, size_t most_workspace) {
    if (!fits_library(s)) return;
    const std::string text = text_of(s, direction, most_workspace);
    if (const plimsoll::cuda::Card* card = plimsoll::cuda::card_on_paper()) {
      workspace_bytes = card->workspace_of(text);
      return;
    }
    described = std::make_shared<Described>(s, direction, most_workspace);
    if (described->is_possible()) workspace_bytes = static_cast<int64_t>(described->workspace_bytes());
    plimsoll::cuda::Workspaces::note(text, workspace_bytes);
  }
  bool is_possible() const { return workspace_bytes >= 0; }
};

// [outputs, inputs, window] as it is in programs, and [outputs, window, inputs] as the library wants it beside channels
// that come last.
Walk filter_walk(const TensorDesc& w, bool last) {
  const int64_t outputs = w.shape[0];
  const int64_t inputs = w.shape[1];
  const int64_t window = w.elements() / std::max<int64_t>(outputs * inputs, 1);
  Walk walk;
  walk.add(outputs, inputs * window);
  walk.add(inputs, last ? 1 : window);
  walk.add(window, last ? inputs : 1);
  return walk;
}

// A side with channels last: itself, or scratch that it is brought to where it is read.
At side_with_channels_last(Steps& steps, const TensorDesc& side, At at, bool is_read) {
  if (side.is_channels_last()) return at;
  const At copy = steps.scratch(side.bytes());
  const int64_t channels = side.shape[1];
  if (is_read) {
    steps.launch(
        transpose_launch(side.dtype, at, copy, side.shape[0], channels, side.elements() / (side.shape[0] * channels)));
  }
  return copy;
}

// The weights as the library wants them beside channels that come last.
At filter_with_channels_last(Steps& steps, const TensorDesc& w, At at, bool is_read) {
  if (w.elements() == w.shape[0] * w.shape[1]) return at;
  const At copy = steps.scratch(w.bytes());
  if (is_read) steps.add(copy_step(w.dtype, at, filter_walk(w, false), copy, filter_walk(w, true)));
  return copy;
}

// To each channel of a result that lies as it says.
void add_bias(Steps& steps, const TensorDesc& result, At at, At bias) {
  const int64_t channels = result.shape[1];
  const int64_t plane = result.elements() / (result.shape[0] * channels);
  const TensorDesc flat = result.is_channels_last() ? contiguous(result.dtype, {result.shape[0] * plane, channels})
                                                    : contiguous(result.dtype, {result.shape[0], channels, plane});
  const TensorDesc added =
      result.is_channels_last() ? contiguous(result.dtype, {channels}) : contiguous(result.dtype, {channels, 1});
  steps.launch(element_launch({.value = "x0 + x1"}, {{at, flat}, {bias, added}}, flat, at, none()));
}

// Adds the steps for one side of the convolution from the others. `bias` has an element for each channel of the result.
void convolve(Steps& steps, const Sides& s, Direction direction, At x, At w, At y, At bias) {
  const auto limit = steps.call().least_scratch ? size_t{16} << 20 : kWorkspaceLimit;
  const bool last = s.x.is_channels_last() || s.y.is_channels_last();
  Sides inner = s;
  inner.x.layout = inner.y.layout = last ? Layout::channels_last : Layout::strided;
  const ByLibrary library(inner, direction, limit);
  if (!library.is_possible()) {
    steps.launch(plain_launch(s, direction, x, w, y, bias));
    return;
  }
  const At x_at = last ? side_with_channels_last(steps, s.x, x, direction != Direction::data) : x;
  const At y_at = last ? side_with_channels_last(steps, s.y, y, direction != Direction::forward) : y;
  const At w_at = last ? filter_with_channels_last(steps, s.w, w, direction != Direction::weights) : w;
  const At workspace = library.workspace_bytes > 0 ? steps.scratch(library.workspace_bytes) : none();
  steps.add([=, described = library.described](const Memory& memory) -> Task {
    return [described, a = address(x_at, memory), b = address(w_at, memory), c = address(y_at, memory),
            workspace = address(workspace, memory)](device::Stream& stream) {
      described->enqueue(a, b, c, workspace, stream);
    };
  });
  if (direction == Direction::weights) {
    if (last && w_at.where == At::Where::scratch) {
      steps.add(copy_step(s.w.dtype, w_at, filter_walk(s.w, true), w, filter_walk(s.w, false)));
    }
    return;
  }
  const bool forward = direction == Direction::forward;
  const TensorDesc& result = forward ? s.y : s.x;
  if (bias.where != At::Where::none) add_bias(steps, forward ? inner.y : inner.x, forward ? y_at : x_at, bias);
  if (!last || result.is_channels_last()) return;
  const int64_t channels = result.shape[1];
  steps.launch(transpose_launch(result.dtype, forward ? y_at : x_at, forward ? y : x, result.shape[0],
                                result.elements() / (result.shape[0] * channels), channels));
}

Sides sides_of(const KernelCall& call, const TensorDesc& x, const TensorDesc& w, const TensorDesc& y) {
  program::Dims kernel;
  for (int axis = 2; axis < w.shape.rank(); ++axis) kernel.push_back(w.shape[axis]);
  return {in_order(x), in_order(w), in_order(y), WindowLengths(program::window_of(call.op, kernel)),
          call.op.integer("groups")};
}

Kernel forward(const KernelCall& call) {
  Steps steps(call);
  const Sides s = sides_of(call, call.in(0), call.in(1), call.out());
  convolve(steps, s, Direction::forward, steps.contiguous(0), steps.contiguous(1), out(), steps.contiguous_or_none(2));
  return steps.kernel();
}

// conv_backward_data and conv_transpose: operands dy (x of the transposed one) and w.
Kernel backward_data(const KernelCall& call) {
  Steps steps(call);
  const Sides s = sides_of(call, call.out(), call.in(1), call.in(0));
  convolve(steps, s, Direction::data, out(), steps.contiguous(1), steps.contiguous(0), steps.contiguous_or_none(2));
  return steps.kernel();
}

Kernel backward_weights(const KernelCall& call) {
  Steps steps(call);
  const Sides s = sides_of(call, call.in(1), call.out(), call.in(0));
  convolve(steps, s, Direction::weights, steps.contiguous(1), out(), steps.contiguous(0), none());
  return steps.kernel();
}

// ---- bytes ----

Kernel conv_i8(const KernelCall& call) {
  Steps steps(call);
  const Sides s = sides_of(call, call.in(0), call.in(1), call.out());
  Launch launch{"conv"};
  launch.defines.set("FORWARD").set("T", s.x.dtype).set("W", s.w.dtype).set("OUT", s.y.dtype).set("B", DType::f32);
  launch.defines.set("SUM", "i32");
  launch.grid = {blocks_for(s.y.elements())};
  launch.arguments = Arguments(s.y.elements(), out(), steps.contiguous(0), steps.contiguous(1),
                               steps.contiguous_or_none(4), steps.contiguous(2), steps.contiguous(3), plain_of(s));
  steps.launch(launch);
  return steps.kernel();
}

Kernel linear_i8(const KernelCall& call) {
  Steps steps(call);
  const int64_t outs = call.in(1).shape[0];
  const int64_t ins = call.in(1).shape[1];
  const int64_t rows = call.out().elements() / std::max<int64_t>(outs, 1);
  Launch launch{"quantize"};
  launch.defines.set("LINEAR").set("T", call.in(0).dtype);
  launch.grid = {blocks_for(call.out().elements())};
  launch.arguments = Arguments(rows, ins, outs, out(), steps.contiguous(0), steps.contiguous(1), steps.contiguous(2),
                               steps.contiguous(3), steps.contiguous_or_none(4));
  steps.launch(launch);
  return steps.kernel();
}

Kernel quantize(const KernelCall& call) {
  Steps steps(call);
  const int64_t rows = call.out(1).elements();
  const bool is_signed = call.out(0).dtype == DType::i8;
  Launch launch{"quantize"};
  launch.defines.set("ROWS").set("OUT", call.out(0).dtype);
  launch.grid = {rows};
  launch.arguments = Arguments(call.in(0).elements() / std::max<int64_t>(rows, 1), steps.wanted(0), steps.wanted(1),
                               steps.contiguous(0), is_signed ? 127.0F : 255.0F, is_signed ? -127.0F : 0.0F);
  steps.launch(launch);
  return steps.kernel();
}

Blocking gains(std::vector<int> inputs, std::vector<int> outputs) {
  Blocking blocking = planes_together(std::move(inputs), std::move(outputs));
  blocking.rule = Blocking::Rule::each;
  blocking.gains = true;
  return blocking;
}

}  // namespace

void register_conv_cuda(KernelTable& table) {
  table.add("conv", {forward, any_layout, gains({0}, {0})});
  table.add("conv_transpose", {backward_data, any_layout});
  table.add("conv_backward_data", {backward_data, any_layout, gains({0}, {0})});
  table.add("conv_backward_weights", {backward_weights, any_layout, gains({0, 1}, {})});
  table.add("conv_i8", {conv_i8, any_layout});
  table.add("linear_i8", {linear_i8, any_layout});
  for (const char* op : {"quantize", "quantize_rows"}) table.add(op, {quantize, any_layout});
}

}  // namespace plimsoll::kernels
