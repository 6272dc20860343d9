// SPDX-License-Identifier: Apache-2.0
// Mutated inputs: which are tried, which the baseline survives, and what each can tell apart.
#include <algorithm>

#include <fmt/format.h>

#include "validate/oracle.h"
#include "worker/reference.h"

namespace klab::worker {
namespace {

using validate::Mutation;
using validate::MutationKind;

constexpr std::uint64_t kLargestMutated = 1ull << 30;  // bytes: it goes through the host
constexpr std::uint64_t kLargestKept = 256ull << 20;   // bytes: two device copies of each case
constexpr std::size_t kMostTried = 16;
constexpr std::uint64_t kSecondSeed = 64ull << 20;  // bytes: what goes through the host takes its time

bool may_mutate(const Loaded& loaded, std::uint32_t region) {
  const auto& d = loaded.dispatch();
  // As a uniform buffer does, a constant holds sizes and counts.
  if (d.regions[region].kind == bundle::MemoryKind::constant) return false;
  if (d.regions[region].size < 4 || d.regions[region].size > kLargestMutated) return false;
  // Uniform buffers hold sizes and counts: another value there is another launch.
  bool uniform_only = false;
  for (const auto& b : d.bindings) {
    if (b.region != region) continue;
    if (b.kind == bundle::BindingKind::storage_buffer ||
        b.kind == bundle::BindingKind::storage_buffer_dynamic)
      return true;
    uniform_only = true;
  }
  return !uniform_only;
}

/// Whether a region holds floats, and their range. Types that were given or inferred decide; else its bytes do.
Result<bool> floats(const Reference& r, Loaded& loaded, std::uint32_t region, validate::MutationTarget& range) {
  const auto& lanes = r.comparator.layout().floats(region);
  if (lanes.empty() && r.comparator.layout().range_at(region, 0) != nullptr) return false;
  range = {.region = region, .negative = false, .largest = 0};
  bool any = !lanes.empty();
  for (const ChunkId id : loaded.chunks_of(region)) {
    KLAB_TRY(const auto bytes, loaded.pre(id));
    if (!any) {
      if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) continue;
      if (!validate::looks_like_floats(bytes)) return false;
      any = true;
    }
    validate::widen(range, bytes, loaded.chunk(id).offset, lanes);
  }
  return any && range.largest > 0;
}

/// Nothing of what lies there before the launch reaches the result.
bool only_written(const Reference& r, const Loaded& loaded, std::uint32_t region) {
  for (const ChunkId id : loaded.chunks_of(region)) {
    const auto at = std::lower_bound(r.written.begin(), r.written.end(), id);
    if (at == r.written.end() || *at != id) return false;
    if (r.write_only[static_cast<std::size_t>(at - r.written.begin())].count() != loaded.chunk(id).size) return false;
  }
  return true;
}

/// The kernel writes there, and what it leaves depends on what it found.
bool is_kept(const Reference& r, const Loaded& loaded, std::uint32_t region) {
  for (const ChunkId id : loaded.chunks_of(region)) {
    const auto at = std::lower_bound(r.written.begin(), r.written.end(), id);
    if (at != r.written.end() && *at == id && r.dependent[static_cast<std::size_t>(at - r.written.begin())].any())
      return true;
  }
  return false;
}

/// In the order of trying: value changes first, those that may lead a kernel astray last.
Result<std::vector<Mutation>> candidates(const Reference& r, Loaded& loaded, std::uint32_t seed, bool needed) {
  std::vector<Mutation> list;
  Mutation values{.kind = MutationKind::float_values, .seed = seed, .bounded = true};
  Mutation words{.kind = MutationKind::permute_words, .seed = seed};
  Mutation counts{.kind = MutationKind::small_integers, .seed = seed};
  const auto count = static_cast<std::uint32_t>(loaded.dispatch().regions.size());
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> eligible;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!may_mutate(loaded, i) || only_written(r, loaded, i)) continue;
    bytes += loaded.dispatch().regions[i].size;
    if (bytes > kLargestMutated) break;
    eligible.push_back(i);
    validate::MutationTarget range;
    KLAB_TRY(const bool is_float, floats(r, loaded, i, range));
    const bool kept = is_kept(r, loaded, i);
    range.zeros = kept;
    if (kept && !r.comparator.layout().floats(i).empty()) {  // an accumulator, empty or not
      range.region = i;
      values.targets.push_back(range);
    } else if (is_float) {
      values.targets.push_back(range);
    } else {
      words.targets.push_back({.region = i});
      if (kept) counts.targets.push_back({.region = i});
    }
  }
  // All values at once, with two seeds where that is quick; then integers, whose meaning is not known, in another order.
  if (!values.targets.empty()) {
    list.push_back(values);
    values.seed = seed + 1;
    if (bytes <= kSecondSeed) list.push_back(values);
  }
  if (!words.targets.empty()) list.push_back(words);
  if (!counts.targets.empty()) list.push_back(counts);
  if (!needed) return list;
  for (const auto kind : {MutationKind::float_values, MutationKind::permute_words, MutationKind::small_integers,
                          MutationKind::scramble_bytes})
    for (const std::uint32_t i : eligible) {
      const bool is_float = values.target(i) != nullptr;
      if (kind == MutationKind::float_values && !is_float) continue;
      list.push_back({.kind = kind,
                      .targets = {is_float ? *values.target(i) : validate::MutationTarget{.region = i}},
                      .seed = seed,
                      .bounded = kind == MutationKind::float_values});
    }
  // An output that the kernel reads after all, or whose emptiness it relies on.
  for (std::uint32_t i = 0; i < count; ++i)
    if (may_mutate(loaded, i) && only_written(r, loaded, i))
      list.push_back({.kind = MutationKind::scramble_bytes, .targets = {{.region = i}}, .seed = seed});
  if (list.size() > kMostTried) list.resize(kMostTried);
  return list;
}

