// SPDX-License-Identifier: Apache-2.0
#include "shim/hsa/copies.h"

#include <algorithm>
#include <new>

#include "shim/hsa/gate.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMany = 256;  // from here on those that are done are looked for

std::int64_t load(std::uint64_t signal) { return api().core.hsa_signal_load_scacquire_fn({signal}); }

// Known before it starts, so that none is missed.
template <class Call>
hsa_status_t copy(std::uint32_t count, const hsa_signal_t* waits_for, hsa_signal_t completion, Call&& call) {
  const Gate::Pass pass(gate());
  if (completion.handle != 0) copies().started(completion, load(completion.handle), waits_for, count);
  const hsa_status_t status = call();
  if (status != HSA_STATUS_SUCCESS) copies().used_again(completion);
  return status;
}

hsa_status_t async_copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                        std::size_t size, std::uint32_t count, const hsa_signal_t* waits_for,
                        hsa_signal_t completion) {
  return copy(count, waits_for, completion, [&] {
    return api().amd.hsa_amd_memory_async_copy_fn(to, to_agent, from, from_agent, size, count, waits_for,
                                                  completion);
  });
}

hsa_status_t async_copy_rect(const hsa_pitched_ptr_t* to, const hsa_dim3_t* to_offset,
                             const hsa_pitched_ptr_t* from, const hsa_dim3_t* from_offset,
                             const hsa_dim3_t* range, hsa_agent_t agent, hsa_amd_copy_direction_t direction,
                             std::uint32_t count, const hsa_signal_t* waits_for, hsa_signal_t completion) {
  return copy(count, waits_for, completion, [&] {
    return api().amd.hsa_amd_memory_async_copy_rect_fn(to, to_offset, from, from_offset, range, agent,
                                                       direction, count, waits_for, completion);
  });
}

// On one engine: since ROCm 5.4.
template <class Table>
struct OnEngine {
  template <class F>
  struct Call;
  template <class Engine>
  struct Call<hsa_status_t (*)(void*, hsa_agent_t, const void*, hsa_agent_t, std::size_t, std::uint32_t,
                               const hsa_signal_t*, hsa_signal_t, Engine, bool)> {
    static hsa_status_t run(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                            std::size_t size, std::uint32_t count, const hsa_signal_t* waits_for,
                            hsa_signal_t completion, Engine engine, bool force) {
      const Table& t = api().amd;
      return copy(count, waits_for, completion, [&] {
        return t.hsa_amd_memory_async_copy_on_engine_fn(to, to_agent, from, from_agent, size, count,
                                                        waits_for, completion, engine, force);
      });
    }
  };
  static void hook(Table& t) {
    if constexpr (requires { t.hsa_amd_memory_async_copy_on_engine_fn; })
      replace(t, &Table::hsa_amd_memory_async_copy_on_engine_fn,
              Call<decltype(t.hsa_amd_memory_async_copy_on_engine_fn)>::run);
  }
};

hsa_status_t memory_copy(void* to, const void* from, std::size_t size) {
  const Gate::Pass pass(gate());
  return api().core.hsa_memory_copy_fn(to, from, size);
}

hsa_status_t memory_fill(void* to, std::uint32_t value, std::size_t count) {
  const Gate::Pass pass(gate());
  return api().amd.hsa_amd_memory_fill_fn(to, value, count);
}

hsa_status_t signal_destroy(hsa_signal_t signal) {
  copies().destroyed(signal);
  return api().core.hsa_signal_destroy_fn(signal);
}

}  // namespace

Copies& copies() {
  static Copies* const the = new Copies;
  return *the;
}

void Copies::started(hsa_signal_t completion, std::int64_t value_before, const hsa_signal_t* waits_for,
                     std::uint32_t count) {
  std::lock_guard hold(lock_);
  if (copies_.size() >= kMany) forget_done_locked();
  Copy& c = copies_[completion.handle];
  c.value_before = value_before;
  c.waits_for.clear();
  for (std::uint32_t i = 0; waits_for != nullptr && i < count; ++i)
    if (waits_for[i].handle != 0) c.waits_for.push_back(waits_for[i].handle);
}

void Copies::used_again(hsa_signal_t signal) {
  std::lock_guard hold(lock_);
  copies_.erase(signal.handle);
}

void Copies::destroyed(hsa_signal_t signal) {
  std::lock_guard hold(lock_);
  copies_.erase(signal.handle);
  for (auto& [completion, c] : copies_)
    c.waits_for.erase(std::remove(c.waits_for.begin(), c.waits_for.end(), signal.handle), c.waits_for.end());
}

void Copies::forget_done_locked() {
  for (auto it = copies_.begin(); it != copies_.end();)
    it = load(it->first) < it->second.value_before ? copies_.erase(it) : std::next(it);
}

std::string Copies::busy() {
  std::lock_guard hold(lock_);
  forget_done_locked();
  for (const auto& [completion, c] : copies_)
    if (std::all_of(c.waits_for.begin(), c.waits_for.end(), [](std::uint64_t s) { return load(s) == 0; }))
      return "a copy of the program";
  return {};
}

void Copies::after_fork() { new (&lock_) std::mutex; }

void hook_copies(HsaApiTable& table) {
  replace(*table.core_, &CoreApiTable::hsa_memory_copy_fn, memory_copy);
  replace(*table.core_, &CoreApiTable::hsa_signal_destroy_fn, signal_destroy);
  AmdExtTable& amd = *table.amd_ext_;
  replace(amd, &AmdExtTable::hsa_amd_memory_fill_fn, memory_fill);
  replace(amd, &AmdExtTable::hsa_amd_memory_async_copy_fn, async_copy);
  replace(amd, &AmdExtTable::hsa_amd_memory_async_copy_rect_fn, async_copy_rect);
  OnEngine<AmdExtTable>::hook(amd);
}

}  // namespace klab::shim
