#include "plimsoll/explain/log.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "plimsoll/explain/line_dress.h"
#include "plimsoll/explain/line_form.h"
#include "plimsoll/explain/log_collector.h"
#include "plimsoll/explain/log_needles.h"
#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr size_t kBuffer = 1 << 20;
constexpr size_t kBefore = 16 << 10;  // kept in front of a line, for the traceback above it
constexpr size_t kLongestLine = 32 << 10;

// Logs that PowerShell wrote are UTF-16. All that matters in them is ASCII.
class Utf16Source : public ByteSource {
 public:
  Utf16Source(ByteSource& source, bool little_endian) : source_(source), low_(little_endian ? 0 : 1) {}

  size_t read(char* buffer, size_t size) override {
    pairs_.resize(2 * size);
    const size_t got = source_.read(pairs_.data(), pairs_.size()) / 2;
    for (size_t i = 0; i < got; ++i) buffer[i] = pairs_[2 * i + 1 - low_] == 0 ? pairs_[2 * i + low_] : '?';
    return got;
  }
  const std::string& name() const override { return source_.name(); }

 private:
  ByteSource& source_;
  size_t low_;
  std::vector<char> pairs_;
};

// Slides over the log and hands the collector the lines that may mean something.
class Scanner {
 public:
  Scanner(ByteSource& source, LogFindings& findings)
      : source_(source), findings_(findings), collector_(findings), buffer_(kBuffer + kBefore + kLongestLine) {}

  void run() {
    refill();
    while (cursor_ < end_) {
      if (follow_ > 0) {
        next_line();
      } else {
        next_needle();
      }
    }
    look_for_kill();
  }

 private:
  std::string_view text() const { return {buffer_.data(), end_}; }

  size_t line_end(size_t at) const {
    const size_t limit = std::min(end_, at + kLongestLine);
    const size_t found = text().substr(0, limit).find_first_of("\n\r", at);
    return std::min(found, limit);
  }

  // A line may be enormous (a notebook's JSON): then it is cut some way before the needle.
  size_t line_begin(size_t at) const {
    const size_t floor = at - std::min(at - given_, kLongestLine / 2);
    while (at > floor && buffer_[at - 1] != '\n' && buffer_[at - 1] != '\r') --at;
    return at;
  }

  // The line at `at` goes on behind the buffer.
  bool is_cut(size_t at) const { return !finished_ && line_end(at) == end_ && end_ - at < kLongestLine; }

  void next_line() {
    if (is_cut(cursor_)) return refill();
    give(cursor_, line_end(cursor_));
  }

  void next_needle() {
    const size_t at = log_needles().find(text(), cursor_);
    if (at == std::string_view::npos) {
      cursor_ = finished_ ? end_ : end_ - std::min(end_ - cursor_, log_needles().longest() - 1);
      if (!finished_) refill();
      return;
    }
    if (!is_cut(at)) return give(line_begin(at), line_end(at));
    cursor_ = line_begin(at);
    refill();
  }

  static bool ends_with_kill(std::string_view line) {
    std::vector<std::string> pieces = unpacked_lines(line);
    if (pieces.empty()) pieces.emplace_back(line);
    return std::any_of(pieces.begin(), pieces.end(), [](const std::string& piece) {
      const std::string plain = strip_decoration(piece);
      std::string_view rest = without_prefix(plain);
      take_rank(rest);
      return is_killed_word(rest) || is_killed_word(without_logger(rest));
    });
  }

  // A program that is killed says nothing; its shell says "Killed", in one of the last lines.
  void look_for_kill() {
    constexpr size_t kTail = 600;
    if (!findings_.failures.empty()) return;
    size_t begin = end_ - std::min(end_, kTail);
    for (size_t end = 0; begin < end_; begin = end + 1) {
      end = std::min(text().find('\n', begin), end_);
      if (!ends_with_kill(text().substr(begin, end - begin))) continue;
      count_lines(begin);
      const size_t before = begin - std::min(begin, kBefore);
      collector_.line(kKilledLine, text().substr(before, begin - before));
      return;
    }
  }

  void give(size_t begin, size_t end) {
    count_lines(begin);
    const size_t before = begin - std::min(begin, kBefore);
    const int look = collector_.line(text().substr(begin, end - begin), text().substr(before, begin - before));
    follow_ = std::max(follow_ - 1, look);
    given_ = cursor_ = std::min(end + 1, end_);
  }

  // Makes findings_.lines the number of the line at `to`.
  void count_lines(size_t to) {
    const auto at = [&](size_t offset) { return buffer_.begin() + static_cast<ptrdiff_t>(offset); };
    if (to > counted_) findings_.lines += std::count(at(counted_), at(to), '\n');
    counted_ = std::max(counted_, to);
  }

  // Keeps what stands shortly before the cursor, and fills up behind the rest.
  void refill() {
    const size_t first = cursor_ - std::min(cursor_, kBefore);
    count_lines(first);
    std::memmove(buffer_.data(), buffer_.data() + first, end_ - first);
    cursor_ -= first;
    counted_ -= first;
    given_ -= std::min(given_, first);
    end_ -= first;
    const size_t room = buffer_.size() - end_;
    const size_t got = source_.read(buffer_.data() + end_, room);
    finished_ = got < room;
    end_ += got;
    findings_.bytes += static_cast<int64_t>(got);
  }

  ByteSource& source_;
  LogFindings& findings_;
  LogCollector collector_;
  std::vector<char> buffer_;
  size_t cursor_ = 0;   // all before it was searched
  size_t given_ = 0;    // end of the last line that the collector had
  size_t counted_ = 0;  // line breaks before it are in findings_.lines
  size_t end_ = 0;
  int follow_ = 0;
  bool finished_ = false;
};

}  // namespace

LogFindings read_log(ByteSource& source) {
  LogFindings findings;
  findings.lines = 1;
  std::string mark(2, '\0');
  mark.resize(source.read(mark.data(), mark.size()));
  if (mark == "\xff\xfe" || mark == "\xfe\xff") {
    Utf16Source decoded(source, mark == "\xff\xfe");
    Scanner(decoded, findings).run();
  } else {
    Scanner(*put_back(mark, source), findings).run();
  }
  return findings;
}

std::string_view log_forms() {
  return "out-of-memory reports of PyTorch (CUDA, ROCm, XPU, MPS, host, loader workers, launchers), "
         "torch.cuda.memory_summary, TensorFlow, JAX and XLA, vLLM, SGLang, TGI, llama.cpp, ollama, MLX, TensorRT, "
         "ONNX "
         "Runtime, Paddle, MXNet, XGBoost, RMM, CuPy, Numba, NumPy, Ray, Dask, Spark, Plimsoll, the Linux kernel, "
         "systemd, Slurm and Kubernetes, and of any other program in the usual words";
}

}  // namespace plimsoll::explain
