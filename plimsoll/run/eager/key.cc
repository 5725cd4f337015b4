#include "plimsoll/run/eager/key.h"

#include <bit>

namespace plimsoll::eager {

using program::Attribute;
using program::AttributeKind;

Key::Key(const program::OpDef& def, std::span<const Attribute> attributes) {
  add(reinterpret_cast<int64_t>(&def));
  for (const Attribute& attribute : attributes) add(attribute);
}

void Key::add(const kernels::TensorDesc& tensor) {
  add(static_cast<int64_t>(tensor.dtype));
  add(tensor.shape.rank());
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    add(tensor.shape[axis]);
    add(tensor.stride(axis));
  }
}

void Key::add(const program::Type& type) {
  add(static_cast<int64_t>(type.dtype));
  add(type.shape.rank());
  for (const program::Dim dim : type.shape) add(dim.key());
}

void Key::add(const Attribute& attribute) {
  switch (attribute.kind()) {
    case AttributeKind::flag:
      return add(int64_t{attribute.flag()});
    case AttributeKind::real:
      return add(std::bit_cast<int64_t>(attribute.real()));
    case AttributeKind::word:
      add(static_cast<int64_t>(attribute.word().size()));
      bytes_ += attribute.word();
      return;
    case AttributeKind::dims:
    case AttributeKind::integers:
      add(attribute.dims().rank());
      for (const program::Dim dim : attribute.dims()) add(dim.key());
      return;
    case AttributeKind::dim:
    case AttributeKind::integer:
      return add(attribute.dim().key());
  }
}

}  // namespace plimsoll::eager
