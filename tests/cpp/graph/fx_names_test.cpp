#include "graph/fx_names.h"

#include <gtest/gtest.h>

namespace stator::graph {
namespace {

TEST(FxNames, SnakeCase) {
  EXPECT_EQ(snakeCase("scaleFactor"), "scale_factor");
  EXPECT_EQ(snakeCase("L_self_ABC"), "l_self_abc");
  EXPECT_EQ(snakeCase("softmax"), "softmax");
}

TEST(FxNames, PlaceholderTarget) {
  EXPECT_EQ(placeholderTarget("L['self']._modules['linear']._parameters['weight']"),
            "L_self_modules_linear_parameters_weight_");
  EXPECT_EQ(placeholderTarget("L['x']"), "L_x_");
}

TEST(FxNames, UniqueAsInTorchFx) {
  const Names::Reserved reserved = {"sum"};
  Names names(reserved);
  const char* wanted[][2] = {{"add", "add"},   {"add", "add_1"},   {"sum", "sum_1"},
                             {"sum", "sum_2"}, {"add_5", "add_5"}, {"add", "add_6"},
                             {"", "_unnamed"}, {"2x", "_2x"},      {"a.b-c", "a_b_c"},
                             {"_1", "_1"},     {"a_.b", "a__b"},   {"add_5", "add_7"}};
  for (const auto& [candidate, name] : wanted)
    EXPECT_EQ(names.unique(candidate), name) << candidate;
  names.take("free");
  EXPECT_EQ(names.unique("free"), "free_1");
}

}  // namespace
}  // namespace stator::graph
