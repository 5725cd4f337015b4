#include "plimsoll/explain/stack_roles.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

constexpr std::string_view kNoStack = "(no stack recorded)";

bool any_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

void add_frame(StackRole& role, std::string_view name, std::string_view file) {
  const bool optimizer = contains(file, "torch/optim/") || contains(file, "/optim/") || contains(file, "bitsandbytes");
  const bool module = contains(file, "nn/modules/module.py");
  role.zero_grad = role.zero_grad || name == "zero_grad";
  role.optimizer_step = role.optimizer_step || (optimizer && name == "step");
  role.optimizer_state =
      role.optimizer_state || (optimizer && any_of(name, {"_init_group", "init_state", "_init_state"}));
  role.backward = role.backward || any_of(name, {"backward", "_engine_run_backward", "run_backward"});
  role.forward = role.forward || any_of(name, {"_call_impl", "_wrapped_call_impl"}) || (name == "forward" && !module);
  role.parameter = role.parameter || (module && any_of(name, {"_apply", "convert", "to", "cuda", "to_empty"})) ||
                   any_of(name, {"reset_parameters", "load_state_dict", "from_pretrained", "_load_from_state_dict",
                                 "_load_state_dict_into_model"});
  role.checkpointing = role.checkpointing || contains(file, "utils/checkpoint.py");
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// A module's forward, wherever it is installed, but not PyTorch's own nor code without a file.
bool is_module_code(std::string_view name, std::string_view file) {
  return name == "forward" && !file.empty() && !file.starts_with('<') && !contains(file, "/torch/");
}

}  // namespace

std::vector<StackRole> stack_roles(const StackTable& stacks) {
  std::vector<StackRole> roles(stacks.size());
  for (uint32_t stack = 0; stack < stacks.size(); ++stack) {
    for (const uint32_t frame : stacks.frames(stack)) add_frame(roles[stack], stacks.name(frame), stacks.file(frame));
  }
  return roles;
}

std::string frame_text(const StackTable& stacks, uint32_t frame) {
  const std::string_view file = base_name(stacks.file(frame));
  const std::string_view name = stacks.name(frame);
  if (file.empty()) return std::string(name);
  if (stacks.frame(frame).line == 0) return fmt::format("{} in {}", file, name);
  return fmt::format("{}:{} in {}", file, stacks.frame(frame).line, name);
}

std::string user_frame(const StackTable& stacks, uint32_t stack) {
  const auto frames = stacks.frames(stack);
  if (frames.empty()) return std::string(kNoStack);
  // Code given as a string ("<string>") has no line that can be opened; take it only when there is no file.
  const auto is_user = [&](uint32_t frame) { return !is_library_file(stacks.file(frame)); };
  const auto is_file = [&](uint32_t frame) { return is_user(frame) && !stacks.file(frame).starts_with('<'); };
  auto found = std::find_if(frames.begin(), frames.end(), is_file);
  if (found == frames.end()) found = std::find_if(frames.begin(), frames.end(), is_user);
  return frame_text(stacks, found == frames.end() ? frames.back() : *found);
}

std::string module_path(const StackTable& stacks, uint32_t stack) {
  constexpr size_t kMostLines = 4;  // the innermost ones
  std::vector<uint32_t> calls;      // innermost first
  for (const uint32_t frame : stacks.frames(stack)) {
    if (is_module_code(stacks.name(frame), stacks.file(frame))) calls.push_back(frame);
    if (calls.size() == kMostLines) break;
  }
  std::string text;
  std::string_view file;
  for (auto frame = calls.rbegin(); frame != calls.rend(); ++frame) {
    const std::string_view name = base_name(stacks.file(*frame));
    if (!text.empty()) text += " > ";
    if (name != file) text += fmt::format("{}:", name);
    text += std::to_string(stacks.frame(*frame).line);
    file = name;
  }
  return text;
}

std::vector<std::string> stack_text(const StackTable& stacks, uint32_t stack) {
  std::vector<std::string> lines;
  for (const uint32_t frame : stacks.frames(stack)) lines.push_back(frame_text(stacks, frame));
  return lines;
}

}  // namespace plimsoll::explain
