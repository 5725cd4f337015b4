#include "split_sums.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace plimsoll::simcuda {
namespace {

// Attributes and types of cudnn_graph.h.
enum { kInt64 = 3, kDescriptor = 15 };
enum {
  kTensorType = 901,
  kTensorDimensions = 902,
  kGraphOperations = 801,
  kHeuristicsGraph = 201,
  kPlanConfiguration = 401
};

struct Noted {
  std::vector<int64_t> dimensions;
  int data_type = 0;
  std::map<int, Descriptor> parts;
};

std::mutex mutex;
std::unordered_map<Descriptor, Noted> noted;
std::unordered_map<Descriptor, Descriptor> graph_of_configuration;

const Noted* find(Descriptor descriptor) {
  const auto found = noted.find(descriptor);
  return found == noted.end() ? nullptr : &found->second;
}

Descriptor part_of(Descriptor descriptor, int name) {
  const Noted* const of = find(descriptor);
  if (of == nullptr) return nullptr;
  const auto found = of->parts.find(name);
  return found == of->parts.end() ? nullptr : found->second;
}

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t product(const std::vector<int64_t>& dimensions, size_t from) {
  int64_t result = 1;
  for (size_t i = from; i < dimensions.size(); ++i) result *= dimensions[i];
  return result;
}

// A convolution as a product of matrices: rows x columns of sums over `depth`; columns are repeated for each tap of a
// filter's gradient, and so is depth in the other directions.
struct Product {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t column_repeats = 1;
  int64_t depth = 0;
  int64_t depth_repeats = 1;
  int64_t element_bytes = 4;
  std::array<int64_t, 3> tensor_bytes = {};  // of x, w and y, which may be copied to another layout
};

// One of a convolution's directions: attributes of its tensors, and the engines that split it, for f32 and 16 bits.
struct Direction {
  int w, x, y;
  int64_t engine, engine_16;
};
constexpr Direction kForward = {703, 704, 705, 67, 62};
constexpr Direction kBackwardData = {709, 710, 711, 71, 67};
constexpr Direction kBackwardFilter = {715, 716, 717, 68, 65};

std::optional<Product> product_of(Descriptor operation, const Direction& direction) {
  const Noted* const w = find(part_of(operation, direction.w));
  const Noted* const x = find(part_of(operation, direction.x));
  const Noted* const y = find(part_of(operation, direction.y));
  if (w == nullptr || x == nullptr || y == nullptr || x->dimensions.size() < 3) return std::nullopt;
  if (x->dimensions[1] != w->dimensions[1]) return std::nullopt;  // groups
  const int64_t taps = product(w->dimensions, 2);
  const int64_t outputs = y->dimensions[0] * product(y->dimensions, 2);
  const int64_t inputs = x->dimensions[0] * product(x->dimensions, 2);
  const int64_t element = x->data_type == 0 ? 4 : 2;
  const std::array<int64_t, 3> bytes = {product(x->dimensions, 0) * element, product(w->dimensions, 0) * element,
                                        product(y->dimensions, 0) * element};
  const int64_t k = w->dimensions[0], c = w->dimensions[1];
  if (direction.w == kForward.w) return Product{outputs, k, 1, c, taps, element, bytes};
  if (direction.w == kBackwardData.w) return Product{inputs, c, 1, k, taps, element, bytes};
  return Product{k, c, taps, outputs, 1, element, bytes};
}

// None for what an engine does otherwise.
std::optional<Product> splitting_product(Descriptor operation, int64_t engine) {
  for (const Direction& direction : {kForward, kBackwardData, kBackwardFilter}) {
    const std::optional<Product> p = product_of(operation, direction);
    if (p && engine == (p->element_bytes == 4 ? direction.engine : direction.engine_16)) return p;
  }
  return std::nullopt;
}

struct Tile {
  int64_t rows, columns;
};
// By cuDNN's number of them; rows 0: not known.
constexpr Tile kTiles[] = {{128, 128}, {128, 64}, {0, 0},    {256, 128}, {256, 64},
                           {64, 64},   {0, 0},    {64, 128}, {0, 0},     {64, 256}};

// Multiprocessors that work at a time in clusters of `cluster`: they may not cross the groups of 18 that share a part
// of the chip. Measured where the groups are not full.
int64_t usable(int64_t multiprocessors, int64_t cluster) {
  if (multiprocessors == 132) {
    constexpr std::array<int64_t, 9> kMeasured = {0, 132, 132, 117, 120, 110, 0, 105, 120};
    if (cluster < static_cast<int64_t>(kMeasured.size()) && kMeasured[static_cast<size_t>(cluster)] > 0) {
      return kMeasured[static_cast<size_t>(cluster)];
    }
  }
  const int64_t rest = multiprocessors % 18;
  return multiprocessors / 18 * (18 - 18 % cluster) + (rest - rest % cluster);
}

// Steps, each over 128 bytes of depth, that a part has at the least. An approximation: cuDNN weighs more than this.
int64_t least_steps(int64_t steps, bool one_wave, int64_t element_bytes) {
  if (element_bytes != 4) return 32;
  if (one_wave) return steps < 128 ? 18 : 32;
  return steps <= 32 ? 8 : 5;
}

constexpr int64_t kMostParts = 128;

int64_t split_tiles(const Product& p, const Tile& tile, const EngineChoice& choice, int64_t multiprocessors) {
  const auto rounded = [](int64_t tiles, int64_t cluster) { return divided_up(tiles, cluster) * cluster; };
  const int64_t tiles = rounded(divided_up(p.rows, tile.rows), choice.cluster_rows) *
                        rounded(divided_up(p.columns, tile.columns) * p.column_repeats, choice.cluster_columns);
  const int64_t at_once = usable(multiprocessors, choice.cluster_rows * choice.cluster_columns);
  const int64_t last = at_once > 0 ? tiles % at_once : 0;
  if (last == 0) return 0;
  const int64_t steps = divided_up(p.depth, 128 / p.element_bytes) * p.depth_repeats;
  const int64_t parts =
      std::min({at_once / last, steps / least_steps(steps, tiles < at_once, p.element_bytes), kMostParts});
  return parts >= 2 ? last * parts : 0;
}

constexpr int kUnknownDevice = 18;  // multiprocessors that cuDNN counts with where it sees no device

// The tiles that cuDNN has counted in a workspace: what is over the copies of tensors, if it is whole tiles and the few
// hundred bytes that go with them.
int64_t counted_tiles(int64_t workspace, const Product& p, int64_t tile_bytes) {
  constexpr int64_t kMostBeside = 4096;
  int64_t copies = -1;
  for (unsigned subset = 0; subset < 8; ++subset) {
    int64_t sum = 0;
    for (size_t i = 0; i < p.tensor_bytes.size(); ++i) sum += (subset >> i & 1) != 0 ? p.tensor_bytes[i] : 0;
    const int64_t rest = workspace - sum;
    if (rest >= 0 && rest / tile_bytes <= kUnknownDevice && rest % tile_bytes < kMostBeside)
      copies = std::max(copies, sum);
  }
  return copies < 0 ? -1 : (workspace - copies) / tile_bytes;
}

}  // namespace

