#include "tensor/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <optional>

namespace stator::tensor {

struct RandomStates::Held {
  // A generator for CUDA is a seed and how far it has come.
  struct Cuda {
    at::Generator generator;
    uint64_t seed, offset;
  };
  std::optional<at::Tensor> cpu;
  std::vector<Cuda> cuda;
};

RandomStates::RandomStates(const Drawn& drawn) {
  if (!drawn.any()) return;
  held_ = std::make_unique<Held>();
  if (drawn.cpu) held_->cpu = at::detail::getDefaultCPUGenerator().get_state();
  for (const int16_t index : drawn.cuda) {
    try {
      const at::Generator& generator = at::globalContext().defaultGenerator(
          c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)));
      held_->cuda.push_back({generator, generator.current_seed(), generator.get_offset()});
    } catch (const c10::Error&) {
      // a CUDA graph is being recorded, whose generators say nothing: what fails there is not run again
      continue;
    }
  }
}

RandomStates::~RandomStates() = default;
RandomStates::RandomStates(RandomStates&&) noexcept = default;
RandomStates& RandomStates::operator=(RandomStates&&) noexcept = default;

void RandomStates::putBack() {
  if (!held_) return;
  if (held_->cpu) at::Generator(at::detail::getDefaultCPUGenerator()).set_state(*held_->cpu);
  for (Held::Cuda& each : held_->cuda) {
    each.generator.set_current_seed(each.seed);
    each.generator.set_offset(each.offset);
  }
}

}  // namespace stator::tensor
