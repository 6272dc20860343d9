// SPDX-License-Identifier: Apache-2.0
// Inputs and launch sizes that the variant's author has not seen: mutated ones, and those that were declared.
#include <algorithm>

#include <fmt/format.h>

#include "worker/judge_variant.h"

namespace klab::worker {
namespace {

/// What the chunks hold now against `expected`; a chunk that is not in it must be as before. Empty: it agrees.
Result<std::string> difference(Loaded& loaded, const Reference& r, const std::vector<kernels::Hash>& wanted,
                               const std::vector<kernels::Hash>& now,
                               const std::map<ChunkId, validate::ByteBuffer>& expected, Judged& j) {
  Found found;
  for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
    if (now[id] == wanted[id]) continue;
    const auto& c = loaded.chunk(id);
    const auto it = expected.find(id);
    if (it == expected.end())
      return fmt::format("it wrote to {}, which the baseline does not there", loaded.place_name(c.region, c.offset));
    KLAB_TRY(const auto bytes, loaded.download(id));
    found.add(loaded, r.comparator, c, it->second, bytes, {});
  }
  for (const auto& region : found.regions) j.evidence.values.add(region.values);
  if (found.wrong == 0) return std::string();
  if (j.differences.empty()) j.differences = found.differences(loaded);
  return found.sentence(loaded);
}

Result<std::string> ask(Loaded& loaded, const MutatedCase& c, const std::vector<kernels::Hash>& now, Judged& j) {
  bool same = true;
  for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
    if (now[id] == c.after[id]) continue;
    same = false;
    if (c.expected.count(id) == 0)
      return fmt::format("it wrote to {}, which the baseline does not there",
                         loaded.place_name(loaded.chunk(id).region, loaded.chunk(id).offset));
  }
  if (same) return std::string();
  Image actual;
  for (const auto& [id, bytes] : c.expected) {
    KLAB_TRY(auto one, loaded.download(id));
    actual.push_back(std::move(one));
  }
  const auto opinion = c.checker->ask(loaded, actual);
  if (!opinion) {
    if (j.evidence.not_judged.empty()) j.evidence.not_judged = opinion.error().what;
    return std::string();
  }
  return opinion->accepts ? std::string() : "the checker turns it down: " + opinion->reason;
}

void record(Judged& j, std::string kind, std::string what, const std::string& how, bool bounded) {
  if (!how.empty() && (j.evidence.mutated_difference.empty() || !j.evidence.mutation_is_bounded)) {
    j.evidence.mutated_difference = fmt::format("it differs on {}: {}", what, how);
    j.evidence.mutation_is_bounded = bounded;
  }
  j.inputs.push_back({std::move(kind), std::move(what), how.empty() ? "agrees" : how, how.empty()});
}

/// The members of `over` that the variant does not set itself.
replay::LaunchOverride merged(const replay::LaunchOverride& own, const replay::LaunchOverride& over, bool& conflict) {
  replay::LaunchOverride out = over;
  auto take = [&](auto member) {
    conflict = conflict || (own.*member && over.*member);
    if (own.*member) out.*member = own.*member;
  };
  take(&replay::LaunchOverride::grid), take(&replay::LaunchOverride::block), take(&replay::LaunchOverride::cluster);
  take(&replay::LaunchOverride::subgroup_size), take(&replay::LaunchOverride::dynamic_shared_bytes);
  take(&replay::LaunchOverride::entry_point);
  for (const auto& [id, value] : own.spec_constants) out.spec_constants[id] = value;
  for (const auto& [offset, value] : own.push_constants) out.push_constants[offset] = value;
  for (const auto& [name, value] : own.attributes) out.attributes[name] = value;
  return out;
}

std::string describe(const replay::LaunchOverride& over) { return "another launch: " + Json(over).dump(); }

}  // namespace

