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
constexpr std::size_t kMostTried = 16;

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

Result<bool> floats(Loaded& loaded, std::uint32_t region) {
  for (const ChunkId id : loaded.chunks_of(region)) {
    KLAB_TRY(const auto bytes, loaded.pre(id));
    if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) continue;
    return validate::looks_like_floats(bytes);
  }
  return false;
}

bool written(const Reference& r, const Loaded& loaded, std::uint32_t region) {
  const auto list = loaded.chunks_of(region);
  return std::any_of(list.begin(), list.end(), [&](ChunkId id) { return contains(r.written, id); });
}

/// In the order of trying: value changes first, those that may lead a kernel astray last.
Result<std::vector<Mutation>> candidates(const Reference& r, Loaded& loaded, std::uint32_t seed,
                                         bool needed) {
  std::vector<Mutation> list;
  const auto count = static_cast<std::uint32_t>(loaded.dispatch().regions.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!may_mutate(loaded, i) || (!needed && written(r, loaded, i))) continue;
    KLAB_TRY(const bool is_float, floats(loaded, i));
    if (is_float) list.push_back({MutationKind::float_values, i, seed});
    if (!needed && !list.empty()) return list;
  }
  if (!needed) return list;
  for (const auto kind :
       {MutationKind::permute_words, MutationKind::small_integers, MutationKind::scramble_bytes})
    for (std::uint32_t i = 0; i < count; ++i)
      if (may_mutate(loaded, i)) list.push_back({kind, i, seed});
  if (list.size() > kMostTried) list.resize(kMostTried);
  return list;
}

/// Runs the baseline on one mutated input, and asks the oracle there. The capture is pristine before and
/// after.
Result<MutatedCase> make_case(const Reference& r, Loaded& loaded, const Variant& baseline,
                              const Mutation& mutation, std::map<std::string, bool>& oracle,
                              const Deadline& deadline) {
  MutatedCase c{.mutation = mutation};
  KLAB_TRY_VOID(apply_mutation(loaded, mutation));
  KLAB_TRY(const auto before, loaded.hash_all(deadline));
  validate::OracleInput in;
  in.images.emplace_back();
  ChunkList changed;
  // Chunks that could change are kept as they are before the launch.
  std::map<ChunkId, validate::ByteBuffer> start;
  for (const ChunkId id : merge(r.written, loaded.chunks_of(mutation.region))) {
    KLAB_TRY(start[id], loaded.download(id));
  }
  KLAB_TRY_VOID(loaded.gpu().run(baseline.steps(), deadline.timeout_ns(kLaunchTimeout)));
  KLAB_TRY(c.after, loaded.hash_all(deadline));
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
    in.images[0].push_back(start[id]);
    in.expected.push_back(now);
    in.written.push_back(std::move(written));
    in.ignore.emplace_back();
    c.expected[id] = std::move(now);
  }
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  oracle = validate::run_oracle(in);
  return c;
}

}  // namespace

Status add_mutated_cases(Reference& r, Loaded& loaded, const Variant& baseline,
                         const replay::Request& request, const Deadline& deadline) {
  if (r.varying_elements != 0) return {};  // never `correct`, and no mutated run could be compared
  r.mutation_needed = !validate::uncaught(r.oracle).empty();
  KLAB_TRY(const auto tried, candidates(r, loaded, request.seed, r.mutation_needed));
  if (tried.empty()) return {};
  auto survived = probe_mutations(request, tried, deadline);
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
    if (r.mutation_needed && validate::uncaught(r.oracle).empty()) continue;
    KLAB_TRY_VOID(deadline.check("trying mutated inputs"));
    std::map<std::string, bool> oracle;
    KLAB_TRY(auto c, make_case(r, loaded, baseline, tried[i], oracle, deadline));
    bool useful = !r.mutation_needed;
    for (auto& [name, caught] : r.oracle)
      if (!caught && oracle[name]) caught = useful = true;
    if (useful) r.cases.push_back(std::move(c));
  }
  return {};
}

}  // namespace klab::worker
