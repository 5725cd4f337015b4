#include "plimsoll/train/train_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"

namespace plimsoll::train {
namespace {

using nlohmann::ordered_json;

// Bytes of the lines of steps up to this one.
uintmax_t bytes_up_to(const std::string& path, int64_t step) {
  std::ifstream file(path);
  uintmax_t bytes = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); bytes += line.size() + 1) {
    const ordered_json json = ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("step", int64_t{0}) > step) break;
  }
  return bytes;
}

// What is not finite is no JSON.
ordered_json number(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

}  // namespace

TrainLog::TrainLog(std::string path, int64_t step) : path_(std::move(path)), file_(nullptr, &std::fclose) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path_, error)) {
    std::filesystem::resize_file(path_, step == 0 ? 0 : bytes_up_to(path_, step), error);
  }
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) throw SystemError::from_errno(fmt::format("writing {}", quote(path_)), errno);
}

void TrainLog::step(const LoopOptions::Step& step, int64_t process_peak_bytes) {
  const ordered_json json = {{"step", step.step},
                             {"epoch", step.epoch},
                             {"loss", number(static_cast<double>(step.loss))},
                             {"rate", step.rate},
                             {"seconds", step.seconds},
                             {"samples", step.samples},
                             {"process_peak_bytes", process_peak_bytes}};
  line(json.dump());
}

void TrainLog::evaluation(int64_t step, const Metrics& metrics) {
  ordered_json json = {{"step", step}, {"eval_loss", number(metrics.loss)}, {"eval_samples", metrics.samples}};
  if (metrics.accuracy) json["eval_accuracy"] = *metrics.accuracy;
  if (metrics.perplexity) json["eval_perplexity"] = number(*metrics.perplexity);
  line(json.dump());
}

void TrainLog::checkpoint(const CheckpointFolder::Outcome& outcome) {
  ordered_json json = {{"step", outcome.step}, {"checkpoint", outcome.path}};
  if (!outcome.error.empty()) json["error"] = outcome.error;
  line(json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

// A log that cannot be written is no reason to end a run. What comes after a part of a line could not be read.
void TrainLog::line(const std::string& json) {
  if (!error_.empty()) return;
  const bool is_written = std::fputs(json.c_str(), file_.get()) >= 0 && std::fputc('\n', file_.get()) >= 0;
  if (is_written && std::fflush(file_.get()) == 0) return;
  error_ = SystemError::from_errno(fmt::format("writing {}", quote(path_)), errno).what();
}

}  // namespace plimsoll::train
