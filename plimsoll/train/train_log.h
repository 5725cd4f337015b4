// A run as JSON lines, one for each step, evaluation and checkpoint, as it happens: for those who plot it. What a run
// that was killed wrote after the checkpoint that is gone on from is cut off.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "plimsoll/train/loop.h"

namespace plimsoll::train {

class TrainLog {
 public:
  // Appends after the lines of steps up to `step`. SystemError when it cannot be written.
  TrainLog(std::string path, int64_t step);

  void step(const LoopOptions::Step& step, int64_t process_peak_bytes);
  void evaluation(int64_t step, const Metrics& metrics);
  void checkpoint(const CheckpointFolder::Outcome& outcome);

  // What writing failed with first; no line comes after that one. Empty: all are there.
  const std::string& error() const { return error_; }

 private:
  void line(const std::string& json);

  std::string path_;
  std::string error_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace plimsoll::train
