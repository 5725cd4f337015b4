#include "plimsoll/pack/recipe.h"

#include <gtest/gtest.h>

namespace plimsoll::pack {
namespace {

using Indices = std::vector<int32_t>;

const Part kPart{.buffers = {2, 5, 9}};

std::vector<Run> runs_of(const std::vector<Recipe>& recipes) {
  const Packing hint{.recipes = recipes};
  return runs_for(kPart, {&hint, 1});
}

TEST(Recipe, NamesTheBuffersOfAPartByTheirIndicesAmongAll) {
  const Recipe recipe = recipe_of({Strategy::lowest, {2, 0, 1}, 7}, kPart);
  EXPECT_EQ(recipe.order, (Indices{5, 9, 2}));
  EXPECT_EQ(recipe.nodes, 7);
}

// The part was larger and had another buffer; the run still makes a recipe of its own.
TEST(Recipe, PutsBuffersThatItDoesNotKnowLast) {
  const auto runs = runs_of({{Strategy::fewest_choices, {9, 4, 3, 2}, 100}});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].strategy, Strategy::fewest_choices);
  EXPECT_EQ(runs[0].ranks, (Indices{3, 4, 0}));
  EXPECT_EQ(runs[0].nodes, 125);
  EXPECT_EQ(recipe_of(runs[0], kPart).order, (Indices{9, 2, 5}));
}

TEST(Recipe, IsOfNoUseForAnotherPart) { EXPECT_TRUE(runs_of({{.order = {1, 2, 5}}, {.order = {}}}).empty()); }

TEST(Recipe, GoesFirstWhenItIsShort) {
  const auto runs = runs_of({{.order = {2}, .nodes = INT64_MAX},
                             {.order = {5}, .nodes = 8},
                             {.order = {9}, .nodes = INT64_MIN},
                             {.order = {2}, .nodes = 4}});
  ASSERT_EQ(runs.size(), 4U);
  EXPECT_EQ(runs[0].nodes, 0);
  EXPECT_EQ(runs[1].nodes, 5);
  EXPECT_EQ(runs[2].nodes, 10);
}

}  // namespace
}  // namespace plimsoll::pack
