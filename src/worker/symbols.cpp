// SPDX-License-Identifier: Apache-2.0
#include "worker/symbols.h"

#include <algorithm>

#include <fmt/format.h>

namespace klab::worker {
namespace {
constexpr std::uint64_t kResetTimeoutNs = 60'000'000'000;
}

Result<Symbols> Symbols::create(Loaded& loaded, gpu::CodeId code, bool must_have) {
  Symbols s;
  std::vector<gpu::Step> copies_in, copies_out;
  for (const auto& r : loaded.dispatch().regions) {
    if (!Loaded::is_symbol(r)) continue;
    auto found = loaded.gpu()->symbol(code, r.name, r.size);
    if (!found) {
      Error error = found.error();
      if (error.code == ErrorCode::invalid_data) error.code = ErrorCode::missing_symbol;
      const bool own =
          r.reached_by == bundle::ReachedBy::symbol;  // else only pointers lead there: any module's
      if (found.error().code != ErrorCode::missing_symbol || (must_have && own))
        return fail(std::move(error));
      // Pointers lead to where its state is kept.
      if (const gpu::Placed& home = loaded.placed(r.id); r.address != 0 && home.address != 0)
        s.moved_.push_back({r.address, r.size, home.address});
      if (must_have) {
        s.notes_.push_back(
            fmt::format("variable {} is another code object's: it is restored as plain memory", r.name));
        continue;
      }
      s.notes_.push_back(
          fmt::format("its code has no variable {}: its compiler left it out, or it has another name; the "
                      "captured value is not used",
                      r.name));
      continue;
    }
    const gpu::MemoryId home = loaded.placed(r.id).id;
    copies_in.push_back(gpu::Step::copy_of(found->id, 0, home, 0, r.size));
    // A kernel cannot write a constant.
    if (r.kind == bundle::MemoryKind::module_variable)
      copies_out.push_back(gpu::Step::copy_of(home, 0, found->id, 0, r.size));
    if (r.address != 0 && found->address != 0) s.moved_.push_back({r.address, r.size, found->address});
  }
  if (!must_have) KLAB_TRY_VOID(s.reset_others(loaded, code));
  KLAB_TRY_VOID(s.make_patches(loaded));
  // Variables may hold pointers to variables: words are right in the state before it is copied, and again
  // after.
  if (s.patch_) s.enter_.push_back(gpu::Step::launch_of(s.patch_.id(), false));
  s.enter_.insert(s.enter_.end(), copies_in.begin(), copies_in.end());
  s.leave_ = std::move(copies_out);
  if (s.patch_back_) s.leave_.push_back(gpu::Step::launch_of(s.patch_back_.id(), false));
  return s;
}

/// A result kept from an earlier launch would make later ones fast, and right as long as nothing changes.
Status Symbols::reset_others(Loaded& loaded, gpu::CodeId code) {
  std::string cannot;
  std::vector<gpu::Step> keep;
  for (const auto& v : loaded.gpu()->variables(code, cannot)) {
    const auto& regions = loaded.dispatch().regions;
    const bool captured = std::any_of(regions.begin(), regions.end(), [&](const auto& r) {
      return Loaded::is_symbol(r) && r.name == v.name;
    });
    if (captured || v.constant) continue;
    auto found = loaded.gpu()->symbol(code, v.name, v.size);
    if (!found) {
      notes_.push_back(fmt::format("its own variable {} cannot be reset between launches: {}", v.name, found.error().what));
      continue;
    }
    KLAB_TRY(auto copy, loaded.gpu().allocate(v.size));
    keep.push_back(gpu::Step::copy_of(copy.id(), 0, found->id, 0, v.size));
    reset_.push_back(gpu::Step::copy_of(found->id, 0, copy.id(), 0, v.size));
    own_ += (own_.empty() ? "" : ", ") + v.name;
    initial_.push_back(std::move(copy));
    notes_.push_back(fmt::format("its own variable {} ({} bytes) gets its first value back before each launch", v.name, v.size));
  }
  if (!cannot.empty()) notes_.push_back("variables of its own, if it has any, keep their values from launch to launch: " + cannot);
  if (!keep.empty()) KLAB_TRY_VOID(loaded.gpu().run(keep, kResetTimeoutNs));
  return {};
}

Status Symbols::make_patches(Loaded& loaded) {
  std::vector<kernels::PatchWord> words;
  for (const Loaded::SymbolWord& w : loaded.symbol_words()) {
    const gpu::Placed& home = loaded.placed(w.region);
    for (const Relocator::Moved& m : moved_) {
      if (w.value < m.old_address || w.value - m.old_address >= m.size) continue;
      if (home.address == 0 || (home.address + w.offset) % 8 != 0) {
        notes_.push_back(
            fmt::format("{} at offset {} points into a module variable and could not be rewritten",
                        loaded.region_name(w.region), w.offset));
        break;
      }
      words.push_back({home.address + w.offset, w.value, w.value - m.old_address + m.new_address});
      break;
    }
  }
  words_ = words.size();
  if (words.empty()) return {};
  const std::uint64_t bytes = words.size() * sizeof(kernels::PatchWord);
  KLAB_TRY(list_, loaded.gpu().allocate(bytes));
  KLAB_TRY_VOID(loaded.gpu()->upload(list_.id(), 0, std::as_bytes(std::span(words))));
  const BuiltinBinding binding{list_.id(), 0, bytes};
  for (const bool back : {false, true}) {
    const kernels::PatchPush push{static_cast<std::uint32_t>(words.size()), back ? 1u : 0u};
    KLAB_TRY(auto launch,
             loaded.gpu().builtin("patch", std::span(&binding, 1), std::as_bytes(std::span(&push, 1)),
                                  {kernels::striding_grid(words.size() * 4), 1, 1}));
    (back ? patch_back_ : patch_) = std::move(launch);
  }
  return {};
}

}  // namespace klab::worker
