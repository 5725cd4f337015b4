#include "plimsoll/kernels/cuda/support/dnn_conv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "plimsoll/device/cuda/cards.h"
#include "plimsoll/device/cuda/runtime.h"
#include "plimsoll/device/device.h"

namespace plimsoll::kernels::cuda {
namespace {

namespace dnn = plimsoll::cuda::dnn;
using plimsoll::cuda::Cudnn;
using plimsoll::cuda::DnnDescriptor;
using plimsoll::cuda::Runtime;

constexpr int kMostProposals = 16;
constexpr int64_t kNames[] = {'x', 'w', 'y'};

int dnn_type(DType dtype) { return dtype == DType::f32 ? dnn::kFloat : dtype == DType::f16 ? dnn::kHalf : dnn::kBf16; }

// f32 as it says, not rounded to tf32.
bool is_exact(const ConvSides& s) { return s.x.dtype == DType::f32 && !device::allows_tf32(); }

// Descriptors of the library, destroyed together.
class Descriptors {
 public:
  explicit Descriptors(const Cudnn& library) : dnn_(library) {}
  ~Descriptors() {
    for (auto one = made_.rbegin(); one != made_.rend(); ++one) dnn_.destroy_descriptor(*one);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  DnnDescriptor make(int kind) {
    DnnDescriptor made = nullptr;
    dnn_.check(dnn_.create_descriptor(kind, &made), "cudnnBackendCreateDescriptor");
    made_.push_back(made);
    return made;
  }
  void set(DnnDescriptor of, int name, int type, int64_t count, const void* values) const {
    dnn_.check(dnn_.set_attribute(of, name, type, count, values), "cudnnBackendSetAttribute");
  }
  void set(DnnDescriptor of, int name, const std::vector<int64_t>& values) const {
    set(of, name, dnn::kTypeInt64, static_cast<int64_t>(values.size()), values.data());
  }
  void set(DnnDescriptor of, int name, DnnDescriptor value) const { set(of, name, dnn::kTypeDescriptor, 1, &value); }
  bool finalize(DnnDescriptor one) const { return dnn_.finalize(one) == 0; }

 protected:
  const Cudnn& dnn_;

 private:
  std::vector<DnnDescriptor> made_;
};

}  // namespace

// A convolution as a graph of one operation, and the plan to compute it.
class DnnConv::Graph : public Descriptors {
 public:
  Graph(const ConvSides& s, Direction direction, int64_t most_workspace)
      : Descriptors(*Runtime::current().dnn()), rank_(s.x.shape.rank() == 5 ? 3 : 2) {
    const DnnDescriptor graph = make_graph(s, direction);
    if (graph == nullptr) return;
    for (const int mode : {dnn::kHeuristicsA, dnn::kHeuristicsFallback}) {
      if (choose(graph, mode, is_exact(s), most_workspace)) return;
    }
  }

  int64_t workspace_bytes() const { return workspace_bytes_; }

  DnnDescriptor pack(std::byte* x, std::byte* w, std::byte* y, std::byte* workspace) {
    const DnnDescriptor made = make(dnn::kVariantPack);
    void* const places[] = {x, w, y};
    set(made, dnn::kPackIds, dnn::kTypeInt64, 3, kNames);
    set(made, dnn::kPackPointers, dnn::kTypePointer, 3, places);
    set(made, dnn::kPackWorkspace, dnn::kTypePointer, 1, &workspace);
    dnn_.check(dnn_.finalize(made), "addresses of a convolution");
    return made;
  }
  void enqueue(DnnDescriptor pack, device::Stream& stream) const {
    const auto handle = Runtime::current().dnn_handle();
    dnn_.check(dnn_.set_stream(handle, static_cast<plimsoll::cuda::StreamHandle>(stream.native())), "cudnnSetStream");
    dnn_.check(dnn_.execute(handle, plan_, pack), "cudnnBackendExecute");
  }

 private:
  // Samples of a batch may begin anywhere that whole ones end; all else is on boundaries of vectors.
  static int64_t alignment_of(const TensorDesc& tensor) {
    const int64_t sample = tensor.bytes() / std::max<int64_t>(tensor.shape[0], 1);
    return tensor.is_channels_last() || sample % 16 == 0 ? 16 : element_bytes(tensor.dtype);
  }

