#include "plimsoll/kernels/cpu/simd/simd.h"

#include "plimsoll/kernels/cpu/simd/targets.h"

namespace plimsoll::kernels::simd {

const Functions& functions() {
  static const Functions made = [] {
    Functions all{};
    add_elements(vector_isa(), all);
    add_exponentials(vector_isa(), all);
    add_panels(vector_isa(), all);
    add_pools(vector_isa(), all);
    add_products(vector_isa(), all);
    add_winograd(vector_isa(), all);
    return all;
  }();
  return made;
}

}  // namespace plimsoll::kernels::simd
