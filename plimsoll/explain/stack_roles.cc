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

// "forward" of "Block.forward", as newer recordings name functions; a plain name is itself.
std::string_view plain_name(std::string_view name) {
  const size_t dot = name.find_last_of('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

void add_frame(StackRole& role, std::string_view full_name, std::string_view file) {
  const std::string_view name = plain_name(full_name);
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

// Not PyTorch's own, nor without a file.
bool is_model_file(std::string_view file) { return !file.empty() && !file.starts_with('<') && !is_torch_file(file); }

// The frames of modules' forward, wherever they are installed, and of what the innermost of them calls; innermost
// first.
std::vector<uint32_t> model_calls(const StackTable& stacks, uint32_t stack) {
  constexpr size_t kMostLines = 4;
  std::vector<uint32_t> calls;
  bool in_forward = false;
  for (const uint32_t frame : stacks.frames(stack)) {
    if (!is_model_file(stacks.file(frame))) continue;
    const bool forward = plain_name(stacks.name(frame)) == "forward";
    if (in_forward && !forward) continue;
    in_forward = in_forward || forward;
    calls.push_back(frame);
    if (in_forward && calls.size() >= kMostLines) break;
  }
  return in_forward ? calls : std::vector<uint32_t>{};
}

// "608" for a plain forward, "Block.forward 608" or "update 146" for what has another name.
std::string call_text(const StackTable& stacks, uint32_t frame, bool with_file) {
  const std::string_view name = stacks.name(frame);
  const std::string place =
      fmt::format("{}{}", with_file ? fmt::format("{}:", base_name(stacks.file(frame))) : "", stacks.frame(frame).line);
  return name == "forward" ? place : fmt::format("{} {}", name, place);
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
  const std::vector<uint32_t> calls = model_calls(stacks, stack);
  std::string text;
  std::string_view file;
  for (auto frame = calls.rbegin(); frame != calls.rend(); ++frame) {
    const std::string_view name = base_name(stacks.file(*frame));
    if (!text.empty()) text += " > ";
    text += call_text(stacks, *frame, name != file);
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