  DnnDescriptor make_tensor(const TensorDesc& of, int64_t name, int64_t alignment) {
    const Lengths lengths(of);
    std::vector<int64_t> sizes = {of.shape[0], of.shape[1]};
    std::vector<int64_t> strides = {lengths.stride[0], lengths.stride[1]};
    sizes.insert(sizes.end(), lengths.size + 3 - rank_, lengths.size + 3);
    strides.insert(strides.end(), lengths.stride + 5 - rank_, lengths.stride + 5);
    const DnnDescriptor made = make(dnn::kTensor);
    const int type = dnn_type(of.dtype);
    set(made, dnn::kTensorType, dnn::kTypeDataType, 1, &type);
    set(made, dnn::kTensorSizes, sizes);
    set(made, dnn::kTensorStrides, strides);
    set(made, dnn::kTensorName, {name});
    set(made, dnn::kTensorAlignment, {alignment});
    return finalize(made) ? made : nullptr;
  }

  DnnDescriptor make_window(const WindowLengths& window) {
    const auto last = [&](const int64_t(&numbers)[3]) {
      return std::vector<int64_t>(numbers + 3 - rank_, numbers + 3);
    };
    const DnnDescriptor made = make(dnn::kConvolution);
    const int compute = dnn::kFloat;
    const int mode = dnn::kCrossCorrelation;
    set(made, dnn::kConvolutionCompute, dnn::kTypeDataType, 1, &compute);
    set(made, dnn::kConvolutionMode, dnn::kTypeConvolutionMode, 1, &mode);
    set(made, dnn::kConvolutionRank, {rank_});
    set(made, dnn::kConvolutionBegin, last(window.begin));
    set(made, dnn::kConvolutionEnd, last(window.end));
    set(made, dnn::kConvolutionStride, last(window.step));
    set(made, dnn::kConvolutionDilation, last(window.dilation));
    return finalize(made) ? made : nullptr;
  }

  // Null where the library refuses it.
  DnnDescriptor make_graph(const ConvSides& s, Direction direction) {
    TensorDesc w = s.w;
    w.layout = s.x.layout;
    const DnnDescriptor sides[] = {make_tensor(s.x, kNames[0], alignment_of(s.x)), make_tensor(w, kNames[1], 16),
                                   make_tensor(s.y, kNames[2], alignment_of(s.y))};
    const DnnDescriptor window = make_window(s.window);
    if (sides[0] == nullptr || sides[1] == nullptr || sides[2] == nullptr || window == nullptr) return nullptr;
    const dnn::ConvolutionNames& names = dnn::kConvolutions[static_cast<size_t>(direction)];
    const DnnDescriptor operation = make(names.operation);
    const float one = 1;
    const float zero = 0;
    set(operation, names.x, sides[0]);
    set(operation, names.w, sides[1]);
    set(operation, names.y, sides[2]);
    set(operation, names.window, window);
    set(operation, names.alpha, dnn::kTypeFloat, 1, &one);
    set(operation, names.beta, dnn::kTypeFloat, 1, &zero);
    if (!finalize(operation)) return nullptr;
    const DnnDescriptor graph = make(dnn::kGraph);
    const auto handle = Runtime::current().dnn_handle();
    set(graph, dnn::kGraphOperations, operation);
    set(graph, dnn::kGraphHandle, dnn::kTypeHandle, 1, &handle);
    return finalize(graph) ? graph : nullptr;
  }

  std::vector<DnnDescriptor> proposals(DnnDescriptor graph, int mode) {
    const DnnDescriptor heuristics = make(dnn::kHeuristics);
    set(heuristics, dnn::kHeuristicsGraph, graph);
    set(heuristics, dnn::kHeuristicsMode, dnn::kTypeHeuristicsMode, 1, &mode);
    if (!finalize(heuristics)) return {};
    std::vector<DnnDescriptor> found(kMostProposals);
    for (DnnDescriptor& one : found) one = make(dnn::kEngineConfig);
    int64_t count = 0;
    dnn_.get_attribute(heuristics, dnn::kHeuristicsResults, dnn::kTypeDescriptor, kMostProposals, &count, found.data());
    found.resize(static_cast<size_t>(std::clamp<int64_t>(count, 0, kMostProposals)));
    return found;
  }

