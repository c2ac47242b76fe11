// __torch_function__ as the trace sees it: whether anything asks for it, whether it is switched off, and the modes that
// are active.
#pragma once

#include "base/ref.h"
#include "tensor/torch_function.h"

#include <vector>

namespace stator::interpret {

class FunctionModes {
 public:
  // A type with __torch_function__ or a mode has come up.
  bool relevant() const { return relevant_; }
  void noteRelevant() { relevant_ = true; }
  // Some stand-in is of another type than the tensors of its node.
  bool anyCasts() const { return any_casts_; }
  void noteCast() { any_casts_ = true; }
  // Modes were active before the trace, and are no torch.device.
  bool outerModes() const { return outer_modes_; }
  void noteOuterModes() { outer_modes_ = true; }

  tensor::TorchFunction state() const { return state_; }
  void setState(tensor::TorchFunction state) { state_ = state; }
  // Active, outermost first; a torch.device stands for its mode.
  std::vector<Ref<>>& modes() { return modes_; }

  // Another state while the scope lives.
  class Scope {
   public:
    Scope(FunctionModes& modes, tensor::TorchFunction state)
        : modes_(modes), before_(modes.state_) {
      modes.state_ = state;
    }
    ~Scope() { modes_.state_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FunctionModes& modes_;
    tensor::TorchFunction before_;
  };

 private:
  bool relevant_ = false;
  bool any_casts_ = false;
  bool outer_modes_ = false;
  tensor::TorchFunction state_ = tensor::torchFunctionState();
  std::vector<Ref<>> modes_;
};

}  // namespace stator::interpret
