// Steps as files: JSON, version 3, described in docs/planning.md. A step is one program, or the programs of a batch
// that is taken in micro-batches.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/plan/micro_batches.h"
#include "plimsoll/plan/plan_json.h"

namespace plimsoll::plan {

nlohmann::ordered_json to_json(const program::StepForm& form);

std::string write_step_plan(const StepPlan& step, const Setting& setting);

// `forms` make the programs of the file's setting (read_setting of plan_json.h). InputError as from read_plan, and for
// sizes that are no cut of the batch and changes that the forms have not; whether the plan holds is the oracle's
// question (step_oracle.h).
StepPlan read_step_plan(std::string_view text, std::string_view source, const StepForms& forms);

}  // namespace plimsoll::plan
