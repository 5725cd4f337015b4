// A card's place on the PCI bus names it in the driver and in NVML alike, whatever CUDA_VISIBLE_DEVICES says. The two
// write it differently: "0000:1B:00.0" and "00000000:1B:00.0".
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::cuda {

// Small letters, the domain without its leading zeros: ":1b:00.0" for both of the above.
inline std::string normal_bus_id(std::string_view text) {
  const size_t first = text.find_first_not_of('0');
  std::string normal(first == std::string_view::npos ? std::string_view() : text.substr(first));
  for (char& letter : normal) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return normal;
}

}  // namespace plimsoll::cuda
