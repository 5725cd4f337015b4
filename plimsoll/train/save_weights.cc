#include "plimsoll/train/save_weights.h"

#include <algorithm>
#include <memory>

#include "plimsoll/models/weights/weights.h"
#include "plimsoll/run/floats.h"

namespace plimsoll::train {
namespace {

std::vector<float> transposed(const std::vector<float>& floats, const Shape& shape) {
  const auto rows = static_cast<size_t>(shape[0]);
  const auto columns = static_cast<size_t>(shape[1]);
  std::vector<float> turned(floats.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = floats[i * columns + j];
  }
  return turned;
}

}  // namespace

void save_weights(const models::ModelInfo& info, run::Executor& executor, const std::string& path) {
  const program::Program& program = executor.program();
  const auto current = std::make_shared<std::vector<float>>();  // the tensor that is being written
  std::vector<models::TensorToStore> tensors;
  for (const auto* values : {&program.parameters, &program.state}) {
    for (const program::Value value : *values) {
      const program::ValueInfo& one = program[value];
      if (one.category != Category::parameter || !is_floating(one.type.dtype)) continue;
      const Shape shape = one.type.shape.shape();
      const bool turned = models::is_stored_transposed(info, one.name) && shape.rank() == 2;
      const auto read = [&executor, value, shape, turned, current](std::span<float> into, int64_t first) {
        if (first == 0) {
          *current = {};  // the last one's memory goes first
          *current = run::read_floats(executor, value);
          if (turned) *current = transposed(*current, shape);
        }
        std::copy_n(current->begin() + static_cast<std::ptrdiff_t>(first), into.size(), into.begin());
      };
      tensors.push_back({one.name, turned ? Shape{shape[1], shape[0]} : shape, read});
    }
  }
  models::write_safetensors(path, tensors);
}

}  // namespace plimsoll::train
