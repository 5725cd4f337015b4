#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/verbs.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/models/weights/safetensors.h"
#include "plimsoll/train/checkpoint_folder.h"

namespace plimsoll::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
};

// A file, its index, or a folder of checkpoints.
struct Inspected {
  std::string path;
  models::StoredTensors tensors;
  models::StoredTexts texts;
};

Inspected inspect(const std::string& path) {
  if (path.ends_with(".json")) return {path, models::read_safetensors(path), {}};
  Inspected found{path, {}, {}};
  if (std::filesystem::is_directory(path)) {
    const auto newest = train::newest_checkpoint(path);
    if (!newest) throw InputError({.source = path}, "a folder without checkpoints", "a .safetensors file");
    found.path = *newest;
  }
  models::StoredFile file = models::read_stored_file(found.path);
  found.tensors = std::move(file.tensors);
  found.texts = std::move(file.texts);
  return found;
}

// In the order of their bytes in the file.
std::vector<const models::StoredTensor*> in_order(const models::StoredTensors& tensors) {
  std::vector<const models::StoredTensor*> ordered;
  for (const auto& [name, tensor] : tensors) ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto* one, const auto* other) {
    if (one->file->path() != other->file->path()) return one->file->path() < other->file->path();
    return one->bytes.data() < other->bytes.data();
  });
  return ordered;
}

int64_t all_bytes(const models::StoredTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

void print_as_json(const Inspected& found) {
  nlohmann::ordered_json json = {{"path", found.path}, {"tensor_bytes", all_bytes(found.tensors)}};
  json["texts"] = found.texts;
  json["tensors"] = nlohmann::ordered_json::array();
  for (const models::StoredTensor* tensor : in_order(found.tensors)) {
    const std::vector<int64_t> dims(tensor->shape.dims().begin(), tensor->shape.dims().end());
    json["tensors"].push_back(
        {{"name", tensor->name}, {"dtype", tensor->dtype}, {"shape", dims}, {"bytes", tensor->bytes.size()}});
  }
  cli::print_json(json);
}

// Control bytes of a name from a file are shown as they are written.
std::string shown(const std::string& name) {
  const std::string quoted = quote(name);
  return quoted == fmt::format("'{}'", name) ? name : quoted;
}

void print_as_table(const Inspected& found) {
  print("{}: {} tensors, {}\n", found.path, found.tensors.size(), format_bytes(all_bytes(found.tensors)));
  for (const auto& [name, text] : found.texts) print("  {} = {}\n", shown(name), shown(text));
  size_t widest = 4;
  for (const auto& [name, tensor] : found.tensors) widest = std::max(widest, std::min<size_t>(40, shown(name).size()));
  print("  {:<{}}  {:<5} {:>12}  {}\n", "name", widest, "dtype", "bytes", "shape");
  for (const models::StoredTensor* tensor : in_order(found.tensors)) {
    print("  {:<{}}  {:<5} {:>12}  {}\n", shown(tensor->name), widest, tensor->dtype,
          format_bytes(static_cast<int64_t>(tensor->bytes.size())), tensor->shape.text());
  }
}

}  // namespace

void add_inspect(const Command& app, int& /*status*/) {
  const Command verb = app.add_verb("inspect", "List the tensors of a safetensors file, without reading them");
  verb.footer("Example: plimsoll inspect run/latest");
  const auto options = std::make_shared<InspectOptions>();
  verb.add_option("FILE", options->path, "A .safetensors file, the index of several, or a folder of checkpoints")
      .required();
  verb.add_flag("--json", options->json, "Print JSON");
  verb.callback([options] {
    const Inspected found = inspect(options->path);
    options->json ? print_as_json(found) : print_as_table(found);
  });
}

}  // namespace plimsoll::cli
