// What a stack says about the memory that was allocated under it, and how it reads for the user.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/explain/snapshot.h"

namespace plimsoll::explain {

// What the frames of a stack tell; several may hold.
struct StackRole {
  bool optimizer_step = false;
  bool optimizer_state = false;  // where optimizers make their state
  bool zero_grad = false;
  bool backward = false;
  bool forward = false;        // inside a module's call
  bool parameter = false;      // a module is built, moved or loaded
  bool checkpointing = false;  // under torch.utils.checkpoint
};

// The roles of all stacks of a table, by number.
std::vector<StackRole> stack_roles(const StackTable& stacks);

// "train.py:35 in step": the innermost frame of the user's own. When all frames are a library's, the outermost of
// them; "(no stack recorded)" when there are none.
std::string user_frame(const StackTable& stacks, uint32_t stack);

// "linear.py:134 in forward"
std::string frame_text(const StackTable& stacks, uint32_t frame);

// The model's own lines from the outermost call down to the allocation: "modeling_gpt2.py:608 > 305 >
// activations.py:66". A function that is no plain forward is named: "model.py:40 > attend 61", and so are classes where
// the recording has them: "Gpt.forward model.py:31 > Block.forward 40". Frames of PyTorch and of wrappers are left out,
// and the file is named once for lines in a row. Empty when there are none.
std::string module_path(const StackTable& stacks, uint32_t stack);

// All frames, innermost first.
std::vector<std::string> stack_text(const StackTable& stacks, uint32_t stack);

}  // namespace plimsoll::explain