  bool suits(DnnDescriptor config, bool exact) {
    DnnDescriptor engine = make(dnn::kEngine);
    int64_t count = 0;
    if (dnn_.get_attribute(config, dnn::kConfigEngine, dnn::kTypeDescriptor, 1, &count, &engine) != 0) return false;
    int notes[16] = {};
    count = 0;
    if (dnn_.get_attribute(engine, dnn::kEngineNotes, dnn::kTypeNote, 16, &count, notes) != 0) return false;
    const auto has = [&](int note) { return std::find(notes, notes + count, note) != notes + count; };
    if (has(dnn::kNoteNondeterministic) || has(dnn::kNoteReducedReduction)) return false;
    return !exact ||
           !(has(dnn::kNoteTensorCore) || has(dnn::kNoteDownConverts) || has(dnn::kNoteFft) || has(dnn::kNoteWinograd));
  }

  bool choose(DnnDescriptor graph, int mode, bool exact, int64_t most_workspace) {
    const auto handle = Runtime::current().dnn_handle();
    for (const DnnDescriptor config : proposals(graph, mode)) {
      if (!suits(config, exact)) continue;
      const DnnDescriptor plan = make(dnn::kPlan);
      set(plan, dnn::kPlanHandle, dnn::kTypeHandle, 1, &handle);
      set(plan, dnn::kPlanConfig, config);
      if (!finalize(plan)) continue;
      int64_t bytes = 0;
      int64_t count = 0;
      const int status = dnn_.get_attribute(plan, dnn::kPlanWorkspace, dnn::kTypeInt64, 1, &count, &bytes);
      if (status != 0 || bytes > most_workspace) continue;
      plan_ = plan;
      workspace_bytes_ = bytes;
      return true;
    }
    return false;
  }

  int rank_;
  DnnDescriptor plan_ = nullptr;
  int64_t workspace_bytes_ = -1;
};

namespace {

bool has_library() {
  if (plimsoll::cuda::card_on_paper() != nullptr) return true;
  return CompileOnly::architecture() == nullptr && Runtime::exists() && Runtime::current().dnn() != nullptr;
}

bool fits_library(const ConvSides& s) {
  if (!has_library()) return false;
  const DType dtype = s.x.dtype;
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) return false;
  // With channels last the library compiles each of these when it is first met, for seconds.
  if (s.x.is_channels_last() && s.groups > 1 && s.w.shape[1] == 1) return false;
  constexpr int64_t kMost = 1LL << 31;
  return s.x.elements() < kMost && s.y.elements() < kMost;
}

// What it is, for the records of cards.
std::string text_of(const ConvSides& s, Direction direction, int64_t most_workspace) {
  const auto sizes = [](const Shape& shape) { return fmt::format("{}", fmt::join(shape.dims(), "x")); };
  const auto three = [](const int64_t(&numbers)[3]) { return fmt::format("{}", fmt::join(numbers, ",")); };
  constexpr std::string_view kDirections[] = {"forward", "data", "weights"};
  return fmt::format(
      "{} {} {} {} step {} pad {}{} apart {} groups {}{} within {}", kDirections[static_cast<size_t>(direction)],
      s.x.dtype == DType::f32 && device::allows_tf32() ? "tf32" : name(s.x.dtype), sizes(s.x.shape), sizes(s.w.shape),
      three(s.window.step), three(s.window.begin),
      std::equal(s.window.begin, s.window.begin + 3, s.window.end) ? "" : " to " + three(s.window.end),
      three(s.window.dilation), s.groups, s.x.is_channels_last() ? " channels last" : "", most_workspace >> 20);
}

}  // namespace

DnnConv::DnnConv(const ConvSides& s, Direction direction, int64_t most_workspace) {
  if (!fits_library(s)) return;
  const std::string text = text_of(s, direction, most_workspace);
  if (const plimsoll::cuda::Card* card = plimsoll::cuda::card_on_paper()) {
    workspace_bytes_ = card->workspace_of(text);
    return;
  }
  graph_ = std::make_shared<Graph>(s, direction, most_workspace);
  workspace_bytes_ = graph_->workspace_bytes();
  plimsoll::cuda::Workspaces::note(text, workspace_bytes_);
}

Task DnnConv::bind(std::byte* x, std::byte* w, std::byte* y, std::byte* workspace) const {
  return [graph = graph_, pack = graph_->pack(x, w, y, workspace)](device::Stream& stream) {
    graph->enqueue(pack, stream);
  };
}

}  // namespace plimsoll::kernels::cuda
