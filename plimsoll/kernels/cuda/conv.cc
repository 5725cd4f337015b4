// Convolutions: cuDNN's where it is installed and can, a thread for each result otherwise.
#include <algorithm>

#include "plimsoll/kernels/cuda/support/dnn_conv.h"
#include "plimsoll/kernels/cuda/support/elements.h"

namespace plimsoll::kernels {
namespace {

using namespace cuda;  // NOLINT: the whole file is of it

// ---- without the library ----

// As conv.cuh has it.
struct Plain {
  int64_t size[3], windows[3], kernel[3], step[3], dilation[3], begin[3];
  int64_t x_stride[5], y_stride[5];
  int64_t samples, inputs, outputs, groups, of_group;
};

Plain plain_of(const ConvSides& s) {
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

Launch plain_launch(const ConvSides& s, Direction direction, At x, At w, At y, At bias) {
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

// What the gradient of the first weights of ResNet-50 takes in tf32, when most of a step's memory is free again.
constexpr int64_t kWorkspaceLimit = int64_t{1} << 30;

// [outputs, inputs, window] as it is in programs, and [outputs, window, inputs] as the library wants it beside channels
// that come last, of which there may be more, `wide`.
Walk filter_walk(const TensorDesc& w, bool last, int64_t wide = 0) {
  const int64_t outputs = w.shape[0];
  const int64_t inputs = w.shape[1];
  const int64_t window = w.elements() / std::max<int64_t>(outputs * inputs, 1);
  const int64_t apart = std::max(inputs, wide);
  Walk walk;
  walk.add(outputs, apart * window);
  walk.add(inputs, last ? 1 : window);
  walk.add(window, last ? apart : 1);
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

// How a convolution is given to the library: sides with channels last where one of them is.
class ByLibrary {
 public:
  ByLibrary(Steps& steps, const ConvSides& s, Direction direction)
      : steps_(steps),
        s_(s),
        direction_(direction),
        last_(s.x.is_channels_last() || s.y.is_channels_last()),
        inner_(s) {
    inner_.x.layout = inner_.y.layout = last_ ? Layout::channels_last : Layout::strided;
    if (last_ && s.groups == 1) widen(s.w.shape[1]);
  }

  const ConvSides& inner() const { return inner_; }

  // Operands are brought to where the library reads them, results from where it writes them.
  void add(const DnnConv& library, At x, At w, At y, At bias) {
    const At x_at = widened_ ? x_widened(x) : side(s_.x, x, direction_ != Direction::data);
    const At y_at = side(s_.y, y, direction_ != Direction::forward);
    const At w_at = filter(w);
    const At workspace = library.workspace_bytes() > 0 ? steps_.scratch(library.workspace_bytes()) : none();
    steps_.add([=](const Memory& memory) -> Task {
      return library.bind(address(x_at, memory), address(w_at, memory), address(y_at, memory),
                          address(workspace, memory));
    });
    if (direction_ == Direction::weights) {
      if (w_at.where == At::Where::scratch) {
        steps_.add(
            copy_step(s_.w.dtype, w_at, filter_walk(s_.w, true, inner_.w.shape[1]), w, filter_walk(s_.w, false)));
      }
      return;
    }
    const bool forward = direction_ == Direction::forward;
    const At at = forward ? y_at : x_at;
    if (bias.where != At::Where::none) add_bias(steps_, forward ? inner_.y : inner_.x, at, bias);
    const TensorDesc& result = forward ? s_.y : s_.x;
    if (!last_ || result.is_channels_last()) return;
    const int64_t channels = result.shape[1];
    steps_.launch(transpose_launch(result.dtype, at, forward ? y : x, result.shape[0],
                                   result.elements() / (result.shape[0] * channels), channels));
  }

 private:
  // Few channels, as of pictures, are made whole vectors of 16 bytes by zeros: the library is slow without, or wants
  // gigabytes of workspace to do the same.
  void widen(int64_t channels) {
    const int64_t unit = 16 / element_bytes(s_.x.dtype);
    if (direction_ == Direction::data || s_.x.is_channels_last() || channels >= unit) return;
    widened_ = true;
    inner_.x.shape = with_channels(s_.x.shape, unit);
    inner_.w.shape = with_channels(s_.w.shape, unit);
    inner_.x.strides = inner_.w.strides = {};
  }

  static Shape with_channels(const Shape& shape, int64_t channels) {
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims[1] = channels;
    return Shape(std::span<const int64_t>(dims));
  }

  At x_widened(At x) {
    const int64_t channels = s_.x.shape[1];
    const int64_t plane = s_.x.elements() / (s_.x.shape[0] * channels);
    const At copy = steps_.scratch(inner_.x.bytes());
    Launch launch{"widen"};
    launch.defines.set("UNIT", unit_of(s_.x.dtype));
    launch.grid = {blocks_for(plane), s_.x.shape[0]};
    launch.arguments = Arguments(channels, plane, copy, x);
    steps_.launch(launch);
    return copy;
  }

  At side(const TensorDesc& given, At at, bool is_read) {
    return last_ ? side_with_channels_last(steps_, given, at, is_read) : at;
  }

  At filter(At w) {
    const bool is_read = direction_ != Direction::weights;
    const bool is_plain = !widened_ && (!last_ || s_.w.elements() == s_.w.shape[0] * s_.w.shape[1]);
    if (is_plain) return w;
    const At copy = steps_.scratch(inner_.w.bytes());
    if (is_read && widened_) steps_.add(fill_bytes(copy, 0, inner_.w.bytes()));
    if (is_read) {
      steps_.add(copy_step(s_.w.dtype, w, filter_walk(s_.w, false), copy, filter_walk(s_.w, true, inner_.w.shape[1])));
    }
    return copy;
  }

  Steps& steps_;
  const ConvSides& s_;
  Direction direction_;
  bool last_;
  bool widened_ = false;
  ConvSides inner_;
};

// Adds the steps for one side of the convolution from the others. `bias` has an element for each channel of the result.
void convolve(Steps& steps, const ConvSides& s, Direction direction, At x, At w, At y, At bias) {
  const int64_t limit = steps.call().least_scratch ? int64_t{16} << 20 : kWorkspaceLimit;
  ByLibrary way(steps, s, direction);
  const DnnConv library(way.inner(), direction, limit);
  if (library.is_possible()) {
    way.add(library, x, w, y, bias);
  } else {
    steps.launch(plain_launch(s, direction, x, w, y, bias));
  }
}

ConvSides sides_of(const KernelCall& call, const TensorDesc& x, const TensorDesc& w, const TensorDesc& y) {
  program::Dims kernel;
  for (int axis = 2; axis < w.shape.rank(); ++axis) kernel.push_back(w.shape[axis]);
  return {in_order(x), in_order(w), in_order(y), WindowLengths(program::window_of(call.op, kernel)),
          call.op.integer("groups")};
}

Kernel forward(const KernelCall& call) {
  Steps steps(call);
  const ConvSides s = sides_of(call, call.in(0), call.in(1), call.out());
  convolve(steps, s, Direction::forward, steps.contiguous(0), steps.contiguous(1), out(), steps.contiguous_or_none(2));
  return steps.kernel();
}

// conv_backward_data and conv_transpose: operands dy (x of the transposed one) and w.
Kernel backward_data(const KernelCall& call) {
  Steps steps(call);
  const ConvSides s = sides_of(call, call.out(), call.in(1), call.in(0));
  convolve(steps, s, Direction::data, out(), steps.contiguous(1), steps.contiguous(0), steps.contiguous_or_none(2));
  return steps.kernel();
}

Kernel backward_weights(const KernelCall& call) {
  Steps steps(call);
  const ConvSides s = sides_of(call, call.in(1), call.out(), call.in(0));
  convolve(steps, s, Direction::weights, steps.contiguous(1), out(), steps.contiguous(0), none());
  return steps.kernel();
}

// ---- bytes ----

Kernel conv_i8(const KernelCall& call) {
  Steps steps(call);
  const ConvSides s = sides_of(call, call.in(0), call.in(1), call.out());
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