void note_attribute(Descriptor descriptor, int name, int type, int64_t count, const void* values) {
  const std::lock_guard lock(mutex);
  if (name == kTensorDimensions && type == kInt64) {
    const auto* const dimensions = static_cast<const int64_t*>(values);
    noted[descriptor].dimensions.assign(dimensions, dimensions + count);
  } else if (name == kTensorType) {
    noted[descriptor].data_type = *static_cast<const int*>(values);
  } else if (type == kDescriptor && count > 0) {
    // Of a graph with several operations (a convolution with a bias) the first is the convolution, if any.
    noted[descriptor].parts[name] = *static_cast<const Descriptor*>(values);
  }
}

void note_configurations(Descriptor heuristics, int64_t count, const Descriptor* configurations) {
  const std::lock_guard lock(mutex);
  const Descriptor graph = part_of(heuristics, kHeuristicsGraph);
  for (int64_t i = 0; i < count; ++i) graph_of_configuration[configurations[i]] = graph;
}

void forget_descriptor(Descriptor descriptor) {
  const std::lock_guard lock(mutex);
  graph_of_configuration.erase(descriptor);
}

int64_t missing_workspace(Descriptor plan, int64_t workspace, int multiprocessors,
                          const std::function<EngineChoice(Descriptor)>& choose) {
  const std::lock_guard lock(mutex);
  const Descriptor configuration = part_of(plan, kPlanConfiguration);
  const auto graph = graph_of_configuration.find(configuration);
  if (graph == graph_of_configuration.end()) return 0;
  const EngineChoice choice = choose(configuration);
  if (choice.kernel != 0 || choice.tile < 0 || choice.tile >= std::ssize(kTiles)) return 0;
  const Tile tile = kTiles[choice.tile];
  if (tile.rows == 0) return 0;
  const std::optional<Product> p = splitting_product(part_of(graph->second, kGraphOperations), choice.engine);
  if (!p) return 0;
  const int64_t tile_bytes = tile.rows * tile.columns * 4;
  const int64_t counted = counted_tiles(workspace, *p, tile_bytes);
  return counted < 0 ? 0 : (split_tiles(*p, tile, choice, multiprocessors) - counted) * tile_bytes;
}

}  // namespace plimsoll::simcuda
