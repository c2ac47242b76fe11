#include "base/result.h"

#include "base/check.h"

#include <gtest/gtest.h>
#include <string>

namespace stator {
namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return NotApplicable{"odd"};
  return number / 2;
}

Result<int> quarter(int number) {
  STATOR_TRY(int once, half(number));
  STATOR_TRY(int twice, half(once));
  return twice;
}

TEST(Result, TryPassesTheValueOn) {
  Result<int> answer = quarter(12);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, 3);
}

TEST(Result, TryReturnsTheFirstFailure) {
  Result<int> answer = quarter(6);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.failure().why, "odd");
}

TEST(Check, ThrowsWithPlaceConditionAndDetail) {
  try {
    STATOR_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "did not throw";
  } catch (const InternalError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("result_test.cpp"), std::string::npos);
    EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(text.find("arithmetic"), std::string::npos);
  }
}

}  // namespace
}  // namespace stator