Status judge_mutated(Loaded& loaded, const Reference& r, const MutatedCase& c, const Variant& v, Judged& j,
                     const Deadline& deadline) {
  std::vector<gpu::Step> steps;
  if (c.states)
    c.states->append(steps, 0);
  else
    KLAB_TRY_VOID(apply_mutation(loaded, c.mutation, r.comparator.layout()));
  v.append(steps);
  KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
  KLAB_TRY(const auto after, loaded.hash_all(deadline));
  ++j.evidence.launches_checked;
  KLAB_TRY(const auto how, c.checker ? ask(loaded, c, after, j) : difference(loaded, r, c.after, after, c.expected, j));
  record(j, "mutated", to_string(c.mutation), how, c.mutation.bounded);
  if (c.states) {
    steps.clear();
    c.states->append(steps, 1);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
  }
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  return {};
}

Status judge_memory(Loaded& loaded, const Reference& r, const Variant& v, Judged& j, const Deadline& deadline) {
  constexpr int kLaunches = 8;
  if (v.symbols.own().empty() || r.comparator.level() == validate::Level::custom) return {};
  std::string how;
  Judged aside;  // what is found here is said as one sentence
  for (int n = 0; n < kLaunches && how.empty(); ++n) {
    // Between two of the captured input comes a mutated one, as often as there is one.
    const MutatedCase* other = n % 2 == 1 && !r.cases.empty() ? &r.cases[static_cast<std::size_t>(n / 2) % r.cases.size()] : nullptr;
    std::vector<gpu::Step> steps;
    if (other != nullptr && other->states)
      other->states->append(steps, 0);
    else if (other != nullptr)
      KLAB_TRY_VOID(apply_mutation(loaded, other->mutation, r.comparator.layout()));
    else
      r.restorer->append(steps, static_cast<std::size_t>(n / 2) % r.images.size());
    v.append(steps, n == 0);
    if (other == nullptr && r.blanker) r.blanker->append(steps);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    ++j.evidence.launches_checked;
    KLAB_TRY(const auto now, loaded.hash_all(deadline));
    if (other != nullptr) {
      KLAB_TRY(how, difference(loaded, r, other->after, now, other->expected, aside));
      steps.clear();
      if (other->states) {
        other->states->append(steps, 1);
        KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
      }
      KLAB_TRY_VOID(loaded.make_pristine(deadline));
    } else {
      Found found;
      for (std::size_t k = 0; k < r.written.size(); ++k) {
        if (now[r.written[k]] == r.expected_hashes[k]) continue;
        KLAB_TRY(const auto bytes, loaded.download(r.written[k]));
        found.add(loaded, r.comparator, loaded.chunk(r.written[k]), r.expected[k], bytes, r.ignore[k]);
      }
      if (found.wrong != 0) how = found.sentence(loaded);
    }
  }
  KLAB_TRY_VOID(put_back(r, loaded, deadline));
  if (!how.empty())
    j.evidence.wrong_launch =
        fmt::format("its result depends on what an earlier launch left in its variable {}: {}", v.symbols.own(), how);
  return {};
}

