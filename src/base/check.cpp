#include "base/check.h"

#include <cstring>

namespace stator {

void failCheck(const char* file, int line, const char* condition, const std::string& detail) {
  const char* room = std::strstr(file, "src/");
  std::string text =
      std::string(room ? room + 4 : file) + ":" + std::to_string(line) + ": " + condition;
  if (!detail.empty()) text += " (" + detail + ")";
  throw InternalError(text);
}

}  // namespace stator
