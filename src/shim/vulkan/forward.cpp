// SPDX-License-Identifier: Apache-2.0
// Capture mode: every other command goes into the segment that is being recorded. Generated from
// commands.def.
#include "shim/vulkan/record.h"

namespace klab::shim {
namespace {

template <Command C, Effect E, class Pfn>
struct Forward;

template <Command C, Effect E, class R, class... A>
struct Forward<C, E, R(VKAPI_PTR*)(VkCommandBuffer, A...)> {
  static VKAPI_ATTR R VKAPI_CALL call(VkCommandBuffer handle, A... args) {
    using Pfn = R(VKAPI_PTR*)(VkCommandBuffer, A...);
    CommandBuffer* c = find_commands(handle);
    Device& d = c != nullptr ? *c->device : *find_device(handle);
    if constexpr (E == Effect::label && std::is_void_v<R>) {
      // Labels compute nothing. One that begins in a segment and ends in the next makes Mesa up to 22.3 pop
      // from an empty list and write through null at the label after it, so none is passed on while
      // capturing.
      if (c != nullptr) return;
    }
    const Pfn next = reinterpret_cast<Pfn>(d.commands[static_cast<std::size_t>(C)]);
    if (c == nullptr) return next(handle, args...);
    const VkCommandBuffer to = c->target();
    if constexpr (E != Effect::none) c->apply(E);
    return next(to, args...);
  }
};

}  // namespace

std::vector<Hook> forward_hooks() {
  return {
#define KLAB_OWN(name)
#define KLAB_CMD(name, effect)                                                                             \
  {#name, reinterpret_cast<PFN_vkVoidFunction>(&Forward<Command::name, Effect::effect, PFN_##name>::call), \
   kCapture},
#include "shim/vulkan/commands.def"
#undef KLAB_OWN
#undef KLAB_CMD
  };
}

}  // namespace klab::shim
