#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/spec.h"

namespace plimsoll::cli {
namespace {

struct Options {
  std::string shape;
  std::string dtype = "f32";
  std::string alignment = "256";
  bool json = false;
};

void run(const Options& options) {
  const TensorSpec spec{parse_dtype(options.dtype), parse_shape(options.shape)};
  const int64_t alignment = parse_bytes(options.alignment);
  if (alignment < 1) throw ArgumentError("--align must be at least 1 byte");
  const int64_t bytes = spec.bytes();
  const int64_t padding = align_up(bytes, alignment) - bytes;
  if (options.json) {
    const nlohmann::ordered_json json = {{"shape", spec.shape.dims()},        {"dtype", name(spec.dtype)},
                                         {"elements", spec.shape.elements()}, {"bytes", bytes},
                                         {"padding_bytes", padding},          {"padded_bytes", bytes + padding}};
    print_json(json);
    return;
  }
  print("{}: {} elements of {} B\n", spec.text(), format_count(spec.shape.elements()), element_bytes(spec.dtype));
  print("  data     {:>20} bytes  {:>12}\n", format_count(bytes), format_bytes(bytes));
  print("  padding  {:>20} bytes  to a multiple of {}\n", format_count(padding), alignment);
  print("  placed   {:>20} bytes  {:>12}\n", format_count(bytes + padding), format_bytes(bytes + padding));
}

}  // namespace

void add_tensor(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("tensor", "Show the bytes of one tensor");
  verb.footer("Example: plimsoll tensor 10000x1000 --dtype f32");
  const auto options = std::make_shared<Options>();
  verb.add_option("SHAPE", options->shape, "Like 384x192, 384,192 or [384,192]").required();
  verb.add_option("--dtype", options->dtype, "f64 f32 f16 bf16 i8 u8 i16 i32 i64 bool").shows_default();
  verb.add_option("--align", options->alignment, "What the placed size is rounded up to").shows_default();
  verb.add_flag("--json", options->json, "Print JSON");
  verb.callback([options] { run(*options); });
}

}  // namespace plimsoll::cli