Result<Redzones> observe_redzones(Loaded& loaded, const Reference& r, const replay::VariantCode& code, const Variant& v,
                                  const Deadline& deadline) {
  Redzones found;
  if (loaded.guarded_bytes() == 0 || r.written.empty() || !r.unusable.empty()) return found;
  constexpr std::uint32_t kOther = 0x3f1c47e5u;
  std::optional<Variant> wide;
  if (loaded.gpu().abilities().bounded_bindings) {
    auto made = make_variant(loaded, code, true);
    if (made)
      wide = std::move(*made);
    else if (made.error().code != ErrorCode::unsupported)
      return fail(made.error());
  }
  const Variant& launched = wide ? *wide : v;
  // What varies anyway says nothing of what was read.
  const bool steady = std::none_of(r.varying.begin(), r.varying.end(), [](const auto& m) { return m.any(); });
  for (const std::uint32_t pattern : {Loaded::kCanary, kOther}) {
    KLAB_TRY_VOID(loaded.fill_guards(pattern, deadline));
    KLAB_TRY(const auto before, loaded.hash_all(deadline));
    std::vector<gpu::Step> steps;
    r.restorer->append(steps, r.images.size() - 1);
    launched.append(steps);
    if (r.blanker) r.blanker->append(steps);
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(const auto now, loaded.hash_all(deadline));
    Found differs;
    for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
      const auto& c = loaded.chunk(id);
      if (loaded.is_guard(id) && now[id] != before[id] && found.wrote.empty()) {
        KLAB_TRY(const auto bytes, loaded.download(id));
        std::uint64_t at = 0;
        while (at < bytes.size() && bytes[at] == static_cast<std::byte>(pattern >> ((c.offset + at) % 4 * 8) & 0xffu)) ++at;
        found.wrote = fmt::format("it wrote outside its buffers: {}", loaded.place_name(c.region, c.offset + at));
      }
      const auto k = std::lower_bound(r.written.begin(), r.written.end(), id);
      if (k == r.written.end() || *k != id || !steady || r.comparator.level() == validate::Level::custom) continue;
      const auto position = static_cast<std::size_t>(k - r.written.begin());
      if (now[id] == r.expected_hashes[position]) continue;
      KLAB_TRY(const auto bytes, loaded.download(id));
      differs.add(loaded, r.comparator, c, r.expected[position], bytes, r.ignore[position]);
    }
    if (differs.wrong != 0 && found.reads.empty())
      found.reads = "its result depends on what lies around its buffers: with other bytes there, " + differs.sentence(loaded);
  }
  KLAB_TRY_VOID(loaded.fill_guards(Loaded::kCanary, deadline));
  KLAB_TRY_VOID(put_back(r, loaded, deadline));
  return found;
}

Status judge_launches(Loaded& loaded, const Reference& r, const replay::VariantCode& code,
                      const std::vector<replay::LaunchOverride>& launches, Judged& j, const Deadline& deadline) {
  for (const replay::LaunchOverride& over : launches) {
    KLAB_TRY_VOID(deadline.check("validating with another launch size"));
    if (r.comparator.level() == validate::Level::custom) {
      j.inputs.push_back({"launch", describe(over), "not tried: the checker knows one launch", true});
      continue;
    }
    bool conflict = false;
    replay::VariantCode other = code;
    other.launch = merged(code.launch, over, conflict);
    if (conflict) {
      j.inputs.push_back({"launch", describe(over), "not tried: the variant sets this itself", true});
      continue;
    }
    KLAB_TRY(const auto baseline, make_variant(loaded, {.launch = over}));
    KLAB_TRY(const auto variant, make_variant(loaded, other));
    std::vector<kernels::Hash> wanted[2];
    std::map<ChunkId, validate::ByteBuffer> expected;
    for (auto& hashes : wanted) {
      KLAB_TRY_VOID(loaded.gpu().run(baseline.steps(), deadline.timeout_ns(kLaunchTimeout)));
      KLAB_TRY(hashes, loaded.hash_all(deadline));
      for (ChunkId id = 0; id < loaded.chunk_count() && &hashes == &wanted[0]; ++id) {
        if (hashes[id] == loaded.pre_hashes()[id] && !contains(r.written, id)) continue;
        KLAB_TRY(expected[id], loaded.download(id));
      }
      KLAB_TRY_VOID(put_back(r, loaded, deadline));
    }
    if (wanted[0] != wanted[1] && r.comparator.level() == validate::Level::bitwise) {
      j.inputs.push_back({"launch", describe(over), "not tried: the captured kernel varies there", true});
      continue;
    }
    ++j.evidence.inputs_tried;
    ++j.evidence.launches_checked;
    KLAB_TRY_VOID(loaded.gpu().run(variant.steps(), deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(const auto now, loaded.hash_all(deadline));
    KLAB_TRY(const auto how, difference(loaded, r, wanted[0], now, expected, j));
    record(j, "launch", describe(over), how, true);
    KLAB_TRY_VOID(put_back(r, loaded, deadline));
    if (!how.empty()) return {};
  }
  return {};
}

}  // namespace klab::worker
