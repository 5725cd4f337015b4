#include "plimsoll/kernels/cpu/support/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cpu/support/dnnl.h"
#include "plimsoll/kernels/cpu/tiles/tiles.h"

namespace plimsoll::kernels {
namespace {

TEST(IsaLimit, IsNoneWhereNothingIsSaid) { EXPECT_EQ(isa_limit_of(nullptr), Isa::amx); }

TEST(IsaLimit, IsReadByItsName) {
  for (const Isa isa : {Isa::sse4, Isa::avx2, Isa::avx512, Isa::amx}) {
    EXPECT_EQ(isa_limit_of(std::string(isa_name(isa)).c_str()), isa);
  }
}

TEST(IsaLimit, NamesWhatItAcceptsWhenItIsSomethingElse) {
  for (const char* text : {"", "avx", "AVX2", "avx512 "}) {
    try {
      isa_limit_of(text);
      FAIL() << text;
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.what(), "PLIMSOLL_MAX_ISA is " + quote(text) +
                                  ", expected sse4, avx2, avx512 or amx: the widest vector instructions that kernels "
                                  "may use");
    }
  }
}

// The same binary runs with each limit (see tests/CMakeLists.txt).
TEST(IsaLimit, HoldsForOurVectorsOurTilesAndOneDnn) {
  const Isa limit = isa_limit_of(std::getenv("PLIMSOLL_MAX_ISA"));
  EXPECT_EQ(isa_limit(), limit);
  EXPECT_LE(vector_isa(), limit);
  if (limit < Isa::amx) {
    EXPECT_FALSE(tiles::has_units());
    EXPECT_FALSE(dnnl_has_amx_tiles());
  }
  dnnl_engine();
  const auto bits = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const unsigned allowed = limit == Isa::sse4     ? static_cast<unsigned>(dnnl::cpu_isa::sse41)
                           : limit == Isa::avx2   ? static_cast<unsigned>(dnnl::cpu_isa::avx2)
                           : limit == Isa::avx512 ? static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16)
                                                  : ~0U;
  EXPECT_EQ(bits & ~allowed, 0U);
}

}  // namespace
}  // namespace plimsoll::kernels
