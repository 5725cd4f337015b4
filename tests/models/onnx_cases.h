// ONNX's conformance cases: a folder with model.onnx and test_data_set_0 with inputs and the outputs they must give.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::models {

struct CaseResult {
  std::string name;  // of the folder
  std::string op;    // of its first node
  enum class Outcome { pass, unsupported, wrong } outcome = Outcome::pass;
  std::string how;  // "", or what was needed to pass: "constant operands", "reference"
  std::string why;  // it does not
};

// Runs one case on the CPU's kernels; where they lack a dtype, by the reference evaluator.
CaseResult run_case(const std::string& folder);

// All cases in a folder, by name.
std::vector<CaseResult> run_cases(const std::string& folder);

// The results as a page: a table by op, and every case that does not pass with its reason.
std::string conformance_page(const std::vector<CaseResult>& results, const std::string& source);

}  // namespace plimsoll::models