/// Runs the baseline on one mutated input, and asks the oracle there. The capture is pristine before and
/// after.
Result<MutatedCase> make_case(const Reference& r, Loaded& loaded, const Variant& baseline,
                              const Mutation& mutation, const replay::Checks& checks,
                              std::map<std::string, bool>& oracle, const Deadline& deadline) {
  MutatedCase c{.mutation = mutation};
  KLAB_TRY_VOID(apply_mutation(loaded, mutation, r.comparator.layout()));
  KLAB_TRY(const auto before, loaded.hash_all(deadline));
  validate::OracleInput in;
  in.images.emplace_back();
  // Chunks that could change are kept as they are before the launch.
  std::map<ChunkId, validate::ByteBuffer> start;
  for (const ChunkId id : merge(r.written, chunks_of(loaded, mutation))) {
    KLAB_TRY(start[id], loaded.download(id));
  }
  KLAB_TRY_VOID(loaded.gpu().run(baseline.steps(), deadline.timeout_ns(kLaunchTimeout)));
  KLAB_TRY(c.after, loaded.hash_all(deadline));
  ChunkList chunks;
  for (ChunkId id = 0; id < loaded.chunk_count(); ++id) {
    if (before[id] == c.after[id] && !contains(r.written, id)) continue;
    KLAB_TRY(auto now, loaded.download(id));
    if (start.count(id) == 0) {
      KLAB_TRY(start[id], loaded.pre(id));
    }
    validate::Mask written = validate::differing(start[id], now);
    const auto at = std::lower_bound(r.written.begin(), r.written.end(), id);
    if (at != r.written.end() && *at == id)
      written.merge(r.written_bytes[static_cast<std::size_t>(at - r.written.begin())]);
    chunks.push_back(id);
    in.images[0].push_back(start[id]);
    in.expected.push_back(now);
    in.written.push_back(std::move(written));
    in.ignore.emplace_back();
    c.expected[id] = std::move(now);
  }
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  KLAB_TRY_VOID(keep_states(r, loaded, c));
  if (r.comparator.level() == validate::Level::custom) {
    KLAB_TRY(c.checker, CustomChecker::create(loaded, checks.checker, checks.checker_limit_s, r.comparator.layout(),
                                              chunks, in.expected, to_string(mutation), start));
    in.accepts_state = [&](const validate::OracleInput::State& outcome) {
      const auto opinion = c.checker->ask(loaded, outcome);
      return opinion && opinion->accepts;
    };
  }
  use_check(r, loaded, chunks, in);
  oracle = validate::run_oracle(in);
  return c;
}

}  // namespace

Status add_mutated_cases(Reference& r, Loaded& loaded, const Variant& baseline,
                         const replay::Request& request, const Deadline& deadline) {
  // Never `correct` then, and no mutated run could be compared.
  if (r.varying_elements != 0 || !r.checker_failed.empty()) return {};
  r.mutation_needed = validate::needs_other_input(r.oracle) && r.tolerance_refused.empty();
  KLAB_TRY(const auto tried, candidates(r, loaded, request.seed, r.mutation_needed));
  if (tried.empty()) return {};
  bool varies = false;
  for (const auto& m : r.varying) varies = varies || m.any();
  auto survived = probe_mutations(request, tried, varies, deadline);
  if (!survived) {
    if (survived.error().code == ErrorCode::timeout) return fail(survived.error());
    r.notes.push_back("no mutated inputs were tried: " + survived.error().what);
    return {};
  }
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (!(*survived)[i]) {
      ++r.mutations_dropped;
      continue;
    }
    // The first ones are judged anyway; what follows them is only for what they could not tell apart.
    if (r.mutation_needed && !validate::needs_other_input(r.oracle) && !tried[i].bounded) continue;
    KLAB_TRY_VOID(deadline.check("trying mutated inputs"));
    std::map<std::string, bool> oracle;
    KLAB_TRY(auto c, make_case(r, loaded, baseline, tried[i], request.checks, oracle, deadline));
    bool useful = !r.mutation_needed || (tried[i].bounded && tried[i].targets.size() > 1);
    for (auto& [name, caught] : r.oracle)
      if (!caught && oracle[name]) caught = useful = true;
    if (useful) r.cases.push_back(std::move(c));
  }
  return {};
}

Status keep_states(const Reference& r, Loaded& loaded, MutatedCase& c) {
  const ChunkList list = merge(r.written, chunks_of(loaded, c.mutation));
  if (loaded.bytes_of(list) > kLargestKept) return {};
  Image changed, pristine;
  for (const ChunkId id : list) {
    KLAB_TRY(auto bytes, loaded.pre(id));
    pristine.push_back(std::move(bytes));
    KLAB_TRY(auto other, mutated(loaded, id, c.mutation, r.comparator.layout()));
    changed.push_back(std::move(other));
  }
  auto states = Restorer::create(loaded, list, {&changed, &pristine});
  if (states)
    c.states = std::move(*states);
  else if (states.error().code != ErrorCode::out_of_memory)
    return fail(states.error());
  return {};
}

}  // namespace klab::worker
