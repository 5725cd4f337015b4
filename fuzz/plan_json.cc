// Plans from strangers: read, or an InputError; what reads is judged by the oracle and never runs unchecked.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/plan/oracle.h"
#include "plimsoll/plan/step_oracle.h"
#include "plimsoll/plan/step_plan_json.h"
#include "plimsoll/program/text.h"

namespace {

const plimsoll::kernels::Lowered& lowered() {
  static const auto made = plimsoll::kernels::prepare(
      plimsoll::program::parse_program("input %x: f32[64]\n%a = exp(%x)\n%b = neg(%a)\n%c = mul(%a, %b)\noutput %c\n"),
      {.threads = 1});
  return made;
}

// A step whose forms are all this program: what is asked is whether any text makes the readers stumble.
plimsoll::plan::StepForms forms() {
  const auto in_any_form = [](const plimsoll::program::StepForm&) { return lowered(); };
  plimsoll::plan::StepForms forms{2,       lowered,     [](int64_t) { return lowered(); },
                                  lowered, in_any_form, {3, {1, 2}, {1}}};
  const plimsoll::plan::ChangedForms changed{forms, "8-bit-state", ""};
  forms.otherwise = std::make_shared<const plimsoll::plan::ChangedForms>(changed);
  return forms;
}

void read_step(std::string_view text) {
  using namespace plimsoll;
  const plan::StepPlan read = plan::read_step_plan(text, "fuzz", forms());
  if (plan::find_fault(read, 2)) return;
  const std::string written = plan::write_step_plan(read, {});
  if (plan::write_step_plan(plan::read_step_plan(written, "back", forms()), {}) != written) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    read_step(text);
  } catch (const InputError&) {
  }
  try {
    plan::read_setting(text, "fuzz");
    const plan::Plan read = plan::read_plan(text, "fuzz", lowered().program);
    if (plan::find_fault(read, lowered())) return 0;
    plan::apply(read, lowered());
    const std::string written = plan::write_plan(read, {}, lowered().program);
    if (plan::read_plan(written, "back", lowered().program) != read) abort();
  } catch (const InputError&) {
  }
  return 0;
}
