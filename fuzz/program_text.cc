// Program text from strangers: reads or throws InputError; what reads writes back to itself and verifies.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/program/text.h"
#include "plimsoll/program/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll::program;
  Program program;
  try {
    program = parse_program({reinterpret_cast<const char*>(data), size});
  } catch (const plimsoll::InputError&) {
    return 0;
  }
  const std::string text = write_program(program);
  if (write_program(parse_program(text)) != text) abort();
  find_problems(program);
  return 0;
}
