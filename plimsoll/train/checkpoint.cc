#include "plimsoll/train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "plimsoll/base/error.h"
#include "plimsoll/train/checkpoint_file.h"
#include "plimsoll/train/checkpoint_folder.h"

namespace plimsoll::train {
namespace {

constexpr std::string_view kVersion = "1";

// Exact: what is read is what was written.
std::string exact(double value) { return fmt::format("{:a}", value); }

class Texts {
 public:
  Texts(const std::string& path, const models::StoredTexts& texts) : path_(path), texts_(texts) {}

  const std::string& text(const std::string& name) const {
    const auto found = texts_.find("plimsoll." + name);
    if (found != texts_.end()) return found->second;
    throw InputError({.source = path_}, fmt::format("no text {} beside its tensors", quote("plimsoll." + name)),
                     "a checkpoint of a run; --weights takes other files");
  }
  bool has(const std::string& name) const { return texts_.contains("plimsoll." + name); }

  template <class T>
  T integer(const std::string& name) const {
    const std::string& digits = text(name);
    T number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) return number;
    throw InputError({.source = path_}, fmt::format("{} for plimsoll.{}", quote(digits), name), "a whole number");
  }

  double real(const std::string& name) const {
    const std::string& digits = text(name);
    char* end = nullptr;
    const double number = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == '\0') return number;
    throw InputError({.source = path_}, fmt::format("{} for plimsoll.{}", quote(digits), name), "a number");
  }

 private:
  const std::string& path_;
  const models::StoredTexts& texts_;
};

RunState state_of(const std::string& path, const models::StoredTexts& stored) {
  const Texts texts(path, stored);
  if (texts.text("version") != kVersion) {
    throw InputError({.source = path}, fmt::format("a checkpoint of version {}", quote(texts.text("version"))),
                     fmt::format("version {}: another plimsoll wrote it", kVersion));
  }
  RunState state{.model = texts.text("model"),
                 .optimizer = texts.text("optimizer"),
                 .precision = texts.text("precision"),
                 .step = texts.integer<int64_t>("step"),
                 .seed = texts.integer<uint64_t>("seed"),
                 .rate = texts.real("rate"),
                 .data = {texts.integer<int64_t>("epoch"), texts.integer<int64_t>("sample")}};
  if (texts.has("best_loss")) state.best_loss = texts.real("best_loss");
  state.evaluations_since_best = texts.integer<int64_t>("evaluations_since_best");
  if (texts.has("evaluated_at")) state.evaluated_at = texts.integer<int64_t>("evaluated_at");
  return state;
}

std::string text_of(const models::StoredSpec& spec) {
  return fmt::format("{}{}", models::stored_dtype(spec.dtype), spec.shape.text());
}

std::string path_in(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return path;
  if (const auto newest = newest_checkpoint(path)) return *newest;
  throw InputError({.source = path}, "a folder without checkpoints", "one that a run wrote to, or a file");
}

}  // namespace

models::StoredTexts texts_of(const RunState& state) {
  models::StoredTexts texts = {{"format", "pt"},
                               {"plimsoll.version", std::string(kVersion)},
                               {"plimsoll.model", state.model},
                               {"plimsoll.optimizer", state.optimizer},
                               {"plimsoll.precision", state.precision},
                               {"plimsoll.step", std::to_string(state.step)},
                               {"plimsoll.seed", std::to_string(state.seed)},
                               {"plimsoll.rate", exact(state.rate)},
                               {"plimsoll.epoch", std::to_string(state.data.epoch)},
                               {"plimsoll.sample", std::to_string(state.data.sample)},
                               {"plimsoll.evaluations_since_best", std::to_string(state.evaluations_since_best)}};
  if (state.best_loss) texts["plimsoll.best_loss"] = exact(*state.best_loss);
  if (state.evaluated_at >= 0) texts["plimsoll.evaluated_at"] = std::to_string(state.evaluated_at);
  return texts;
}

void save_checkpoint(const std::string& path, const std::vector<KeptTensor>& tensors, const RunState& state) {
  CheckpointFile file(path);
  std::vector<std::byte> part;
  stream_checkpoint(tensors, state, kLoadBytes, [&](int64_t bytes, const auto& fill) {
    part.resize(static_cast<size_t>(bytes));
    fill(std::span(part));
    file.write(part);
  });
  file.finish();
}

Checkpoint::Checkpoint(const std::string& path)
    : path_(path_in(path)), file_(models::read_stored_file(path_)), state_(state_of(path_, file_.texts)) {}

bool Checkpoint::has_8bit_state() const {
  for (const auto& [name, tensor] : file_.tensors) {
    if (tensor.dtype == "U8" && name.starts_with("optimizer.")) return true;
  }
  return false;
}

void Checkpoint::require_fits(const std::vector<KeptTensor>& tensors) const {
  std::set<std::string_view> known;
  for (const KeptTensor& kept : tensors) {
    known.insert(kept.spec.name);
    const auto found = file_.tensors.find(kept.spec.name);
    if (found == file_.tensors.end()) {
      throw ArgumentError(fmt::format("{} ({}, {}) has no tensor {}, which this run has as {}", path_, state_.model,
                                      state_.optimizer, quote(kept.spec.name), text_of(kept.spec)));
    }
    const models::StoredTensor& stored = found->second;
    if (stored.dtype == models::stored_dtype(kept.spec.dtype) && stored.shape == kept.spec.shape) continue;
    throw ArgumentError(fmt::format("{} ({}, {}) has {} as {}{}, and this run as {}", path_, state_.model,
                                    state_.optimizer, quote(kept.spec.name), stored.dtype, stored.shape.text(),
                                    text_of(kept.spec)));
  }
  for (const auto& [name, stored] : file_.tensors) {
    if (known.contains(name)) continue;
    throw ArgumentError(fmt::format("{} ({}, {}) has a tensor {} ({}{}), which this run has not", path_, state_.model,
                                    state_.optimizer, quote(name), stored.dtype, stored.shape.text()));
  }
}

void Checkpoint::load(const std::vector<KeptTensor>& tensors) const {
  require_fits(tensors);
  const OpenFile file(path_);
  for (const KeptTensor& kept : tensors) {
    const models::StoredTensor& stored = file_.tensors.find(kept.spec.name)->second;
    const int64_t first = stored.bytes.data() - stored.file->bytes().data();
    kept.load([&](int64_t offset, std::span<std::byte> into) { file.read(first + offset, into); });
  }
}

}  // namespace plimsoll::train
