#include "plimsoll/models/zoo/transformer.h"

namespace plimsoll::models {

Value self_attend(Net& net, Value qkv, const Heads& heads) {
  const std::vector<Value> parts = split(net, qkv, 2, 3);
  return attention(net, parts[0], parts[1], parts[2], heads);
}

}  // namespace plimsoll::models
