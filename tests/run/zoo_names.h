// The zoo as parameters of tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models/zoo/zoo.h"

namespace plimsoll {

inline std::vector<std::string_view> zoo_names() {
  std::vector<std::string_view> names;
  for (const models::ModelInfo& model : models::all_models()) names.push_back(model.name);
  return names;
}

inline std::string zoo_test_name(const testing::TestParamInfo<std::string_view>& tested) {
  std::string name(tested.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace plimsoll
