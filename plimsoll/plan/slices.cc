#include "plimsoll/plan/slices.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::plan {
namespace {

using program::StepForm;

constexpr int64_t kFewest = 4;  // slices, where ops to slice are chosen
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
  Chooser(const SliceChoice& choice, int64_t roomy_bytes) : choice_(choice), roomy_bytes_(roomy_bytes) {}

  std::optional<StepForm> run() const {
    if (choice_.batch < 2 || choice_.places.empty()) return std::nullopt;
    const int64_t slices = divisor_from(choice_.batch, std::min(kFewest, choice_.batch));
    if (slices > kMostAtAll) return std::nullopt;
    Tried best{{.slices = slices, .late = true}, choice_.whole_bytes};
    while (best.bytes > roomy_bytes_) {
      const std::optional<Tried> further = further_than(best);
      if (!further) break;
      best = *further;
    }
    if (best.bytes == choice_.whole_bytes) return std::nullopt;
    return more_slices(best).form;
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

  Tried more_slices(Tried best) const {
    while (best.bytes > roomy_bytes_ && best.form.slices < std::min(kMost, choice_.batch)) {
      StepForm form = best.form;
      form.slices = divisor_from(choice_.batch, form.slices + 1);
      if (form.slices > kMostAtAll) break;
      const Tried next = tried(form);
      if (next.bytes >= best.bytes) break;
      best = next;
    }
    return best;
  }

  const SliceChoice& choice_;
  int64_t roomy_bytes_;
};

}  // namespace

std::optional<StepForm> choose_slices(const SliceChoice& choice, int64_t roomy_bytes) {
  return Chooser(choice, roomy_bytes).run();
}

std::string slices_text(const program::StepForm& form) {
  std::string ops;
  if (form.first > 0) ops = fmt::format("the first {}", form.first);
  if (form.last > 0) ops += fmt::format("{}the last {}", ops.empty() ? "" : " and ", form.last);
  return fmt::format("{} ops of the model in {} slices", ops, form.slices);
}

}  // namespace plimsoll::plan
