// P15: quantization to i8 and pruning of the convolutional net, here of its slim form (P14), which takes a moment:
// bytes and error side by side. Zeros alone save nothing; bytes take a quarter; channels that are gone save bytes and
// time. On the command line, of the wide one: `plimsoll compress p13 --batch 4 --quantize i8 --prune 0.3 --structured`.
#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/models/zoo/zoo.h"
#include "plimsoll/train/compress.h"

namespace {

using namespace plimsoll;

train::Compression compress(const train::CompressOptions& options) {
  const models::StepOptions step = {.training = false, .sizes = {{"batch", 1}}};
  return train::compress(models::find_model("p14"), step, {}, nullptr, options);
}

void print(std::string_view what, const train::Compression& done) {
  fmt::print("{:<22} weights {:>10} to {:>10}, peak {:>10} to {:>10}, {:.2g} % off\n", what,
             format_count(done.before.weight_bytes), format_count(done.after.weight_bytes),
             format_count(done.before.arena_bytes), format_count(done.after.arena_bytes), 100 * done.relative_error);
}

}  // namespace

int main() {
  const auto bytes = compress({.bits = 8});
  const auto zeros = compress({.prune = 0.3});
  const auto channels = compress({.prune = 0.3, .structured = true});
  print("i8", bytes);
  print("30 % zeros", zeros);
  print("30 % of the channels", channels);
  const bool zeros_save_nothing = zeros.after.arena_bytes == zeros.before.arena_bytes;
  const bool channels_save = channels.after.weight_bytes < channels.before.weight_bytes &&
                             channels.after.arena_bytes < channels.before.arena_bytes;
  const bool bytes_save = 3 * bytes.after.weight_bytes < bytes.before.weight_bytes && bytes.relative_error < 0.05;
  return bytes_save && zeros_save_nothing && channels_save ? 0 : 1;
}
