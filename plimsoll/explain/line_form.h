// Messages of one line (and a few figures in the lines after it) as data: what the line must contain, whose it is,
// which memory it speaks of, and where its figures stand. A family is a table of these; a new wording is a new row.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "plimsoll/explain/failure.h"

namespace plimsoll::explain {

// A figure between two texts; `behind` may be empty (then it stands right after `front`), and so may `front`.
// `binary` is for those who write GB and mean GiB.
struct Figure {
  OptionalBytes Failure::*field = nullptr;
  std::string_view front;
  std::string_view behind = {};
  bool binary = false;
};

struct LineForm {
  Framework framework = Framework::unknown;
  Backend backend = Backend::unknown;
  Arena arena = Arena::device;
  std::array<std::string_view, 3> all;     // texts that the line must have, empty ones aside
  std::array<std::string_view, 2> none{};  // and must not have
  std::optional<Cause> says{};             // decided by the wording alone
  Confidence sure = Confidence::medium;
  std::string_view headline{};  // for it; {requested}, {free}, {total}, {allowed}, {allocated}, {process}, {subject}
  std::array<Figure, 4> figures{};
  std::string_view subject_front{};  // the subject stands between these; without `behind`, this is the subject itself
  std::string_view subject_behind{};
  Task task = Task::unknown;
  bool warns = false;  // counts only as long as nothing after it says that work went on
};

// Stands for a line that is the word "Killed" and nothing else, at the end of a log: a shell's word for signal 9.
inline constexpr std::string_view kKilledLine = "(a shell says) Killed";

// The tables, one per family, in the order in which they are tried.
std::span<const LineForm> engine_forms();     // vLLM, SGLang, TGI, llama.cpp, ollama, MLX, TensorRT, ONNX Runtime
std::span<const LineForm> array_forms();      // XGBoost, CuPy, Numba, RMM, NumPy, Arrow, Paddle, MXNet, Windows
std::span<const LineForm> cluster_forms();    // Ray, Dask, Spark
std::span<const LineForm> scheduler_forms();  // Slurm, Kubernetes, systemd
std::span<const LineForm> generic_forms();    // rarer frameworks, and the driver's words: after all other readers
std::span<const LineForm> torch_forms();      // PyTorch's single lines: libraries, host, launchers, MPS, XPU

}  // namespace plimsoll::explain
