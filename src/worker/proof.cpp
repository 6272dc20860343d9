// SPDX-License-Identifier: Apache-2.0
#include "worker/proof.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/ids.h"
#include "validate/variation.h"
#include "worker/reference.h"

namespace klab::worker {
namespace {

constexpr std::uint32_t kReplays = 8;
// When some elements vary and others never agreed, the captured order may just be a rare one.
constexpr std::uint32_t kMostReplays = 32;
constexpr std::size_t kMostRanges = 1000;

struct Watched {
  validate::ByteBuffer wanted;
  validate::Variation seen;
};

std::string first_difference(Loaded& loaded, ChunkId id, const Watched& w, const validate::Mask& bad) {
  const auto& c = loaded.chunk(id);
  const std::uint64_t at = validate::runs(bad).front().offset / validate::kElement * validate::kElement;
  const std::uint64_t n = std::min<std::uint64_t>(16, c.size - at);
  return fmt::format("{} at offset {}: captured {}, replayed {}", loaded.region_name(c.region), c.offset + at,
                     to_hex(std::span(w.wanted).subspan(at, n)),
                     to_hex(std::span(w.seen.first()).subspan(at, n)));
}

}  // namespace

Result<bundle::Proof> prove(Loaded& loaded, const Variant& baseline, const Deadline& deadline) {
  using bundle::ProofState;
  bundle::Proof proof;
  proof.at = utc_now();
  KLAB_TRY_VOID(loaded.make_pristine(deadline));
  std::map<ChunkId, Watched> watched;
  bool no_post = false;
  std::string outside;
  auto watch = [&](ChunkId id) -> Status {
    if (watched.count(id) != 0) return {};
    KLAB_TRY(auto wanted, loaded.post(id));
    if (wanted.empty()) {  // the region has no post-state: it was not changed
      no_post = true;
      KLAB_TRY(wanted, loaded.pre(id));
    }
    watched[id].wanted = std::move(wanted);
    // It was as captured in the runs before this one.
    for (std::uint32_t k = 0; k < proof.replays; ++k) {
      KLAB_TRY(const auto pre, loaded.pre(id));
      watched[id].seen.add_run(pre, watched[id].wanted);
    }
    return {};
  };
  for (const ChunkId id : loaded.captured_changes()) KLAB_TRY_VOID(watch(id));

  const auto steps = baseline.steps();
  std::uint32_t wanted_replays = 1;
  while (proof.replays < wanted_replays) {
    KLAB_TRY_VOID(deadline.check("replaying for the proof"));
    KLAB_TRY_VOID(loaded.gpu().run(steps, deadline.timeout_ns(kLaunchTimeout)));
    KLAB_TRY(const auto changed, loaded.changed(deadline));
    for (const ChunkId id : changed) {
      if (!loaded.is_guard(id)) KLAB_TRY_VOID(watch(id));
      if (loaded.is_guard(id) && outside.empty())
        outside = "; it writes outside its regions, which the program may not have noticed: " +
                  loaded.region_name(loaded.chunk(id).region);
    }
    ++proof.replays;
    bool all_agree = true, some_never = false, some_vary = false;
    for (auto& [id, w] : watched) {
      KLAB_TRY(const auto now, loaded.download(id));
      w.seen.add_run(now, w.wanted);
      all_agree = all_agree && validate::compare(w.wanted, now).count == 0;
      some_never = some_never || w.seen.never_agreed().any();
      some_vary = some_vary || w.seen.varying().any();
    }
    KLAB_TRY_VOID(loaded.reload(changed));
    if (proof.replays == 1 && all_agree) {
      proof.state = ProofState::equal;
      proof.detail = "the replay gives the captured outcome, bit for bit, in every region" + outside;
      return proof;
    }
    wanted_replays = std::max(wanted_replays,
                              some_never && some_vary && proof.replays >= kReplays ? kMostReplays : kReplays);
  }

  std::string where;
  std::uint64_t varying_elements = 0;
  std::map<std::uint32_t, std::uint64_t> varying_in;
  for (auto& [id, w] : watched) {
    const auto& c = loaded.chunk(id);
    const auto never = w.seen.never_agreed(), varying = w.seen.varying();
    if (never.any() && where.empty()) where = first_difference(loaded, id, w, never);
    proof.differing_bytes += never.count();
    proof.varying_bytes += varying.count();
    varying_elements += varying.count_elements();
    if (varying.any()) varying_in[c.region] += varying.count();
    for (const auto& run : validate::runs(varying)) {
      if (!proof.varying.empty()) {
        auto& last = proof.varying.back();
        if (last.region == c.region && last.offset + last.size == c.offset + run.offset) {
          last.size += run.size;
          continue;
        }
      }
      if (proof.varying.size() < kMostRanges)
        proof.varying.push_back({c.region, c.offset + run.offset, run.size});
    }
  }
  if (proof.differing_bytes != 0) {
    proof.state = ProofState::differs;
    proof.detail = fmt::format("{} byte(s) never agreed with the capture in {} replays, first in {}",
                               proof.differing_bytes, proof.replays, where);
    if (loaded.bundle().manifest().scope == bundle::Scope::reachable)
      proof.detail += "; the kernel may use memory that was not captured: capture again with --scope all";
  } else {
    proof.state = ProofState::nondeterministic;
    std::string regions;
    for (const auto& [region, bytes] : varying_in)
      regions +=
          fmt::format("{}{}: {} bytes", regions.empty() ? "" : ", ", loaded.region_name(region), bytes);
    proof.detail =
        fmt::format("{} elements vary from run to run ({}); everything else is equal in {} replays",
                    varying_elements, regions, proof.replays);
  }
  proof.detail += outside;
  if (no_post) proof.detail += "; regions without a post-state were held against their pre-state";
  return proof;
}

}  // namespace klab::worker
