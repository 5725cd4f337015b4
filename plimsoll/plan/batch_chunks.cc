#include "plimsoll/plan/batch_chunks.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::plan {
namespace {

using program::StepForm;

constexpr int64_t kFewest = 4;  // chunks, where ops to chunk are chosen
constexpr int64_t kMost = 16;   // or the next divisor of the batch, up to
constexpr int64_t kMostAtAll = 64;
constexpr int kFurther = 3;  // places that are looked at beyond one that does not help

// Above kMostAtAll when there is none up to it: a large prime would take seconds.
int64_t divisor_from(int64_t of, int64_t least) {
  while (least <= kMostAtAll && of % least != 0) ++least;
  return least;
}

// A form, and what the step needs in it.
struct Tried {
  StepForm form;
  int64_t bytes = 0;
};

class Chooser {
 public:
  Chooser(const ChunkChoice& choice, int64_t roomy_bytes) : choice_(choice), roomy_bytes_(roomy_bytes) {}

  std::optional<StepForm> run() const {
    if (choice_.batch < 2 || choice_.places.empty()) return std::nullopt;
    const int64_t chunks = divisor_from(choice_.batch, std::min(kFewest, choice_.batch));
    if (chunks > kMostAtAll) return std::nullopt;
    Tried best{{.chunks = chunks, .sink_ops = true}, choice_.whole_bytes};
    while (best.bytes > roomy_bytes_) {
      const std::optional<Tried> further = further_than(best);
      if (!further) break;
      best = *further;
    }
    if (best.bytes == choice_.whole_bytes) return std::nullopt;
    return more_chunks(best).form;
  }

 private:
  Tried tried(const StepForm& form) const { return {form, choice_.least_bytes(form)}; }

  // More ops at the beginning or at the end, whichever helps more.
  std::optional<Tried> further_than(const Tried& now) const {
    std::optional<Tried> best;
    for (const bool at_end : {false, true}) {
      const auto& places = at_end ? choice_.places.last : choice_.places.first;
      const int32_t from = at_end ? now.form.last : now.form.first;
      auto place = std::upper_bound(places.begin(), places.end(), from);
      for (int i = 0; i < kFurther && place != places.end(); ++i, ++place) {
        StepForm form = now.form;
        (at_end ? form.last : form.first) = *place;
        if (form.first + form.last > choice_.places.ops) break;
        const Tried next = tried(form);
        if (next.bytes >= (best ? best->bytes : now.bytes)) continue;
        best = next;
        break;
      }
    }
    return best;
  }

  Tried more_chunks(Tried best) const {
    while (best.bytes > roomy_bytes_ && best.form.chunks < std::min(kMost, choice_.batch)) {
      StepForm form = best.form;
      form.chunks = divisor_from(choice_.batch, form.chunks + 1);
      if (form.chunks > kMostAtAll) break;
      const Tried next = tried(form);
      if (next.bytes >= best.bytes) break;
      best = next;
    }
    return best;
  }

  const ChunkChoice& choice_;
  int64_t roomy_bytes_;
};

}  // namespace

std::optional<StepForm> choose_chunks(const ChunkChoice& choice, int64_t roomy_bytes) {
  return Chooser(choice, roomy_bytes).run();
}

std::string chunks_text(const program::StepForm& form) {
  std::string ops;
  if (form.first > 0) ops = fmt::format("the first {}", form.first);
  if (form.last > 0) ops += fmt::format("{}the last {}", ops.empty() ? "" : " and ", form.last);
  return fmt::format("{} ops of the model in {} chunks", ops, form.chunks);
}

}  // namespace plimsoll::plan
