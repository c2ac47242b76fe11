// Knobs of the tests: which frames are driven, and when a driven frame is handed to CPython in its middle.
#pragma once

namespace stator::runtime {

struct DriverTest {
  int every = 1;                // drive every n-th frame only
  long long native_after = -1;  // after so many steps, give the rest of a frame to CPython
  long long frames_seen = 0;
  // compare the stack's depth with what the code says, before every instruction
  bool check_depth = false;
};
inline DriverTest driver_test;
inline DriverTest& driverTest() { return driver_test; }

inline bool testWantsNative(long long steps) {
  return driverTest().native_after >= 0 && steps >= driverTest().native_after;
}
inline bool testWantsDriven() {
  DriverTest& test = driverTest();
  return test.every <= 1 || test.frames_seen++ % test.every == 0;
}

}  // namespace stator::runtime
