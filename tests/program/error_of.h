// The message of the ArgumentError that a call throws.
#pragma once

#include <string>

#include "plimsoll/base/error.h"

namespace plimsoll::program {

template <class F>
std::string error_of(F make) {
  try {
    make();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace plimsoll::program
