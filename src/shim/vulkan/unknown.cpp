// SPDX-License-Identifier: Apache-2.0
// Commands that are newer than the headers this layer is built with. Their arguments are not known, but their
// first is a command buffer: a small piece of machine code puts the segment that is being recorded in its
// place and jumps on. What such a command sets is not known either, so its command buffer is not split after
// it.
#include <cstring>

#include "shim/vulkan/record.h"
#include "shim/vulkan/registry.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMost = 128;

struct Names {
  std::mutex lock;
  std::vector<std::string> all;
};
Names& names() {
  static Names* const the = new Names;
  return *the;
}

}  // namespace

#if defined(__x86_64__)

// Called by the stubs with the caller's first argument; answers what to put in its place, and where to go on.
extern "C" __attribute__((visibility("hidden"), used)) VkCommandBuffer klab_shim_unknown(
    VkCommandBuffer handle, std::uint64_t index, void** next) {
  CommandBuffer* c = find_commands(handle);
  Device& d = c != nullptr ? *c->device : *find_device(handle);
  *next = reinterpret_cast<void*>(d.unknown[index]);
  if (c == nullptr) return handle;
  const VkCommandBuffer to = c->target();
  c->apply(Effect::unknown);
  return to;
}

// Each stub pushes its number; the rest saves every register that may carry an argument..
asm(R"(
    .pushsection .text
    .hidden klab_shim_stubs
    .globl klab_shim_stubs
    .balign 16
klab_shim_stubs:
    .set klab_i, 0
    .rept 128
    .balign 16
    pushq $klab_i
    jmp klab_shim_common
    .set klab_i, klab_i + 1
    .endr
klab_shim_common:
    pushq %rbp
    movq %rsp, %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    subq $152, %rsp
    andq $-16, %rsp
    movups %xmm0, 0(%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    movq 8(%rbp), %rsi
    leaq 128(%rsp), %rdx
    call klab_shim_unknown
    movq 128(%rsp), %r11
    movups 0(%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    movq %rax, %rdi
    movq -16(%rbp), %rsi
    movq -24(%rbp), %rdx
    movq -32(%rbp), %rcx
    movq -40(%rbp), %r8
    movq -48(%rbp), %r9
    movq %rbp, %rsp
    popq %rbp
    addq $8, %rsp
    jmp *%r11
    .popsection
)");
extern "C" __attribute__((visibility("hidden"))) const char klab_shim_stubs[];

PFN_vkVoidFunction stand_in(Device& d, const char* name, PFN_vkVoidFunction next) {
  std::size_t index = 0;
  if (!quietly([&] {
        std::lock_guard hold(names().lock);
        auto& all = names().all;
        while (index < all.size() && all[index] != name) ++index;
        if (index == all.size() && index < kMost) all.emplace_back(name);
        if (d.unknown.size() < kMost) d.unknown.resize(kMost);
      }) ||
      index >= kMost)
    return next;
  d.unknown[index] = next;
  return reinterpret_cast<PFN_vkVoidFunction>(const_cast<char*>(klab_shim_stubs + 16 * index));
}

#else

PFN_vkVoidFunction stand_in(Device&, const char*, PFN_vkVoidFunction next) { return next; }

#endif

bool is_unknown_command(const char* name) { return std::strncmp(name, "vkCmd", 5) == 0; }

}  // namespace klab::shim
