// A card on paper: for machines without a GPU. While one of these lives, devices named cuda are made of host memory,
// kernels are compiled for the given architecture as they are bound, and running them does nothing. One at a time.
#pragma once

#include <string>

namespace plimsoll::cuda {

class CompileOnly {
 public:
  explicit CompileOnly(std::string architecture);  // "sm_90"
  ~CompileOnly();
  CompileOnly(const CompileOnly&) = delete;
  CompileOnly& operator=(const CompileOnly&) = delete;

  static const std::string* architecture();  // null: there is none
};

}  // namespace plimsoll::cuda
