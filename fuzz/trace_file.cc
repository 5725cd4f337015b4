// Binary traces. The input is a body: the header with its check sum is put before it, so that the fuzzer gets past it.
// The bare input is tried as well.
#include <zlib.h>

#include <cstdlib>
#include <string>

#include "plimsoll/base/error.h"
#include "plimsoll/trace/binary.h"
#include "plimsoll/trace/file.h"

namespace {

using namespace plimsoll;

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

std::string with_header(const std::string& body) {
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size());
  return "\x89PLMTRC\n" + little_endian(1, 4) + little_endian(sum, 4) + little_endian(body.size(), 8) + body;
}

void try_to_read(const std::string& bytes) {
  try {
    const std::string written = trace::to_binary(trace::parse(bytes, "fuzz"));
    if (trace::to_binary(trace::parse(written, "again")) != written) std::abort();
  } catch (const InputError& error) {
    if (error.place().source == "again") std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  try_to_read(input);
  try_to_read(with_header(input));
  return 0;
}
