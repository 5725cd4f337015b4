// P12: a loader that appends arrays to a list and converts them at the end. Its growth is named as a leak, with its
// place, long before memory is full; streamed, the same arrays take a few batches of memory, however many there are.
// Small here: 200 arrays of [100,100] f64, of which 80 kB each would stay.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "plimsoll/base/bytes.h"
#include "plimsoll/run/eager/host.h"
#include "plimsoll/run/eager/leak_watch.h"
#include "plimsoll/train/data/adaptors.h"
#include "plimsoll/train/data/pipeline.h"

namespace {

using namespace plimsoll;
namespace data = train::data;

constexpr int64_t kArrays = 200;
constexpr int64_t kSide = 100;
constexpr int64_t kArrayBytes = kSide * kSide * 8;

// As it is often written. The watch stops it after a few steps.
bool leak_is_named() {
  eager::Host host({16 * kMiB, "this example"});
  eager::LeakWatch watch(host.pool());
  std::vector<eager::Tensor> list;
  for (int64_t i = 0; i < kArrays; ++i) {
    list.push_back(host.context().empty({DType::f64, {kSide, kSide}}, "loader.append"));
    watch.step();
    const auto leaks = watch.leaks();
    if (leaks.empty()) continue;
    fmt::print("leak: {}\n", leaks[0].text());
    return i < 10 && leaks[0].place == "loader.append" && std::abs(leaks[0].bytes_per_step - kArrayBytes) < 512;
  }
  return false;
}

bool streamed_in_constant_memory() {
  const auto source = data::callback(kArrays, {{.name = "x", .spec = {DType::f64, {kSide, kSide}}}},
                                     [](int64_t index, uint64_t, data::SampleMemory into) {
                                       const auto value = static_cast<double>(index);
                                       for (int64_t k = 0; k < kSide * kSide; ++k) {
                                         std::memcpy(into[0].data() + k * 8, &value, 8);
                                       }
                                     });
  constexpr int64_t kMost = 8 * kArrayBytes * 3;
  data::Pipeline pipeline(source, {.batch = 8, .max_bytes = kMost});
  double sum = 0;
  while (const auto batch = pipeline.next()) {
    const auto bytes = batch->field(0);
    for (int64_t i = 0; i < batch->size(); ++i) {
      double first = 0;
      std::memcpy(&first, bytes.data() + i * kArrayBytes, 8);
      sum += first;
    }
  }
  fmt::print("streamed {} of arrays in {} at most\n", format_bytes(kArrays * kArrayBytes),
             format_bytes(pipeline.stats().peak_bytes));
  return sum == kArrays * (kArrays - 1) / 2 && pipeline.stats().peak_bytes <= kMost;
}

}  // namespace

int main() { return leak_is_named() && streamed_in_constant_memory() ? 0 : 1; }
