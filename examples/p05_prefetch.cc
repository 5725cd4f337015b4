// P5: a dataset in slices, batched and prefetched with automatic depth. The buffers stay within the bytes that the
// pipeline was given, and its depth follows the steps: it grows while they wait, and no further.
#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/train/data/adaptors.h"
#include "plimsoll/train/data/pipeline.h"

namespace {

using namespace plimsoll;
namespace data = train::data;

constexpr int64_t kSamples = 640;
constexpr int64_t kWidth = 256;
constexpr int64_t kBatch = 16;
constexpr int64_t kMost = 128 * kKiB;

data::SourcePtr slices(const std::vector<float>& table) {
  return data::arrays({{{.name = "x", .spec = {DType::f32, {kWidth}}}, std::as_bytes(std::span(table))}});
}

}  // namespace

int main() {
  std::vector<float> table(kSamples * kWidth);
  std::iota(table.begin(), table.end(), 0.0F);
  data::Pipeline pipeline(slices(table), {.batch = kBatch, .shuffle = true, .seed = 1, .max_bytes = kMost});
  double sum = 0;
  int64_t steps = 0;
  int64_t late_waits = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const auto batch = pipeline.next()) {
      const auto bytes = batch->field(0);
      const std::span values(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
      sum += std::accumulate(values.begin(), values.end(), 0.0);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the step, slower than reading
      if (++steps == 20) late_waits = -pipeline.stats().waits;
    }
  }
  const data::PipelineStats stats = pipeline.stats();
  late_waits += stats.waits;
  const auto elements = static_cast<double>(kSamples * kWidth);
  fmt::print("{} batches, {} of {} at most, {} waits, of which {} after the first 20 steps\n", stats.batches,
             format_bytes(stats.peak_bytes), format_bytes(kMost), stats.waits, late_waits);
  return stats.peak_bytes <= kMost && sum == 3 * elements * (elements - 1) / 2 && late_waits <= steps / 10 ? 0 : 1;
}
