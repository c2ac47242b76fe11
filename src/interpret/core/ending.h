// How the trace ends: with a break and its reason, by being run again with a break forced earlier, or by being run
// again as it is.
#pragma once

#include "breaks/reasons.h"
#include "interpret/core/flow.h"

#include <cstdint>
#include <string>
#include <utility>

namespace stator::interpret {

struct Broke {
  breaks::Reason reason = breaks::Reason::kNone;
  std::string detail;
};

class Ending {
 public:
  struct Restart {
    uint64_t at = 0;  // the instruction before which the next trace breaks; 0: none was asked for
    breaks::Reason reason = breaks::Reason::kNone;
    std::string detail;
  };

  Flow breakWith(breaks::Reason reason, std::string detail) {
    broke_ = {reason, std::move(detail)};
    return Flow::kBreak;
  }
  Flow breakWith(const Broke& why) {
    broke_ = why;
    return Flow::kBreak;
  }
  const Broke& broke() const { return broke_; }
  // The break was met while trying something that need not be: the trace goes on.
  void forgetBreak() {
    broke_ = Broke();
    differentiates_within_ = false;
  }
  // Outside of the instruction that broke its reason is all that one sees of it.
  void nameReason();

  // Behind the break the program differentiates by values that the graph makes, or what it makes for a gradient that is
  // to be differentiated again.
  void noteDifferentiatesWithin() { differentiates_within_ = true; }
  bool differentiatesWithin() const { return differentiates_within_; }

  // What happened since that instruction cannot be undone, or is nothing that an exit can rebuild.
  void restartAt(uint64_t instruction, breaks::Reason reason, std::string detail = "") {
    restart_ = {instruction, reason, std::move(detail)};
  }
  // The same, unless an earlier instruction is known.
  void restartAtEarliest(uint64_t instruction, breaks::Reason reason, std::string detail);
  const Restart& restart() const { return restart_; }
  bool restarts() const { return restart_.at != 0; }

  // The trace changed what it had read.
  void startAnew() { starts_anew_ = true; }
  bool startsAnew() const { return starts_anew_; }

 private:
  Broke broke_;
  Restart restart_;
  bool starts_anew_ = false;
  bool differentiates_within_ = false;
};

}  // namespace stator::interpret
